"""The functions of the template are the modules of functions/handlers, one for one."""

from pathlib import Path

import pytest

from tests.infra.synthesized import synthesized

HANDLERS = Path(__file__).parents[2] / "functions" / "handlers"


@pytest.mark.slow
def test_each_function_is_a_module_and_each_module_a_function() -> None:
    deployed = {each["Handler"] for each in synthesized("dev").of_type("AWS::Lambda::Function").values()}

    modules = {file.stem for file in HANDLERS.glob("*.py")} - {"__init__"}

    assert deployed == {f"functions.handlers.{module}.handler" for module in modules}

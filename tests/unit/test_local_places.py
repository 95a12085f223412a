import pytest

from gnomon.local.places import LOCAL, ROOT, place
from gnomon.local.report import LocalError


def test_the_default_port_keeps_its_stack_file_where_everybody_looks() -> None:
    where = place({})

    assert where.port == 4566
    assert where.endpoint == "http://127.0.0.1:4566"
    assert where.stack_file == ROOT / ".local" / "stack.json"
    assert where.directory == LOCAL / "4566"


def test_another_port_lives_apart() -> None:
    where = place({"GNOMON_PORT": "4599"})

    assert where.endpoint == "http://127.0.0.1:4599"
    assert where.stack_file == LOCAL / "4599" / "stack.json"
    assert where.directory == LOCAL / "4599"


def test_the_stack_file_may_be_named() -> None:
    assert str(place({"GNOMON_STACK": "/somewhere/stack.json"}).stack_file) == "/somewhere/stack.json"


@pytest.mark.parametrize("port", ["abc", "80", "65536", "-4566", "4566.0", "٤٥٦٦"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(LocalError, match=f"GNOMON_PORT is '{port}'"):
        place({"GNOMON_PORT": port})

import pytest

from infra.stage import STAGES
from tests.infra.synthesized import Template, synthesized


@pytest.fixture(scope="session", params=sorted(STAGES))
def template(request: pytest.FixtureRequest) -> Template:
    """Each stage's template in turn."""
    return synthesized(request.param)


@pytest.fixture(scope="session")
def prod() -> Template:
    return synthesized("prod")


@pytest.fixture(scope="session")
def local() -> Template:
    return synthesized("local")

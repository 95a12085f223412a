"""What graphs of jobs write, on the running stack with its permissions: the checks of tests/e2e/smoke_graphs.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.people import People
from tests.e2e.smoke import Smoke
from tests.e2e.smoke_graphs import lists_workflows, moves_an_edge, runs_what_waited
from tests.e2e.stack import Api, Aws, Stack
from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e


@pytest.fixture
def smoke(stack: Stack, aws: Aws, api: Api, endpoint: Endpoint, people: People) -> Iterator[Smoke]:
    smoke = Smoke(stack, aws, api, endpoint, people)
    yield smoke
    smoke.clean_up()


@pytest.mark.parametrize("check", [runs_what_waited, moves_an_edge, lists_workflows])
def test_graphs_are_written_with_the_permissions_there_are(smoke: Smoke, check: Callable[[Smoke], None]) -> None:
    check(smoke)

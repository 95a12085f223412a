"""What the end-to-end tests stand on: the stack that `make up` left running, with IAM enforced."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.client import Client
from gnomon.errors import GnomonApiError
from gnomon.local.places import place
from tests.e2e.letters import Letters
from tests.e2e.people import People
from tests.e2e.stack import Api, Aws, Stack, job_body
from tests.e2e.stories import KilledRun, LostHint, MinuteJob
from tests.e2e.target import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST = ("test_far_jobs",)
"""They look at queues while nothing else is due."""
LAST = ("test_repairs", "test_timing", "test_bursts", "test_fair_shares", "test_kills", "test_contract")
"""Stories that take minutes are begun before the others and looked at here; then comes what loads the machine."""
BESIDE = (
    "test_workers",
    "test_outages",
    "test_grants",
    "test_state_machine",
    "test_limits",
    "test_events",
    "test_retries",
    "test_approvals",
    "test_dependencies",
    "test_results",
    "test_handlers",
    "test_waiting",
)
"""They mostly wait and disturb nobody: they run side by side, before the others. The dead letters have one reader.

Of these, what measures seconds (`on_time`) waits until the machine is quiet.
"""
PATIENT = (
    "test_access",
    "test_machines",
    "test_hostile_requests",
    "test_service",
    "test_graphs",
    "test_workflows",
    "test_contract",
)
"""They run one by one, but measure nothing: a busy machine is good enough."""
_places = itertools.count()


_written = pytest.StashKey[int]()
"""A test's place among those collected."""


def pytest_itemcollected(item: pytest.Item) -> None:
    item.stash[_written] = next(_places)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put these tests into the order of their modules and lines: pytest-randomly shuffles all others."""

    def rank(item: pytest.Item) -> tuple[int, int]:
        name = item.path.stem
        if name in FIRST:
            return FIRST.index(name) - len(FIRST), item.stash[_written]
        return 1 + LAST.index(name) if name in LAST else 0, item.stash[_written]

    here = [item for item in items if item.path.is_relative_to(__file__.rpartition("/")[0])]
    for item in here:
        if item.path.stem in BESIDE and not item.get_closest_marker("on_time"):
            item.add_marker("beside")
        elif item.path.stem in PATIENT:
            item.add_marker("patient")
    if here:
        others = [item for item in items if item not in here]
        items[:] = [*others, *sorted(here, key=rank)]


@pytest.fixture(scope="session")
def stack() -> Stack:
    try:
        return Stack.read(place())
    except OSError as error:
        pytest.fail(f"there is no stack ({error}): `make e2e` starts one", pytrace=False)


@pytest.fixture(scope="session")
def aws(stack: Stack) -> Aws:
    return Aws(stack)


@pytest.fixture(scope="session")
def people(stack: Stack, aws: Aws) -> People:
    return People(stack, aws)


@pytest.fixture(scope="session")
def api(stack: Stack) -> Iterator[Api]:
    api = Api(stack)
    yield api
    api.close()


@pytest.fixture(scope="session")
def scheduler(stack: Stack) -> Iterator[Client]:
    """Most tests' caller."""
    with Client(stack.api_url, stack.tokens["scheduler"]) as client:
        yield client


@pytest.fixture(scope="session")
def admin(stack: Stack) -> Iterator[Client]:
    with Client(stack.api_url, stack.tokens["admin"]) as client:
        yield client


@pytest.fixture(scope="session")
def viewer(stack: Stack) -> Iterator[Client]:
    with Client(stack.api_url, stack.tokens["viewer"]) as client:
        yield client


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().listening() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def letters(stack: Stack, aws: Aws) -> Letters:
    return Letters(aws.sqs, stack.outputs["DeadLetterQueueUrl"])


@pytest.fixture
def create(scheduler: Client) -> Iterator[Callable[..., dict[str, Any]]]:
    """Makes jobs of the scheduler's, and deletes them after the test. Keywords as job_body's."""
    made: list[str] = []

    def create(**changes: Any) -> dict[str, Any]:
        job = scheduler.create_job(job_body(**changes))
        made.append(job["id"])
        return json.loads(json.dumps(job))  # a plain dictionary of its own

    yield create
    for job_id in made:
        with contextlib.suppress(GnomonApiError):
            scheduler.delete_job(job_id)


@pytest.fixture(scope="session")
def minute_job(scheduler: Client, endpoint: Endpoint) -> Iterator[MinuteJob]:
    story = MinuteJob.begin(scheduler, endpoint)
    yield story
    scheduler.delete_job(story.job_id)


@pytest.fixture(scope="session")
def killed_run(stack: Stack, scheduler: Client, endpoint: Endpoint) -> Iterator[KilledRun]:
    story = KilledRun.begin(stack, scheduler, endpoint)
    yield story
    scheduler.delete_job(story.job_id)


@pytest.fixture(scope="session")
def lost_hint(stack: Stack, aws: Aws, scheduler: Client, endpoint: Endpoint) -> Iterator[LostHint]:
    story = LostHint.begin(stack, aws, scheduler, endpoint)
    yield story
    scheduler.delete_job(story.job_id)


def leave_the_minute_alone() -> None:
    """Begin no test around a full minute, whose start is measured."""
    second = time.time() % 60
    if second > 57 or second < 2:
        time.sleep((62 - second) % 60)


@pytest.fixture(autouse=True)
def _long_stories(request: pytest.FixtureRequest) -> None:
    """Begin what takes minutes, where it was asked for, so that the other tests run meanwhile."""
    if request.node.path.stem in FIRST:
        return
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    for name in ("killed_run", "lost_hint", "minute_job"):
        if name in wanted:
            request.getfixturevalue(name)
    if "minute_job" in wanted and request.node.path.stem not in LAST:
        leave_the_minute_alone()

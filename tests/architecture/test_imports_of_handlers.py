"""What each handler imports, seen in a fresh interpreter: nothing of what only others need."""

from __future__ import annotations

from collections.abc import Set
from functools import cache

import pytest

from bench.handlers import INIT, in_a_fresh_interpreter, is_third_party, modules, start, top_level

pytestmark = pytest.mark.slow

API_ONLY = ("pydantic", "pydantic_core", "aws_lambda_powertools.event_handler", "functions.api")
"""What only the API needs: its framework and the models of its bodies."""


@cache
def loaded(handler: str) -> Set[str]:
    return modules(start(handler)).keys()


def belonging(names: Set[str], packages: tuple[str, ...]) -> list[str]:
    return [name for name in names if any(name == one or name.startswith(f"{one}.") for one in packages)]


def test_every_handler_is_looked_at() -> None:
    source = (
        "import pathlib, functions.handlers as h; print(*[p.stem for p in pathlib.Path(h.__path__[0]).glob('*.py')])"
    )

    found = in_a_fresh_interpreter(source).stdout.split()

    assert set(INIT) == set(found) - {"__init__"}


@pytest.mark.parametrize("handler", ["executor", "steps", "sweep", "dead_letters", "jobs"])
def test_the_libraries_of_the_api_stay_with_the_api(handler: str) -> None:
    assert belonging(loaded(handler), API_ONLY) == []


def test_the_api_is_where_they_are() -> None:
    """Otherwise the test above looks for the wrong names."""
    assert all(belonging(loaded("api"), (one,)) for one in API_ONLY)


@pytest.mark.parametrize("handler", sorted(INIT))
def test_cron_is_read_by_croniter_only_when_there_is_one(handler: str) -> None:
    assert belonging(loaded(handler), ("croniter",)) == []


def test_events_are_modelled_where_they_are_told() -> None:
    assert belonging(loaded("lifecycle"), ("functions.events",))
    assert belonging(loaded("lifecycle"), ("aws_lambda_powertools.event_handler", "functions.api")) == []
    assert [name for name in INIT if belonging(loaded(name), ("functions.events",))] == ["lifecycle"]


@pytest.mark.parametrize("handler", ["sweep", "dead_letters", "api", "lifecycle"])
def test_batches_and_targets_belong_to_the_executor(handler: str) -> None:
    only = ("aws_lambda_powertools.utilities.batch", "functions.adapters.http_target", "functions.usecases.executor")

    assert belonging(loaded("executor"), only)
    assert belonging(loaded(handler), only[:2]) == []


def test_users_jobs_run_without_the_engines_libraries() -> None:
    assert {top_level(name) for name in loaded("jobs") if is_third_party(name)} == set()


@pytest.mark.parametrize("handler", [name for name, calls in INIT.items() if calls])
def test_the_collector_works_after_a_cold_start_and_leaves_it_alone(handler: str) -> None:
    source = f"{start(handler)}\nimport gc\nprint(gc.isenabled(), gc.get_freeze_count() > 10_000)"

    assert in_a_fresh_interpreter(source).stdout.split() == ["True", "True"]


def test_the_collector_works_when_the_settings_are_wrong() -> None:
    source = (
        "import gc, os; del os.environ['JOBS_TABLE']\nfrom functions import bootstrap\n"
        "try: bootstrap.api()\nexcept Exception as error: print(type(error).__name__, gc.isenabled())"
    )

    assert in_a_fresh_interpreter(source).stdout.split() == ["SettingError", "True"]


def test_a_poll_loads_one_route_of_the_api() -> None:
    only = ("functions.api.app", "functions.api.drafts", "functions.api.schemas", "functions.usecases.workflows")

    assert belonging(loaded("poll"), ("functions.api",))
    assert belonging(loaded("poll"), only) == []
    assert [name for name in loaded("poll") if name.startswith("functions.api.routes_")] == [
        "functions.api.routes_poll"
    ]


CALLERS = [
    "actions",
    "approvals",
    "bulk",
    "idempotency",
    "reports",
    "retry_configs",
    "rewiring",
    "workers",
    "workflows",
]
"""Use cases that only callers ask for, so that only the API has them."""
POLLS = ["claim_limits", "claiming", "history", "jobs"]
JOBS = ["executor", "graph", "judging", "writing"]
"""Use cases that decide about jobs."""


@pytest.mark.parametrize(
    ("handlers", "others"),
    [
        (["poll"], [name for name in CALLERS if name != "rewiring"]),
        (["executor", "steps", "sweep"], [*CALLERS, *POLLS]),
        (["dead_letters", "lifecycle", "jobs"], [*CALLERS, *POLLS, *JOBS]),
    ],
)
def test_a_function_loads_no_use_case_that_only_others_need(handlers: list[str], others: list[str]) -> None:
    modules_of_others = tuple(f"functions.usecases.{name}" for name in others)

    assert all(belonging(loaded("api"), (one,)) for one in modules_of_others)
    assert {name for handler in handlers for name in belonging(loaded(handler), modules_of_others)} == set()


MADE = """
import sys
own = {c for n, m in list(sys.modules.items()) if n.startswith("functions") for c in vars(m).values()
       if isinstance(c, type) and c.__module__.startswith("functions")}
print(sum("__dataclass_fields__" in vars(c) for c in own),
      sum(hasattr(c, "__pydantic_complete__") for c in own),
      sum(getattr(c, "__pydantic_complete__", False) for c in own))
"""
DATACLASSES = {"api": 94, "poll": 76, "executor": 65, "steps": 65, "sweep": 65, "dead_letters": 48, "lifecycle": 60}
"""How many a cold start may make, a few more than it does: each costs a third of a millisecond, which a NamedTuple, a
plain class, or a module that only its users import does not. Raise a number where what is added is worth that."""


@cache
def made(handler: str) -> tuple[int, int, int]:
    """Dataclasses of ours, models of ours, and how many of these were built, when a handler is ready."""
    dataclasses, models, built = map(int, in_a_fresh_interpreter(f"{start(handler)}\n{MADE}").stdout.split())
    return dataclasses, models, built


@pytest.mark.parametrize("handler", sorted(DATACLASSES))
def test_a_cold_start_makes_few_dataclasses(handler: str) -> None:
    dataclasses, _, _ = made(handler)

    assert 0 < dataclasses <= DATACLASSES[handler]


@pytest.mark.parametrize("handler", ["api", "poll", "lifecycle"])
def test_a_model_is_built_when_it_first_reads_something(handler: str) -> None:
    _, models, built = made(handler)

    assert models > 0
    assert built == 0


def test_the_collector_never_looks_through_what_the_libraries_made() -> None:
    source = "from functions import bootstrap\nimport gc\nprint(gc.isenabled(), gc.get_freeze_count() > 10_000)"

    assert in_a_fresh_interpreter(source).stdout.split() == ["True", "True"]

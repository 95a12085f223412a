"""Values of the domain are compared by what they say, never by which object says it.

A comparison by identity passes for as long as a cache hands out the same object for the same text: equality must not
depend on what else the process has read.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions import domain
from functions.domain.cron import CronExpression
from functions.domain.definition import Definition
from functions.domain.event import Change
from functions.domain.events import events_of
from functions.domain.job_type import TypeConfig
from functions.domain.rescheduling import reschedules
from functions.domain.schedule import Schedule
from functions.domain.silence import Silence, changed
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import JOB_ID, NOW, make_definition, make_document, make_job
from tests.fakes import FakeClock, World
from tests.telling import image

TOOLS = {
    "CronCalendar": "computes for one CronExpression, which compares the fields it was made of",
    "_Item": "reads one item of a cron field",
    "Effort": "counts down",
    "_StrictLexer": "part of an interpreter",
    "_Functions": "part of an interpreter",
    "_Interpreter": "part of an interpreter",
}
"""Classes of the domain whose objects are not values, and why not."""
UNSEEN = {"Definition": {"policy", "bulkhead", "circuit"}}
"""Fields that a comparison leaves out: they come from the configuration, not from what the caller gave."""

EXPRESSIONS = (
    "0 9 * * *",
    "*/5 * * * *",
    "H H * * *",
    "0 0 L * *",
    "0 12 * * FRI#2",
    "0 0 1 1 *",
    "@daily",
    "30 8 * * 5L",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")


def modules() -> list[ModuleType]:
    return [importlib.import_module(f"{domain.__name__}.{one.name}") for one in pkgutil.iter_modules(domain.__path__)]


def classes() -> list[type]:
    found = (
        one
        for module in modules()
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__
    )
    return sorted((one for one in found if not _is_no_value(one)), key=lambda one: (one.__module__, one.__qualname__))


def _is_no_value(one: type) -> bool:
    return issubclass(one, (enum.Enum, BaseException)) or bool(getattr(one, "_is_protocol", False))


def forget() -> None:
    """Empty every cache of the domain."""
    for module in modules():
        for one in vars(module).values():
            if callable(getattr(one, "cache_clear", None)):
                one.cache_clear()


@pytest.mark.parametrize("one", classes(), ids=lambda one: one.__qualname__)
def test_every_class_of_the_domain_is_compared_by_value(one: type) -> None:
    by_value = one.__eq__ is not object.__eq__
    assert by_value != (one.__name__ in TOOLS), "compare it by value, or say in TOOLS why it is none"
    if is_dataclass(one):
        left_out = {each.name for each in fields(one) if not each.compare}
        assert left_out == UNSEEN.get(one.__name__, set())


def test_tools_and_unseen_fields_name_what_exists() -> None:
    assert TOOLS.keys() | UNSEEN.keys() <= {one.__name__ for one in classes()}


# --- the same text, read twice, is the same value ---


def optional(field: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | values.map(lambda value: {field: value})


def schedules() -> st.SearchStrategy[dict[str, Any]]:
    cron = st.builds(
        lambda expression, timezone: {"type": "cron", "expression": expression, "timezone": timezone},
        st.sampled_from(EXPRESSIONS),
        st.sampled_from(ZONES),
    )
    interval = st.integers(1, 100_000).map(lambda every: {"type": "interval", "everySeconds": every})
    once = st.just({"type": "once", "at": "2027-02-01T10:00:00Z"})
    return cron | interval | once


PARTS = (
    schedules().map(lambda schedule: {"schedule": schedule}),
    optional("startAt", st.just("2027-01-20T00:00:00Z")),
    optional("endAt", st.just("2028-01-20T00:00:00Z")),
    optional("spreadSeconds", st.integers(0, 60)),
    optional("retryConfig", st.integers(0, 9).map(lambda retries: {"maxRetries": retries, "retryableErrors": ["A"]})),
    optional("circuitBreaker", st.booleans().map(lambda enabled: {"enabled": enabled})),
    optional("concurrencyKey", st.just("db")).map(lambda key: key and {**key, "maxConcurrency": 2}),
    optional("approval", st.just({"role": "admin", "timeoutSeconds": 900})),
    optional("dependsOn", st.just([{"jobId": "11111111-1111-4111-8111-111111111111"}])),
    optional("alertAfterSeconds", st.integers(60, 900)),
    optional("maxRuns", st.integers(1, 9)),
    optional("priority", st.sampled_from(["low", "normal", "high"])),
    optional("overlapPolicy", st.sampled_from(["skip", "queue", "allow"])),
    optional("misfirePolicy", st.sampled_from(["run_once", "skip", "run_all"])),
    optional("timeoutSeconds", st.integers(1, 800)),
    optional("tags", st.just(["a", "b"])),
)
DOCUMENTS = st.tuples(*PARTS).map(lambda parts: {name: value for part in parts for name, value in part.items()})


@given(DOCUMENTS, st.sampled_from(["{}", '{"a": 1}']))
def test_the_same_document_read_twice_is_the_same_definition(changes: dict[str, Any], payload: str) -> None:
    def read() -> Definition:
        forget()
        return make_definition(payload=payload, **copy.deepcopy(changes))

    one, other = read(), read()
    assert one == other
    assert hash(one.schedule) == hash(other.schedule)
    assert {one.schedule: "found"}[other.schedule] == "found"
    assert one.under(TypeConfig(retry={"maxRetries": 7})) == other


@given(DOCUMENTS, DOCUMENTS)
def test_documents_with_another_schedule_are_other_values(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A comparison that calls everything equal is none."""
    read, read_too = make_definition(**one), make_definition(**other)
    timed = ("schedule", "startAt", "endAt", "spreadSeconds")
    same = all((one.get(name) or None) == (other.get(name) or None) for name in timed)
    assert (read.schedule == read_too.schedule) == same
    assert (read == read_too) == (make_document(**one) == make_document(**other))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_that_name_the_same_times_are_equal(expression: str) -> None:
    one = CronExpression.of(expression, "Europe/Berlin", job_id=JOB_ID)
    forget()
    other = CronExpression.of(f"  {expression.lower()} ", "Europe/Berlin", job_id=JOB_ID, field="expression")
    assert one is not other
    assert (one, hash(one)) == (other, hash(other))
    assert one != CronExpression.of(expression, "Europe/Paris", job_id=JOB_ID)
    assert one != CronExpression.of("7 3 2 1 *", "Europe/Berlin", job_id=JOB_ID)
    assert one != expression


def test_the_same_letters_hashed_for_another_job_are_another_expression() -> None:
    ids = [f"11111111-1111-4111-8111-{number:012d}" for number in range(20)]
    assert len({CronExpression.of("H H * * *", job_id=job_id) for job_id in ids}) > 10
    assert len({CronExpression.of("0 9 * * *", job_id=job_id) for job_id in ids}) == 1


@pytest.mark.parametrize("changes", [{name: None} for name in ("cron", "at", "start_at", "end_at")], ids=str)
def test_each_part_of_a_schedule_counts(changes: dict[str, Any]) -> None:
    full = Schedule.read(
        {
            "schedule": {"type": "cron", "expression": "0 9 * * *"},
            "startAt": "2027-01-20T00:00:00Z",
            "endAt": "2028-01-20T00:00:00Z",
            "spreadSeconds": 5,
        },
        job_id=JOB_ID,
        created_at=NOW,
    )
    full = replace(full, at=NOW)
    assert replace(full, **changes) != full
    assert replace(full, **changes) == replace(full, **changes)


# --- what rests on it: a definition that comes again, in a process that has read it or in one that has not ---


@contextlib.contextmanager
def read_elsewhere() -> Iterator[None]:
    """As if what comes next happened in another process."""
    forget()
    yield
    forget()


CRON = {"schedule": {"type": "cron", "expression": "30 8 * * *", "timezone": "Europe/Berlin"}}
READINGS: list[Callable[[], None]] = [
    forget,
    # As many other expressions as no cache holds.
    lambda: [CronExpression.of(f"{n % 60} {n // 60} 1 1 *") for n in range(1_100)] and None,  # type: ignore[func-returns-value]
]


@pytest.mark.parametrize("meanwhile", READINGS, ids=["another-process", "a-full-cache"])
def test_the_same_definition_does_not_reschedule(meanwhile: Callable[[], None]) -> None:
    job = make_job(document=CRON)
    meanwhile()
    assert not reschedules(job, make_definition(**CRON))
    assert reschedules(job, make_definition(schedule={"type": "cron", "expression": "31 8 * * *"}))
    assert reschedules(job, make_definition(**CRON, maxRuns=3))


def test_the_same_schedule_leaves_a_silence_as_it_was() -> None:
    silence = Silence(after=60, since=NOW)
    with read_elsewhere():
        old = make_definition(**CRON, alertAfterSeconds=60)
    new = make_definition(**CRON, alertAfterSeconds=60, name="another name")
    assert changed(silence, old, new, now=NOW, next_due=NOW + 9_000, succeeded=False) == silence


def test_a_row_read_again_tells_no_change() -> None:
    before = make_job(document=CRON, revision=1)
    with read_elsewhere():
        after = replace(image(before), definition=make_definition(**CRON), seq=before.seq + 1, revision=2)
    assert events_of(Change(before=before, after=after, at=NOW), {}) == ()


def test_a_schedule_put_again_keeps_a_due_run() -> None:
    """A scheduled time that is due is passed over by another schedule only."""
    driver = Driver(World(clock=FakeClock(NOW)), sweeps=False)
    job = driver.create(**CRON)
    due = driver.row(job.id).next_slot
    assert due is not None
    driver.world.clock.advance(due + 5 - driver.clock.now())
    with read_elsewhere():
        draft = JobDraft(document=make_document(**CRON, name="another name"), payload="{}", enabled=None)
        change_job(driver.services, SCHEDULER, job.id, change=lambda _row: draft)
    row = driver.row(job.id)
    assert (row.next_slot, row.gap) == (due, None)

"""Jobs that depend on others: how long they wait, what a retry above them means, and that no crash forgets one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.domain.errors import UnavailableError
from functions.domain.hint import LOOK_SLOT, Hint
from functions.domain.looks import LOOK_EVERY
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.cancelling import cancel_job
from functions.usecases.graph import TELLING_SECONDS
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_document
from tests.fakes import World
from tests.faults import Faults
from tests.graphs import DAY, Graph

COMPLETED = ("COMPLETED", None)
EVERY = {"type": "interval", "everySeconds": 60}
MONTH = 30 * DAY


def at(seconds: float) -> dict[str, Any]:
    return {"type": "once", "at": datetime.fromtimestamp(NOW + seconds, UTC).isoformat()}


def retry(graph: Graph, name: str) -> None:
    retry_job(graph.driver.services, SCHEDULER, graph.ids[name], delay_seconds=0)


def look_at(graph: Graph, name: str) -> None:
    graph.driver.deliver_hint(Hint(graph.ids[name], LOOK_SLOT, 0))


def change(graph: Graph, name: str, *parents: str, enabled: bool | None = None, **document: Any) -> None:
    document["dependsOn"] = [{"jobId": graph.ids[parent]} for parent in parents]
    draft = JobDraft(document=make_document(**document), payload="{}", enabled=enabled)
    change_job(graph.driver.services, SCHEDULER, graph.ids[name], change=lambda _: draft)


# --- a wait is bounded ---


@pytest.mark.parametrize("timeout", [None, 600])
def test_a_wait_is_over_after_its_time(timeout: int | None) -> None:
    graph = Graph()
    graph.job("a", enabled=False)
    graph.job("b", "a", upstreamTimeoutSeconds=timeout)
    until = timeout or 7 * DAY
    graph.run_to(until - 5)
    assert graph.status("b") == ["BLOCKED"]
    graph.run_to(until + 130)
    assert graph.outcomes("b") == [("SKIPPED", "UPSTREAM_TIMEOUT")]


def test_a_wait_costs_a_look_an_hour() -> None:
    graph = Graph()
    graph.job("a", enabled=False)
    graph.job("b", "a")
    graph.run(DAY)
    assert 22 <= sum(handled.reason == "BLOCKED" for handled in graph.driver.handled) <= 26


def test_what_comes_after_its_time_starts_nothing_but_its_retry_does() -> None:
    graph = Graph()
    graph.job("a", enabled=False)
    graph.job("b", "a", upstreamTimeoutSeconds=600)
    graph.run(900)
    graph.fails = {"a"}
    resume_job(graph.driver.services, SCHEDULER, graph.ids["a"])
    graph.run()
    assert graph.outcomes("b") == [("SKIPPED", "UPSTREAM_TIMEOUT")]
    assert graph.status("b") == ["SKIPPED"]
    graph.fails = set()
    retry(graph, "a")
    graph.run()
    assert graph.outcomes("b")[1:] == [COMPLETED]


def test_a_parent_far_ahead_is_waited_for() -> None:
    graph = Graph()
    graph.job("a", schedule=at(MONTH))
    graph.job("b", "a")
    graph.job("c", "b")
    graph.leap_to(8 * DAY)
    graph.run(5_000)
    graph.leap_to(MONTH - 60)
    graph.run_to(MONTH + 60)
    assert graph.outcomes("b") == [COMPLETED]
    assert graph.outcomes("c") == [COMPLETED]


def test_a_parent_far_ahead_may_take_its_time() -> None:
    """While it runs nothing of it is due any more; nor has it been waited for in vain."""
    graph = Graph()
    graph.job(
        "a",
        schedule=at(MONTH),
        retryConfig={"maxRetries": 3, "initialDelaySeconds": 3_000, "maxDelaySeconds": 3_000, "jitter": 0},
    )
    graph.job("b", "a")
    graph.retries["a"] = 2
    graph.leap_to(MONTH - 60)
    for minute in range(0, 100, 10):
        graph.run_to(MONTH + 60 * minute)
        look_at(graph, "b")
        assert graph.status("b") == ["BLOCKED"]
    graph.run_to(MONTH + 7_000)
    assert graph.outcomes("b") == [COMPLETED]


def test_those_after_a_parent_that_waits_are_not_over_before_it_is() -> None:
    graph = Graph()
    graph.job("a", enabled=False)
    graph.job("b", "a", upstreamTimeoutSeconds=DAY)
    graph.job("c", "b", upstreamTimeoutSeconds=3_600)
    graph.run_to(DAY - 60)
    assert graph.status("b", "c") == ["BLOCKED", "BLOCKED"]
    graph.run_to(DAY + 4_000)
    assert graph.outcomes("b") == [("SKIPPED", "UPSTREAM_TIMEOUT")]
    assert graph.outcomes("c") == [("SKIPPED", "UPSTREAM_SKIPPED")]


def test_a_round_that_has_begun_is_bounded_one_that_has_not_is_not() -> None:
    graph = Graph()
    graph.job("a", schedule={"type": "interval", "everySeconds": 40 * DAY})
    graph.job("b", schedule={"type": "interval", "everySeconds": 40 * DAY})
    graph.job("c", "a", "b", upstreamTimeoutSeconds=7_200)
    graph.leap_to(40 * DAY - 60)
    graph.run_to(40 * DAY + 60)
    pause_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    assert graph.outcomes("c") == [COMPLETED]
    graph.leap_to(80 * DAY - 60)
    graph.run_to(80 * DAY + 7_000)
    assert graph.status("c") == ["BLOCKED"]
    graph.run_to(80 * DAY + 7_500)
    assert graph.outcomes("c")[1:] == [("SKIPPED", "UPSTREAM_TIMEOUT")]


def test_an_earliest_start_is_waited_for_after_the_parents() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", schedule=at(3_600))
    graph.run_to(3_590)
    assert graph.calls == {"a": 1}
    assert graph.status("b") == ["SCHEDULED"]
    graph.run_to(3_605)
    assert graph.outcomes("b") == [COMPLETED]


@pytest.mark.parametrize(("given", "start"), [(at(7_200), 7_200), (at(900), 900), (at(560), 600), (None, 600)])
def test_an_earliest_start_is_changed_while_it_is_waited_for(given: dict[str, Any] | None, start: int) -> None:
    graph = Graph(Driver(sweeps=False))
    graph.job("a")
    graph.job("b", "a", schedule=at(3_600))
    graph.run_to(600)
    [slot] = graph.row("b").runs
    change(graph, "b", "a", schedule=given)
    graph.run_to(start - 3)
    assert graph.calls == {"a": 1}
    graph.run_to(start + 5)
    assert graph.outcomes("b") == [COMPLETED]
    assert {one.slot_id for one in graph.driver.executions(graph.ids["b"])} == {slot}


def test_an_earliest_start_is_changed_while_the_job_is_paused() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", schedule=at(3_600))
    graph.run_to(600)
    pause_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    change(graph, "b", "a", schedule=at(900), enabled=None)
    graph.run_to(1_000)
    assert graph.calls == {"a": 1}
    resume_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(5)
    assert graph.outcomes("b") == [COMPLETED]


def test_a_new_earliest_start_moves_no_retry() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", schedule=at(100), retryConfig={"maxRetries": 1, "initialDelaySeconds": 200, "jitter": 0})
    graph.retries["b"] = 1
    graph.run_to(150)
    [before] = graph.row("b").runs.values()
    change(graph, "b", "a", schedule=at(5_000))
    [after] = graph.row("b").runs.values()
    assert after == before


# --- retry from what failed ---


def test_a_chain_goes_on_from_where_it_failed() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a")
    graph.job("c", "b")
    graph.job("d", "c")
    graph.fails = {"b"}
    graph.run()
    assert graph.status(*"abcd") == ["COMPLETED", "FAILED", "SKIPPED", "SKIPPED"]
    graph.fails = set()
    retry(graph, "b")
    graph.run()
    assert graph.status(*"abcd") == ["COMPLETED"] * 4
    assert graph.calls == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert graph.at_rest(*"abcd")


def test_a_join_goes_on_when_all_that_failed_have_been_retried() -> None:
    graph = Graph()
    for name in "abc":
        graph.job(name)
    graph.job("d", *"abc")
    graph.fails = {"a", "b"}
    graph.run()
    assert graph.outcomes("d") == [("SKIPPED", "UPSTREAM_FAILED")]
    graph.fails = set()
    retry(graph, "a")
    retry(graph, "b")
    graph.run()
    assert graph.outcomes("d")[1:] == [COMPLETED]


def test_a_join_waits_for_the_longer_branch_below_what_is_retried() -> None:
    """`d` sees that `b` has come again while `f` still stands as it was: it will come, too."""
    graph = Graph()
    graph.job("a")
    graph.job("b", "a")
    graph.job("e", "a")
    graph.job("g", "e")
    graph.job("h", "g")
    graph.job("f", "h")
    graph.job("d", "b", "f", onUpstreamFailure="fail")
    graph.job("any", ("b", "failure"), "f", join="any")
    graph.fails = {"a"}
    graph.run()
    assert graph.outcomes("d") == [("FAILED", "UPSTREAM_SKIPPED")]
    graph.fails = set()
    retry(graph, "a")
    graph.run()
    assert graph.outcomes("d")[1:] == [COMPLETED]
    assert graph.outcomes("any")[1:] == [COMPLETED]
    assert graph.at_rest(*"abefghd", "any")


def test_a_retry_of_a_run_that_was_never_attempted_is_an_attempt() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", onUpstreamFailure="fail")
    graph.fails = {"a"}
    graph.run()
    retry(graph, "b")
    graph.run()
    assert graph.calls == {"a": 1, "b": 1}
    assert graph.status("b") == ["COMPLETED"]
    assert graph.at_rest("b")


@pytest.mark.parametrize("waits", [True, False])
def test_a_forced_retry_takes_the_results_that_its_run_was_made_for(waits: bool) -> None:
    graph = Graph()
    graph.job("a", schedule=EVERY)
    graph.results["a"] = "1"
    payload = f'{{"n":{{"$from":"{graph.ids["a"]}","path":"@"}}}}'
    graph.job("b", "a", payload=payload, retryConfig={"maxRetries": 1, "initialDelaySeconds": 200, "jitter": 0})
    graph.retries["b"], graph.fails = 1, set() if waits else {"b"}
    graph.run(90)
    graph.results["a"] = "2"
    if not waits:
        pause_job(graph.driver.services, SCHEDULER, graph.ids["b"])
        graph.run(60)
    else:
        graph.run(60)
        assert graph.status("b") == ["RETRYING"]
    graph.fails = set()
    retry(graph, "b")
    graph.run(5)
    sent = [call.payload for call in graph.world.targets.calls if graph.name_of(call.job_id) == "b"]
    assert sent[:2] == ['{"n":1}', '{"n":1}']


# --- pause, cancel and runs by hand of a child ---


def test_a_child_that_was_paused_takes_up_what_it_missed() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", enabled=False)
    graph.run()
    assert graph.status("b") == ["PAUSED"]
    assert graph.at_rest("b")
    resume_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(5)
    assert graph.outcomes("b") == [COMPLETED]


def test_a_pause_holds_a_run_that_was_made_but_not_its_end() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", schedule=at(100))
    graph.run(50)
    pause_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run()
    assert graph.calls == {"a": 1}
    resume_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(5)
    assert graph.status("b") == ["COMPLETED"]
    assert graph.at_rest("b")


def test_a_run_by_hand_is_no_run_for_the_parents() -> None:
    graph = Graph()
    graph.job("a", schedule=at(100))
    graph.job("b", "a")
    execute_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(50)
    assert graph.status("b") == ["BLOCKED"]
    graph.run(100)
    assert graph.calls == {"a": 1, "b": 2}


def test_a_cancel_in_between_ends_the_rest() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", schedule=at(100))
    graph.job("c", "b", onUpstreamFailure="fail")
    graph.run(50)
    cancel_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(50)
    assert graph.outcomes("c") == [("FAILED", "UPSTREAM_CANCELLED")]
    assert graph.row("b").followed.ends == 1


# --- what dies, fails, or takes long ---


@pytest.mark.parametrize("kind", ["crash_before", "crash_after", "lose_answer"])
def test_a_diamond_survives_a_crash_at_every_step(kind: str) -> None:
    for number in range(1, 60):
        faults = Faults()
        graph = Graph(Driver(World(faults=faults)))
        for name, parents in {"a": "", "b": "a", "c": "a", "d": "bc"}.items():
            graph.job(name, *parents, **({} if parents else {"schedule": at(10)}))
        faults.inject(**{kind: number})
        graph.run(1_300)
        assert [graph.runs(name) for name in "abcd"] == [1] * 4, (kind, number)
        assert graph.status(*"abcd") == ["COMPLETED"] * 4, (kind, number)
        assert graph.at_rest(*"abcd"), (kind, number)
        if faults.count < number:
            return
    raise AssertionError("more steps than were thought")


def test_many_dependents_are_told_in_parts() -> None:
    graph = Graph()
    graph.job("a")
    for number in range(130):
        graph.job(f"c{number}", "a")
    of, slow = graph.world.dependents.of, graph.world.clock

    def slowly(parent: str, **page: Any) -> Any:
        slow.advance(TELLING_SECONDS + 1)
        return of(parent, **page)

    graph.world.dependents.of = slowly  # type: ignore[method-assign]
    graph.run(300)
    reasons = [handled.reason for handled in graph.driver.handled]
    assert reasons.count("TELLING") == 2
    assert all(graph.calls[f"c{number}"] == 1 for number in range(130))
    assert graph.at_rest("a")


def slow(graph: Graph) -> None:
    """Each page of dependents takes one message's time."""
    of = graph.world.dependents.of

    def slowly(parent: str, *, after: str | None, limit: int) -> Any:
        graph.world.clock.advance(TELLING_SECONDS + 1)
        return of(parent, after=after, limit=limit)

    graph.world.dependents.of = slowly  # type: ignore[method-assign]


def ends_once_more(graph: Graph, name: str) -> None:
    """A run of it ends, and its dependents are not told yet."""
    execute_job(graph.driver.services, SCHEDULER, graph.ids[name])
    [slot] = graph.row(name).runs
    graph.driver.deliver_hint(Hint(graph.ids[name], slot, 1))


def test_those_at_the_end_of_the_list_are_told_though_there_is_always_another_end() -> None:
    graph = Graph(Driver(sweeps=False))
    graph.job("a", enabled=False)
    for number in range(160):
        graph.job(f"c{number}", "a")
    slow(graph)
    ends_once_more(graph, "a")
    for _ in range(4):
        look_at(graph, "a")
        ends_once_more(graph, "a")
    assert all(graph.row(f"c{number}").runs for number in range(160))
    assert graph.row("a").followed.told == 1
    graph.run(3_000)
    assert all(graph.runs(f"c{number}") == 5 for number in range(160))


def test_an_end_that_comes_in_the_middle_of_a_long_walk_is_told_from_its_beginning() -> None:
    graph = Graph(Driver(sweeps=False))
    graph.job("a", enabled=False)
    graph.job("other", schedule=at(DAY))
    for number in range(60):
        graph.job(f"c{number}", ("a", "failure"), "other", join="any")
    slow(graph)
    ends_once_more(graph, "a")
    look_at(graph, "a")
    graph.fails = {"a"}
    ends_once_more(graph, "a")
    graph.run(300)
    assert all(graph.runs(f"c{number}") == 1 for number in range(60))


def test_a_job_that_is_over_while_it_is_told_is_told_as_that() -> None:
    """Those that were looked at before would wait for more of it."""
    graph = Graph()
    graph.job("a", schedule=EVERY, endAt="2027-01-15T08:02:10Z")
    graph.job("b", "a")
    graph.job("c", "b")
    of, told = graph.world.dependents.of, []

    def and_then(parent: str, **page: Any) -> Any:
        found = of(parent, **page)
        if parent == graph.ids["b"] and not told:
            told.append(parent)
            look_at(graph, "c")
            [slot] = graph.row("c").runs
            graph.driver.deliver_hint(Hint(graph.ids["c"], slot, 1))
            look_at(graph, "c")
            graph.world.timetable.take_due()  # what is left of all this: copies
            pause_job(graph.driver.services, SCHEDULER, graph.ids["a"])
            graph.world.clock.advance(100)
            resume_job(graph.driver.services, SCHEDULER, graph.ids["a"])
            look_at(graph, "a")
            assert graph.row("b").is_over
            return []
        return found

    graph.world.dependents.of = and_then  # type: ignore[method-assign]
    graph.run_to(300)
    assert told
    assert graph.calls == dict.fromkeys("abc", 1)
    assert graph.at_rest("b", "c")


@pytest.mark.parametrize("order", [1, -1])
def test_many_parents_are_read_now_and_then(order: int) -> None:
    """In whatever order they end: each end asks the one that blocked before."""
    graph = Graph()
    names = [f"p{number}" for number in range(200)]
    for place, name in enumerate(names[::order]):
        graph.job(name, schedule=at(60 + place))
    graph.job("child", *names)
    graph.world.jobs.calls.clear()
    graph.run(300)
    assert graph.runs("child") == 1
    assert graph.world.jobs.calls.count("get_rows") < 20


def test_one_dependent_that_fails_hinders_no_other_and_is_told_again() -> None:
    graph = Graph()
    graph.job("a")
    for number in range(5):
        graph.job(f"c{number}", "a")
    get, broken = graph.world.jobs.get, {graph.ids["c2"]}

    def fails(job_id: str, **how: Any) -> Any:
        if job_id in broken and graph.world.clock.now() > NOW + 5:
            raise UnavailableError
        return get(job_id, **how)

    graph.world.jobs.get = fails  # type: ignore[method-assign]
    graph.run(30)
    assert [graph.calls[f"c{number}"] for number in range(5)] == [1, 1, 0, 1, 1]
    assert graph.row("a").followed.told == 0
    broken.clear()
    graph.run(200)
    assert graph.calls["c2"] == 1


def test_a_child_whose_definition_cannot_be_read_is_looked_at_now_and_then() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a")
    graph.job("c", "a")
    graph.world.jobs.lose_definition(graph.ids["b"])
    graph.run(2 * LOOK_EVERY)
    assert graph.status("b", "c") == ["BLOCKED", "COMPLETED"]
    assert sum(handled.reason == "NO_DEFINITION" for handled in graph.driver.handled) < 6
    assert not graph.driver.dead_messages

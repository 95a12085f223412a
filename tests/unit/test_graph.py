"""Jobs that depend on others: what each end of a parent's run means for its child (docs/workflows.md)."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.domain.hint import LOOK_SLOT, Hint
from functions.domain.job import Job
from functions.domain.result import NOT_KEPT
from functions.usecases.actions import execute_job, pause_job, resume_job
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW
from tests.graphs import DAY, Graph

COMPLETED = ("COMPLETED", None)


def at(seconds: float) -> dict[str, Any]:
    return {"type": "once", "at": datetime.fromtimestamp(NOW + seconds, UTC).isoformat()}


EVERY = {"type": "interval", "everySeconds": 60}


def diamond(graph: Graph) -> None:
    graph.job("a")
    graph.job("b", "a")
    graph.job("c", "a")
    graph.job("d", "b", "c")


def once_each(graph: Graph) -> None:
    assert graph.calls == dict.fromkeys("abcd", 1)
    assert graph.status(*"abcd") == ["COMPLETED"] * 4
    assert graph.at_rest(*"abcd")


# --- a diamond ends exactly once ---


def test_each_job_of_a_diamond_runs_once_when_those_before_it_have() -> None:
    graph = Graph()
    diamond(graph)
    assert graph.status(*"abcd") == ["SCHEDULED", "BLOCKED", "BLOCKED", "BLOCKED"]
    graph.run()
    once_each(graph)
    assert graph.row("d").last_run.slot_id[10] == "d"


@pytest.mark.parametrize("seed", range(30))
def test_a_diamonds_messages_come_in_any_order_and_twice(seed: int) -> None:
    graph, choose = Graph(Driver(sweeps=False)), random.Random(seed)
    diamond(graph)
    graph.world.clock.advance(10)
    for _ in range(40):
        due = graph.world.timetable.take_due()
        choose.shuffle(due)
        for delivery in due:
            graph.driver.deliver(delivery)
            if choose.random() < 0.5:
                graph.driver.deliver(delivery)
        graph.world.clock.advance(1)
    once_each(graph)


def test_the_sweep_alone_brings_a_diamond_to_its_end() -> None:
    graph = Graph(Driver(sweeps=False))
    diamond(graph)
    for _ in range(30):
        graph.world.timetable.take_due()  # all that was sent is lost, but for what the sweep sends
        graph.world.clock.advance(60)
        graph.driver.sweep_now()
        for delivery in graph.world.timetable.take_due():
            graph.driver.deliver(delivery)
    once_each(graph)


def test_each_end_is_told_once() -> None:
    """Whoever tells has looked at its own parents before: those below find it settled, and need not hear that, too."""
    graph = Graph()
    diamond(graph)
    of, told = graph.world.dependents.of, []
    graph.world.dependents.of = lambda parent, **page: told.append(graph.name_of(parent)) or of(parent, **page)  # type: ignore[method-assign,func-returns-value]
    graph.run()
    assert sorted(told) == ["a", "b", "c"]
    once_each(graph)


def test_a_look_at_what_has_changed_nothing_changes_nothing() -> None:
    graph = Graph()
    diamond(graph)
    graph.run(5)
    before = {name: graph.row(name).seq for name in "abcd"}
    for name in "abcd":
        graph.driver.deliver_hint(Hint(graph.ids[name], LOOK_SLOT, 0))
    assert {name: graph.row(name).seq for name in "abcd"} == before


# --- which ends meet a dependency, and what becomes of a run that cannot be met ---


@pytest.mark.parametrize(
    ("policy", "outcomes", "status"),
    [
        ("skip", [("SKIPPED", "UPSTREAM_FAILED")], "SKIPPED"),
        ("fail", [("FAILED", "UPSTREAM_FAILED")], "FAILED"),
        ("run", [COMPLETED], "COMPLETED"),
    ],
)
def test_a_parent_fails_under_each_policy(policy: str, outcomes: list[tuple[str, str | None]], status: str) -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", onUpstreamFailure=policy)
    graph.fails = {"a"}
    graph.run()
    assert graph.outcomes("b") == outcomes
    assert graph.status("b") == [status]
    assert graph.calls["b"] == (policy == "run")
    assert graph.at_rest("a", "b")
    letters = [row.error.code for row in graph.world.history.dead_letters if row.job_id == graph.ids["b"]]
    assert letters == (["UPSTREAM_FAILED"] if policy == "fail" else [])


def test_what_cannot_be_met_spreads_down_the_graph() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("skipped", "a")
    graph.job("skipped too", "skipped")
    graph.job("fails for it", "skipped too", onUpstreamFailure="fail")
    graph.job("repairs", ("fails for it", "failure"))
    graph.job("for good", ("a", "failure"))
    graph.fails = {"a"}
    graph.run()
    assert graph.outcomes("skipped") == [("SKIPPED", "UPSTREAM_FAILED")]
    assert graph.outcomes("skipped too") == [("SKIPPED", "UPSTREAM_SKIPPED")]
    assert graph.outcomes("fails for it") == [("FAILED", "UPSTREAM_SKIPPED")]
    assert graph.outcomes("repairs") == [COMPLETED]
    assert graph.outcomes("for good") == [COMPLETED]


@pytest.mark.parametrize(
    ("on", "fails", "outcome"),
    [
        ("success", False, COMPLETED),
        ("success", True, ("SKIPPED", "UPSTREAM_FAILED")),
        ("failure", False, ("SKIPPED", "UPSTREAM_SUCCEEDED")),
        ("failure", True, COMPLETED),
        ("completion", False, COMPLETED),
        ("completion", True, COMPLETED),
    ],
)
def test_which_ends_meet_a_dependency(on: str, fails: bool, outcome: tuple[str, str | None]) -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", ("a", on))
    graph.fails = {"a"} if fails else set()
    graph.run()
    assert graph.outcomes("b") == [outcome]


@pytest.mark.parametrize("on", ["success", "failure", "completion"])
def test_what_was_skipped_or_cancelled_meets_nothing(on: str) -> None:
    graph = Graph()
    graph.job("a", schedule=at(3600))
    graph.job("b", ("a", on))
    graph.job("c", ("b", on))
    cancel_job(graph.driver.services, SCHEDULER, graph.ids["a"])
    graph.run()
    assert graph.outcomes("b") == [("SKIPPED", "UPSTREAM_CANCELLED")]
    assert graph.outcomes("c") == [("SKIPPED", "UPSTREAM_SKIPPED")]


@pytest.mark.parametrize(("result", "outcome"), [('{"rows":0}', False), ('{"rows":3}', True), ("null", False)])
def test_a_condition_on_the_parents_result(result: str, outcome: bool) -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a", when="rows > `0`")
    graph.results["a"] = result
    graph.run()
    assert graph.outcomes("b") == [COMPLETED if outcome else ("SKIPPED", "CONDITION_FALSE")]


@pytest.mark.parametrize("policy", ["skip", "fail", "run"])
@pytest.mark.parametrize("when", ["rows > `0`", "@ == `null`", "`true`"])
@pytest.mark.parametrize("code", sorted(NOT_KEPT))
def test_a_result_that_was_not_kept_is_never_read_as_null(code: str, when: str, policy: str) -> None:
    graph = Graph()
    graph.not_kept = {"a": code}
    graph.job("a")
    graph.job("asks", "a", when=when, onUpstreamFailure=policy)
    graph.job("takes", "a", payload=json.dumps({"$from": graph.ids["a"], "path": "rows"}))
    graph.job("only after", "a")
    graph.run()
    assert graph.outcomes("a") == [COMPLETED]
    last = graph.row("a").last_run
    assert last is not None
    assert (last.error_code, last.ended_by) == (code, None), "the row keeps no error's message: history"
    reason = f"UPSTREAM_{code}"
    wanted = {"skip": ("SKIPPED", reason), "fail": ("FAILED", reason), "run": COMPLETED}
    assert graph.outcomes("asks") == [wanted[policy]]
    assert graph.outcomes("only after") == [COMPLETED]
    [failed] = graph.driver.executions(graph.ids["takes"])
    assert (failed.status.value, failed.final, failed.reason) == ("FAILED", True, "NOT_RETRYABLE")
    assert failed.error is not None
    assert failed.error.code == "PAYLOAD_ERROR"
    assert graph.ids["a"] in failed.error.message
    assert code in failed.error.message
    assert graph.calls["takes"] == 0


@pytest.mark.parametrize("code", sorted(NOT_KEPT))
def test_an_earlier_end_whose_result_was_not_kept_is_known_by_its_own_row(code: str) -> None:
    graph = Graph()
    graph.not_kept = {"a": code}
    graph.job("a", schedule={"type": "interval", "everySeconds": 10}, maxRuns=2)
    graph.job("b", "a", when="@ == `null`")
    graph.run()
    assert set(graph.outcomes("b")) == {("SKIPPED", f"UPSTREAM_{code}")}


def test_one_of_two_that_fails_is_enough_for_all_and_too_little_for_any() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b")
    graph.job("all", "a", "b")
    graph.job("any", "a", "b", join="any")
    graph.fails = {"a"}
    graph.run()
    assert graph.outcomes("all") == [("SKIPPED", "UPSTREAM_FAILED")]
    assert graph.outcomes("any") == [COMPLETED]


def test_any_is_judged_when_the_last_of_its_parents_has_failed() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", schedule=at(300))
    graph.job("any", "a", "b", join="any")
    graph.fails = {"a", "b"}
    graph.run(200)
    assert graph.status("any") == ["BLOCKED"]
    graph.run(200)
    assert graph.outcomes("any") == [("SKIPPED", "UPSTREAM_FAILED")]


def test_any_runs_once_for_parents_that_run_once() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", schedule=at(100))
    graph.job("any", "a", "b", join="any")
    graph.run(50)
    assert graph.calls["any"] == 1
    graph.run(4_000)
    assert graph.calls["any"] == 1
    assert graph.status("any") == ["COMPLETED"]
    assert graph.at_rest("any")


def test_a_run_by_hand_before_any_parent_ended_is_not_the_one_for_them() -> None:
    graph = Graph()
    graph.job("a", schedule=at(100))
    graph.job("b", schedule=at(200))
    graph.job("any", "a", "b", join="any")
    execute_job(graph.driver.services, SCHEDULER, graph.ids["any"])
    graph.run()
    assert graph.calls["any"] == 2


def test_any_of_many_parents_is_looked_at_for_each() -> None:
    """More parents than are read at once: the one that blocks says nothing of the others."""
    graph = Graph()
    for number in range(12):
        graph.job(f"p{number}", schedule=at(DAY) if number == 6 else at(60 + number))
    graph.job("any", *(f"p{number}" for number in range(12)), join="any")
    graph.run(200)
    assert graph.calls["any"] == 1


def test_all_of_many_parents_waits_for_the_last() -> None:
    graph = Graph()
    for number in range(12):
        graph.job(f"p{number}", schedule=at(60 + 10 * (number * 5 % 12)))
    graph.job("all", *(f"p{number}" for number in range(12)))
    graph.run(169)
    assert graph.calls["all"] == 0
    graph.run(20)
    assert graph.calls["all"] == 1


# --- parents that run again and again ---


def test_a_child_runs_once_for_each_run_of_its_parent() -> None:
    graph = Graph()
    graph.job("a", schedule=EVERY)
    graph.job("b", "a")
    graph.run(60 * 10 + 30)
    assert graph.calls == {"a": 10, "b": 10}
    assert graph.status("b") == ["BLOCKED"]


def test_ends_that_a_pause_held_back_are_taken_one_by_one() -> None:
    graph = Graph()
    graph.job("a", schedule=EVERY)
    graph.job("b", "a")
    pause_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(60 * 5 + 30)
    assert graph.calls == {"a": 5}
    assert graph.status("b") == ["PAUSED"]
    assert graph.at_rest("b")
    graph.fails = {"a"}
    graph.run(60)
    graph.fails = set()
    resume_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(20)
    assert graph.outcomes("b") == [COMPLETED] * 5 + [("SKIPPED", "UPSTREAM_FAILED")]
    assert graph.calls["b"] == 5


def test_several_recurring_parents_the_latest_of_each_is_taken() -> None:
    graph = Graph()
    graph.job("a", schedule=EVERY)
    graph.job("b", schedule={"type": "interval", "everySeconds": 180})
    graph.job("c", "a", "b")
    graph.run(60 * 12 + 30)
    assert graph.calls == {"a": 12, "b": 4, "c": 4}
    assert graph.row("c").upstream.marks == (12, 4)


def test_what_has_expired_of_a_parents_ends_is_passed_over() -> None:
    graph = Graph()
    graph.job("a", schedule={"type": "interval", "everySeconds": 10})
    graph.job("b", "a", enabled=False)
    graph.run(5_005)
    for key in [key for key in graph.world.history.ends if key[1] <= 490]:
        del graph.world.history.ends[key]
    reads: list[int] = []
    end = graph.world.history.end
    graph.world.history.end = lambda job, number: reads.append(number) or end(job, number)  # type: ignore[method-assign,func-returns-value]
    resume_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(4)
    assert graph.calls["b"] == 10
    assert len(reads) < 40


# --- parents that have finished, are gone, or come late ---


def test_a_parent_that_has_finished_counts_at_once() -> None:
    graph = Graph()
    graph.job("a")
    graph.run(DAY)
    graph.job("b", "a")
    graph.run(5)
    assert graph.outcomes("b") == [COMPLETED]


def test_a_parent_that_finished_long_ago_leaves_the_retry_window_open() -> None:
    graph = Graph()
    graph.job("a")
    graph.run(DAY)
    graph.job("b", "a", retryConfig={"maxRetries": 1, "retryWindowSeconds": 600})
    graph.fails = {"b"}
    graph.run(5)
    assert graph.row("b").last_run.slot_id[:10] >= str(NOW + DAY)


def test_a_recurring_parent_that_ran_before_counts_from_its_next_run() -> None:
    graph = Graph()
    graph.job("a", schedule=EVERY)
    graph.run(90)
    graph.job("b", "a")
    graph.run(20)
    assert graph.calls == {"a": 1}
    graph.run(60)
    assert graph.calls == {"a": 2, "b": 1}


@pytest.mark.parametrize("how", [cancel_job, delete_job])
@pytest.mark.parametrize("join", ["all", "any"])
def test_a_parent_is_cancelled_or_deleted(how: Any, join: str) -> None:
    graph = Graph()
    graph.job("a", schedule=at(3600))
    graph.job("b")
    graph.job("c", "a", "b", join=join)
    graph.run(5)
    how(graph.driver.services, SCHEDULER, graph.ids["a"])
    graph.run(60)
    assert graph.outcomes("c") == [COMPLETED if join == "any" else ("SKIPPED", "UPSTREAM_CANCELLED")]
    assert graph.at_rest("b", "c")


def test_a_parents_run_is_cancelled() -> None:
    graph = Graph()
    graph.job("a", retryConfig={"maxRetries": 3, "initialDelaySeconds": 100})
    graph.job("b", "a")
    execute_job(graph.driver.services, SCHEDULER, graph.ids["a"])
    row = graph.row("a")
    slot = next(iter(row.runs))
    cancel_execution(graph.driver.services, SCHEDULER, f"{row.id}-{slot}-0001")
    graph.run(5)
    assert graph.outcomes("b") == [("SKIPPED", "UPSTREAM_CANCELLED")]


def test_a_child_that_is_cancelled_starts_nothing_and_is_an_end_itself() -> None:
    graph = Graph()
    graph.job("a")
    graph.job("b", "a")
    graph.job("c", "b")
    cancel_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run()
    assert graph.calls == {"a": 1}
    assert graph.status(*"abc") == ["COMPLETED", "CANCELLED", "SKIPPED"]
    assert graph.at_rest(*"abc")


def test_a_parent_whose_schedule_ends_without_a_run_is_over() -> None:
    graph = Graph()
    graph.job("a", schedule={"type": "interval", "everySeconds": 60}, endAt="2027-01-15T08:01:30Z", enabled=False)
    graph.job("b", "a")
    graph.run(200)
    resume_job(graph.driver.services, SCHEDULER, graph.ids["a"])
    graph.run(60)
    assert graph.outcomes("b") == [("SKIPPED", "UPSTREAM_GONE")]
    assert graph.at_rest("a", "b")


def test_a_parent_that_has_run_and_not_looked_again_counts_at_once() -> None:
    """Its own parents might let it run once more: it is not over, but what it has ended is not lost."""
    graph = Graph(Driver(sweeps=False))
    graph.job("a")
    graph.job("b", "a")
    graph.job("fails")
    graph.fails = {"fails"}
    graph.world.clock.advance(10)
    while graph.row("b").last_run is None:
        for delivery in graph.world.timetable.take_due():
            graph.driver.deliver(delivery)
    assert graph.row("b").waits_for_parents
    graph.job("any", "b", "fails", join="any")
    graph.run(60)
    assert graph.outcomes("any") == [COMPLETED]


def test_an_end_that_comes_while_another_is_told_is_told_as_well() -> None:
    graph = Graph()
    graph.job("a", schedule=EVERY)
    graph.job("b", schedule=at(DAY))
    graph.job("any", "a", "b", join="any")
    graph.fails, of, told = {"a"}, graph.world.dependents.of, []

    def and_then(parent: str, **page: Any) -> Any:
        if told:
            return of(parent, **page)
        told.append(parent)
        for child in of(parent, **page):
            graph.driver.deliver_hint(Hint(child, LOOK_SLOT, 0))
        graph.fails = set()
        execute_job(graph.driver.services, SCHEDULER, graph.ids["a"])
        for delivery in graph.world.timetable.take_due():
            if not delivery.hint.is_look:
                graph.driver.deliver(delivery)
            else:
                graph.world.timetable.duplicate(delivery)
        return []

    graph.world.dependents.of = and_then  # type: ignore[method-assign]
    graph.run(70)
    assert graph.row("a").followed.ends == 2
    assert graph.outcomes("any") == [COMPLETED]


def test_what_counts_no_more_is_no_reason_for_what_is_added() -> None:
    """Under join any, after a run: the parent that stays was enough, whatever became of it."""
    graph = Graph()
    graph.job("a")
    graph.job("gone", enabled=False)
    graph.job("b", "a", "gone", join="any")
    graph.job("new")
    graph.run()
    assert graph.outcomes("b") == [COMPLETED]
    edges = [{"jobId": graph.ids["a"]}, {"jobId": graph.ids["new"]}]

    def change(row: Job) -> JobDraft:
        return JobDraft(document={**row.defined.document, "dependsOn": edges}, payload="{}")

    change_job(graph.driver.services, SCHEDULER, graph.ids["b"], change=change)
    graph.run()
    assert graph.outcomes("b") == [COMPLETED, COMPLETED]
    assert graph.at_rest("a", "b")

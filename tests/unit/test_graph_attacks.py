"""Attacks on jobs that depend on others, and on gates: each found by somebody who tried to break them."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace

import pytest

from functions.domain.commands import decide_retry
from functions.domain.condition import holds
from functions.domain.decision import Write, with_run
from functions.domain.errors import ConflictError
from functions.domain.execution import Execution
from functions.domain.expression import Effort, TooMuchWorkError
from functions.domain.expression_costs import LOOK_STEPS
from functions.domain.following import decide_told, in_its_graph, telling
from functions.domain.ids import dependent_slot_id, slot_id
from functions.domain.job import Followed, JobStatus
from functions.domain.run import LastRun, Outcome, RunState
from functions.usecases import graph as graph_usecase
from functions.usecases.actions import execute_job, pause_job, resume_job
from functions.usecases.cancelling import cancel_job
from functions.usecases.jobs import JobDraft, change_job
from functions.usecases.writing import ruled
from tests.driver import SCHEDULER, Driver
from tests.factories import NOW, make_job, make_run
from tests.graphs import DAY, Graph
from tests.telling import image
from tests.unit.test_approvals import approve, reject, waiting


def test_the_state_machine_calls_no_target_but_the_approved_one() -> None:
    """The payload is changed after the approved attempt was handed to the machine, and before that calls."""
    driver = Driver()
    job = waiting(driver, orchestrated=True)
    approve(driver, job)
    for delivery in driver.world.timetable.take_due():
        driver.deliver(delivery)
    assert driver.row(job.id).status is JobStatus.RUNNING
    draft = JobDraft(document=driver.row(job.id).defined.document, payload='{"changed":true}')
    change_job(driver.services, SCHEDULER, job.id, change=lambda _: draft)
    driver.run_machine()
    driver.run(60)
    assert [call.payload for call in driver.world.targets.calls] == []
    assert driver.row(job.id).status is JobStatus.BLOCKED
    approve(driver, job)
    driver.run(60)
    assert [call.payload for call in driver.world.targets.calls] == ['{"changed":true}']
    assert driver.row(job.id).status is JobStatus.COMPLETED


def test_of_a_cancel_and_a_rejection_at_once_one_is_told_that_it_was_done() -> None:
    """The rejection finds what the cancel has put into history, and lets the row follow it before the cancel does."""
    driver = Driver()
    job = waiting(driver)
    record, refused = driver.world.history.record, []

    def then_reject(execution: Execution) -> Execution:
        stored = record(execution)
        driver.world.history.record = record  # type: ignore[method-assign]
        with pytest.raises(ConflictError) as problem:
            reject(driver, job)
        refused.append(problem.value)
        return stored

    driver.world.history.record = then_reject  # type: ignore[method-assign]
    assert cancel_job(driver.services, SCHEDULER, job.id).status is JobStatus.CANCELLED
    assert refused
    assert driver.row(job.id).cancelled, "for good, as every job whose cancel was answered"


def test_the_conditions_of_one_look_share_what_a_function_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand that are dear, each within its own bound, would take minutes; the look would be repeated for ever."""
    look = Effort(150_000)
    dear = "[@,@][].[@,@][].[@,@][] && `1`"
    rows = json.dumps(list(range(900)))
    assert holds(dear, rows, look)
    with pytest.raises(TooMuchWorkError):
        [holds(dear, rows, look) for _ in range(40)]
    monkeypatch.setattr(graph_usecase, "LOOK_STEPS", 5)
    graph = Graph()
    parents = [f"p{index}" for index in range(8)]
    for parent in parents:
        graph.results[parent] = '{"rows": 1}'
        graph.job(parent)
    graph.job("few", *parents[:2], when="rows")
    graph.job("many", *parents, when="rows")
    graph.run()
    assert graph.outcomes("few") == [("COMPLETED", None)]
    assert graph.outcomes("many") == [("SKIPPED", "CONDITION_TOO_COSTLY")]


def test_a_dependency_check_takes_half_a_second_at_most() -> None:
    """The executor's other calls wait for the processor meanwhile: finding 14's 51 conditions took 4.5 s of it."""
    dear = "map(&[@,@,@,@,@],@)[][][][]|map(&[@,@,@,@,@],@)"
    rows, look, began = json.dumps(list(range(6_000))), Effort(LOOK_STEPS), time.process_time()
    for _ in range(51):
        with contextlib.suppress(TooMuchWorkError):
            holds(dear, rows, look)
    assert time.process_time() - began < 1.5, "51 results are parsed as well"
    assert LOOK_STEPS == 500_000


def test_a_forced_retry_never_takes_the_results_of_the_next_run() -> None:
    graph = Graph()
    graph.job("a")
    waits = {"overlapPolicy": "allow", "retryConfig": {"maxRetries": 0}, "concurrencyKey": "k", "maxConcurrency": 1}
    graph.job("c", "a", **waits)
    graph.fails.add("c")
    graph.run(60)
    assert graph.row("c").upstream.marks == (1,)
    slot = dependent_slot_id(NOW + 70, graph.ids["c"], [(graph.ids["a"], 2)])
    row = ruled(graph.driver.services, graph.row("c"))
    run = make_run(state=RunState.WAITING, attempt=0, fence=0, due_at=NOW + 90, took=(2,))
    row = with_run(replace(row, upstream=replace(row.upstream, marks=(2,))), slot, run)
    with pytest.raises(ConflictError, match="ended next"):
        decide_retry(row, delay=0, now=NOW + 80, write_id="w")
    assert decide_retry(ruled(graph.driver.services, graph.row("c")), delay=0, now=NOW + 80, write_id="w").job.runs


def test_any_of_many_reads_each_end_once_while_another_has_none() -> None:
    """Ten parents that end each minute, and one that ends once a year, which nobody may wait for in vain."""
    graph = Graph()
    reads = []
    end = graph.world.history.end
    graph.world.history.end = lambda *which: reads.append(which) or end(*which)  # type: ignore[method-assign]
    often = [f"p{index}" for index in range(10)]
    for parent in often:
        graph.job(parent, schedule={"type": "interval", "everySeconds": 60})
    graph.job("yearly", schedule={"type": "cron", "expression": "0 0 1 12 *"})
    graph.job("page", *((parent, "failure") for parent in [*often, "yearly"]), join="any")
    graph.run(7_200)
    assert graph.status("page") == ["BLOCKED"]
    reads.clear()
    graph.run(600)
    assert len(reads) < 3_000, "a hundred looks; of each parent 100 ends are kept"
    since = graph.row("page").upstream.since
    assert since is not None
    assert since <= NOW + 120, "the round began with its first end"
    graph.fails.add("p7")
    graph.run(120)
    assert graph.calls["page"] >= 1
    assert graph.status("page") == ["BLOCKED"]


def test_a_parent_that_is_over_without_any_end_keeps_a_row_that_can_be_read() -> None:
    """Its dependents are told of an end before the first: that none comes."""
    graph = Graph()
    parent = graph.job("parent", schedule={"type": "interval", "everySeconds": 60}, endAt="2027-01-15T08:10:00Z")
    graph.job("child", "parent")
    pause_job(graph.driver.services, SCHEDULER, parent.id)
    graph.leap_to(3_600)
    resume_job(graph.driver.services, SCHEDULER, parent.id)
    row = graph.row("parent")
    assert (row.status, row.last_run) == (JobStatus.COMPLETED, None)
    assert replace(image(row), definition=row.definition) == row

    graph.run(120)

    child = graph.row("child")
    assert (child.status, child.last_run and child.last_run.reason) == (JobStatus.SKIPPED, "UPSTREAM_GONE")


@pytest.mark.parametrize("join", ["any", "all"])
def test_another_parent_of_which_nothing_comes_is_no_new_run_for_the_old_ends(join: str) -> None:
    """The child has run for its parent's one end; then a caller lets it depend on a job, too, that never ran."""
    graph = Graph()
    graph.job("a")
    child = graph.job("b", "a")
    gone = graph.job("gone", schedule={"type": "once", "at": "2028-01-01T00:00:00Z"})
    graph.run()
    cancel_job(graph.driver.services, SCHEDULER, gone.id)
    edges = [{"jobId": graph.ids["a"]}, {"jobId": gone.id}]
    document = {**graph.row("b").defined.document, "dependsOn": edges, "join": join}
    draft = JobDraft(document=document, payload="{}")
    change_job(graph.driver.services, SCHEDULER, child.id, change=lambda _: draft)
    graph.run()
    assert graph.calls["b"] == 1
    assert not graph.row("b").waits_for_parents


def test_a_round_that_timed_out_takes_no_end_of_the_next_where_nothing_was_to_come() -> None:
    """`c` takes both each hour; for two nothing came of `b`: its own parent was paused. Then all is well again."""
    graph = Graph()
    hourly = {"type": "cron", "expression": "0 * * * *"}
    graph.job("root", schedule=hourly)
    graph.job("a", schedule=hourly)
    graph.job("b", "root")
    graph.job("c", "a", "b", upstreamTimeoutSeconds=600)
    graph.run_to(3_700)
    assert graph.outcomes("c") == [("COMPLETED", None)]
    pause_job(graph.driver.services, SCHEDULER, graph.ids["root"])
    graph.run_to(3 * 3_600 + 1_800)
    assert graph.outcomes("c")[1:] == [("SKIPPED", "UPSTREAM_TIMEOUT")] * 2
    resume_job(graph.driver.services, SCHEDULER, graph.ids["root"])
    graph.run_to(6 * 3_600 + 1_800)
    assert graph.outcomes("c")[3:] == [("COMPLETED", None)] * 3


def test_a_grandparent_that_cannot_be_read_fails_no_look() -> None:
    graph = Graph()
    graph.job("top")
    graph.job("a", "top")
    graph.job("b")
    graph.job("c", "a", "b")
    graph.run()
    assert graph.outcomes("c") == [("COMPLETED", None)]
    graph.world.jobs.spoil(graph.ids["top"])
    execute_job(graph.driver.services, SCHEDULER, graph.ids["b"])
    graph.run(1_200)
    child = graph.row("c")
    assert child.upstream is not None
    assert child.upstream.look_at is not None
    assert child.upstream.look_at > graph.world.clock.now()
    graph.world.jobs.spoil(graph.ids["top"], mended=True)
    graph.run(2 * 3_600)
    assert graph.outcomes("c") == [("COMPLETED", None)] * 2


def test_a_run_by_hand_is_none_for_the_last_end_of_a_parent_that_is_over() -> None:
    """It began to depend on one that runs each minute and had ended before, and is over without another end."""
    graph = Graph()
    parent = graph.job("a", schedule={"type": "interval", "everySeconds": 60}, endAt="2027-01-15T08:10:00Z")
    graph.run_to(130)
    pause_job(graph.driver.services, SCHEDULER, parent.id)
    graph.run_to(200)
    graph.job("first", "a")
    graph.job("c", "a")
    execute_job(graph.driver.services, SCHEDULER, graph.ids["c"])
    graph.run_to(3_600)
    resume_job(graph.driver.services, SCHEDULER, parent.id)
    graph.run(600)
    assert graph.runs("first") == 1
    assert graph.runs("c") == 2, "by hand, and for its parent"


def test_a_wait_that_may_end_sooner_is_told_also_to_those_whom_a_walk_has_passed() -> None:
    """The walk for an end is under way when what the parent waits for is no more; its children looked before that."""
    last = LastRun(slot_id=slot_id(NOW), attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW)
    at_gate = make_run(state=RunState.WAITING, attempt=0, due_at=NOW + 2 * DAY, waits_for="approval")
    slot = slot_id(NOW + 60)
    waits = with_run(make_job(last_run=last, followed=Followed(ends=1, told=0)), slot, at_gate)
    walk = telling(waits)
    assert walk is not None
    passed = replace(at_gate, waits_for=None, due_at=NOW + 90)
    sooner, hints = in_its_graph(waits, with_run(waits, slot, passed), now=NOW + 90)
    assert hints
    again = decide_told(sooner, walk._replace(done=True), now=NOW + 90)
    assert isinstance(again, Write)
    assert again.reason == "TOLD_ANEW"
    anew = telling(again.job)
    assert anew is not None
    told = decide_told(again.job, anew._replace(done=True), now=NOW + 91)
    assert isinstance(told, Write)
    assert told.job.followed == Followed(ends=1, told=1)

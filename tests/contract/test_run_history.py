"""RunHistory: the first row of an attempt is the decision about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import InvalidFieldError
from functions.domain.execution import ExecutionStatus, SkippedSlots
from functions.domain.job import Gap, SkipReason
from functions.domain.run import LastRun, Outcome
from tests.contract.conftest import at_once
from tests.factories import JOB_ID, NOW, make_execution, new_id

GAP = Gap(first=NOW + 60, last=NOW + 180, count=3, reason=SkipReason.OVERLAP)


@pytest.mark.parametrize(
    "execution",
    [
        make_execution(result='{"ok":true}'),
        make_execution(status=ExecutionStatus.FAILED, final=False, next_retry_at=NOW + 10, attempt=2),
        make_execution(status=ExecutionStatus.TIMED_OUT, reason="TIMEOUT", completed_at=NOW + 61.123456),
        make_execution(status=ExecutionStatus.CANCELLED, started_at=None, slot_id=f"{NOW}mabcdefgh", fence=0),
    ],
    ids=lambda execution: execution.status,
)
def test_an_execution_is_read_as_it_was_recorded(history, execution):
    assert history.record(execution) == execution
    assert history.get(JOB_ID, execution.slot_id, execution.attempt) == execution


def test_an_attempt_without_a_row_is_none(history):
    history.record(make_execution(attempt=2))

    assert history.get(JOB_ID, f"{NOW}", 1) is None


def test_the_first_row_of_an_attempt_stays(history):
    first = history.record(make_execution(status=ExecutionStatus.CANCELLED))

    assert history.record(make_execution(result="1")) == first
    assert history.get(JOB_ID, f"{NOW}", 1) == first


@pytest.mark.case(31)
def test_a_record_whose_answer_was_lost_is_the_own_row(history, faults):
    execution = make_execution(result="1")
    faults.inject(lose_answer=1)

    assert history.record(execution) == execution


def test_all_of_many_parallel_recorders_see_one_decision(history):
    answers = at_once(12, lambda number: history.record(make_execution(fence=number)))

    assert len({answer.write_id for answer in answers}) == 1
    assert history.get(JOB_ID, f"{NOW}", 1) == answers[0]


def rows(history: Any, limit: int = 50, beside: Any = ()) -> list[Any]:
    found, cursor = [], None
    while True:
        page = history.list(JOB_ID, limit=limit, cursor=cursor, beside=beside)
        assert len(page.items) <= limit
        found += page.items
        if page.cursor is None:
            return found
        cursor = page.cursor


def test_a_gap_grows_and_never_shrinks(history):
    history.record_gap(JOB_ID, GAP, now=NOW + 200.5)
    longer = replace(GAP, last=NOW + 240, count=4)
    history.record_gap(JOB_ID, longer, now=NOW + 300)
    history.record_gap(JOB_ID, GAP, now=NOW + 400)
    history.record_gap(JOB_ID, longer, now=NOW + 500)

    assert rows(history) == [
        SkippedSlots(
            job_id=JOB_ID, first=GAP.first, last=NOW + 240, count=4, reason=SkipReason.OVERLAP, recorded_at=NOW + 300
        )
    ]


def test_a_gap_whose_answer_was_lost_is_recorded(history, faults):
    faults.inject(lose_answer=1)

    history.record_gap(JOB_ID, GAP, now=NOW)

    assert [row.count for row in rows(history)] == [3]


def test_history_is_newest_first_over_pages(history):
    attempts = [make_execution(slot_id=f"{NOW + 60 * (n // 3)}", attempt=n % 3 + 1) for n in range(10)]
    manual = make_execution(slot_id=f"{NOW + 60}mabcdefgh")
    for execution in [*attempts, manual, make_execution(job_id=new_id())]:
        history.record(execution)
    history.record_gap(JOB_ID, GAP, now=NOW)

    listed = rows(history, limit=3)

    assert listed == rows(history)
    names = [f"gap {row.first}" if isinstance(row, SkippedSlots) else f"{row.slot_id}-{row.attempt}" for row in listed]
    assert names == [
        f"{NOW + 180}-1",
        *(f"{NOW + 120}-{n}" for n in (3, 2, 1)),
        f"{NOW + 60}mabcdefgh-1",
        *(f"{NOW + 60}-{n}" for n in (3, 2, 1)),
        f"gap {NOW + 60}",
        *(f"{NOW}-{n}" for n in (3, 2, 1)),
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
@pytest.mark.parametrize("place", ["newest", "between", "oldest", "stored"])
def test_what_has_no_row_is_listed_in_its_place(history, limit, place):
    """Pages stay as long as asked for, and each entry is on one of them."""
    slots = {"newest": NOW + 900, "between": NOW + 150, "oldest": NOW, "stored": NOW + 200}
    beside = make_execution(slot_id=f"{slots[place]}", result='"beside"')
    stored = [make_execution(slot_id=f"{NOW + 100 * number}") for number in range(1, 4)]
    for execution in stored:
        history.record(execution)
    expected = {one.slot_id: one for one in stored} | {beside.slot_id: beside}

    assert rows(history, limit, [beside]) == [expected[slot] for slot in sorted(expected, reverse=True)]


def test_what_has_no_row_is_listed_alone(history):
    beside = make_execution()

    assert rows(history, 1, [beside]) == [beside]


@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize(("stored", "shown"), [(None, 4), (2, 4), (4, 4), (6, 6)])
def test_a_gap_is_listed_once_however_much_of_it_history_has(history, limit, stored, shown):
    """By the row that knows more of it: it grows while it is only in the job's row."""
    for number in range(3):
        history.record(make_execution(slot_id=f"{NOW + 600 * number}"))
    if stored is not None:
        history.record_gap(JOB_ID, replace(GAP, last=GAP.first + 60 * stored, count=stored), now=NOW)
    gap = SkippedSlots(
        job_id=JOB_ID, first=GAP.first, last=GAP.first + 240, count=4, reason=GAP.reason, recorded_at=NOW + 1
    )
    kept = make_execution(slot_id=f"{NOW + 300}")

    listed = rows(history, limit, [kept, gap])

    assert [one.count if isinstance(one, SkippedSlots) else int(one.slot_id) - NOW for one in listed] == [
        1200,
        600,
        300,
        shown,
        0,
    ]


def test_the_last_full_page_has_no_cursor(history):
    for attempt in (1, 2):
        history.record(make_execution(attempt=attempt))

    assert history.list(JOB_ID, limit=2, cursor=None).cursor is None


@pytest.mark.slow
def test_pages_of_large_results_are_complete(history):
    for attempt in range(1, 61):
        history.record(make_execution(attempt=attempt, result='"' + "x" * 32_000 + '"'))

    assert [row.attempt for row in rows(history, limit=55)] == list(range(60, 0, -1))


@pytest.mark.case(26)
def test_a_cursor_of_another_job_is_refused(history):
    other = new_id()
    for attempt in (1, 2):
        history.record(make_execution(attempt=attempt))
        history.record(make_execution(job_id=other, attempt=attempt))
    cursor = history.list(other, limit=1, cursor=None).cursor

    for token in (cursor, cursor[:-1], "x"):
        with pytest.raises(InvalidFieldError) as refused:
            history.list(JOB_ID, limit=1, cursor=token)
        assert refused.value.field == "cursor"


END = LastRun(
    slot_id=f"{NOW}dabcdefgh",
    attempt=2,
    outcome=Outcome.SKIPPED,
    fence=7,
    ended_at=NOW + 30,
    error_code="HTTP_503",
    reason="UPSTREAM_FAILED",
    ended_by="w-9",
    started_at=NOW + 1.5,
    completed_at=NOW + 29.25,
    result='{"rows":3}',
)


@pytest.mark.parametrize(
    "end", [END, LastRun(slot_id=f"{NOW}", attempt=1, outcome=Outcome.COMPLETED, fence=1, ended_at=NOW)]
)
def test_an_end_is_read_as_it_was_recorded(history, end):
    history.record_end(JOB_ID, 3, end)

    assert history.end(JOB_ID, 3) == end
    assert history.end(JOB_ID, 2) is None
    assert history.end(new_id(), 3) is None


def test_the_first_end_of_a_number_stays(history):
    history.record_end(JOB_ID, 1, END)
    history.record_end(JOB_ID, 1, replace(END, outcome=Outcome.COMPLETED))
    history.record_end(JOB_ID, 2, replace(END, attempt=3))

    assert history.end(JOB_ID, 1) == END
    assert history.end(JOB_ID, 2).attempt == 3


@pytest.mark.case(31)
def test_an_end_whose_answer_was_lost_is_recorded(history, faults):
    faults.inject(lose_answer=1)

    history.record_end(JOB_ID, 1, END)

    assert history.end(JOB_ID, 1) == END


def test_all_of_many_parallel_writers_leave_one_end(history):
    answers = at_once(8, lambda number: history.record_end(JOB_ID, 1, replace(END, fence=number)))

    assert answers == [None] * 8
    stored = history.end(JOB_ID, 1)
    assert replace(stored, fence=7) == END
    history.record_end(JOB_ID, 1, END)
    assert history.end(JOB_ID, 1) == stored


def test_ends_are_no_entries_of_the_history(history):
    for number in (1, 2, NOW):
        history.record_end(JOB_ID, number, END)
    execution = history.record(make_execution())

    assert rows(history) == [execution]
    assert history.get(JOB_ID, END.slot_id, END.attempt) is None

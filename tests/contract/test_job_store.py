"""JobStore: conditional writes of the state row, definitions beside it, and the two indexes."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from functions.domain.definition import Priority
from functions.domain.errors import InvalidFieldError, JobExistsError, LostRaceError, UnreadableRowError
from functions.domain.job import Followed, Gap, SkipReason, Upstream
from functions.domain.run import Approval, Decision, LastRun, Outcome, RunState
from tests.contract.conftest import at_once
from tests.factories import JOB_ID, NOW, make_definition, make_job, make_run, new_id
from tests.faults import Crash

BIG = '{"text":"' + "x" * 2_000 + '"}'


def full_job(**changes: Any) -> Any:
    """A job no field of which has its default, but for those that only graphs of jobs have."""
    return make_job(
        **{
            "revision": 3,
            "seq": 41,
            "write_id": "w-41",
            "revised_by": "w-30",
            "priority": Priority.HIGH,
            "spread": 17,
            "next_slot": NOW + 120,
            "last_slot": NOW + 60,
            "runs": MappingProxyType(
                {
                    f"{NOW + 60}": make_run(fence=9, started_at=NOW + 60.125, started_by="w-40", manual=True),
                    f"{NOW}mabcdefgh": make_run(
                        state=RunState.WAITING,
                        attempt=2,
                        due_at=NOW + 90,
                        waits_for="worker:team-a/reports",
                        deferrals=3,
                        deferred_for="WAITS_FOR_WORKER",
                        deferred_at=NOW + 80,
                    ),
                    f"{NOW + 61}": make_run(state=RunState.QUEUED),
                }
            ),
            "fence": 9,
            "gap": Gap(first=NOW, last=NOW + 60, count=2, reason=SkipReason.OVERLAP),
            "catch_up_to": NOW + 240,
            "starts": 5,
            "brake_minute": NOW // 60,
            "brake_count": 4,
            "attention_at": NOW + 75,
            "wakes": 2,
            "paused": True,
            "cancelled": True,
            "last_run": LastRun(
                slot_id=f"{NOW}",
                attempt=4,
                outcome=Outcome.PERMANENTLY_FAILED,
                fence=8,
                ended_at=NOW + 30,
                error_code="HTTP_503",
            ),
            **changes,
        }
    )


def job_of_a_graph(**changes: Any) -> Any:
    """The others: a job between others, whose run waits at a gate."""
    run = make_run(
        state=RunState.WAITING,
        due_at=NOW + 3_600,
        waits_for="approval",
        took=(3, 0, 12),
        verdict=Outcome.SKIPPED,
        verdict_for="UPSTREAM_FAILED",
        approval=Approval(decision=Decision.APPROVED, by="bob", at=NOW + 70, comment="Fine,\nby me"),
    )
    last = LastRun(
        slot_id=f"{NOW}dabcdefgh",
        attempt=1,
        outcome=Outcome.SKIPPED,
        fence=1,
        ended_at=NOW + 30,
        reason="UPSTREAM_TIMEOUT",
    )
    return make_job(
        **{
            "runs": MappingProxyType({f"{NOW + 62}dabcdefgh": run}),
            "last_run": last,
            "upstream": Upstream(marks=(2, 0, 11), look_at=NOW + 3_600, since=NOW - 5, blocked_by=1),
            "followed": Followed(ends=7, told=6, cursor=JOB_ID, once=True),
            **changes,
        }
    )


def test_a_job_of_a_graph_is_read_as_it_was_put(jobs):
    job = job_of_a_graph()

    put = jobs.create(job)

    assert jobs.get(put.id) == put
    assert replace(put, definition_row=None) == job


@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_a_job_is_read_as_it_was_put(jobs, payload):
    job = full_job(payload=payload)

    put = jobs.create(job)

    assert jobs.get(job.id) == put
    assert replace(put, definition_row=None) == job
    assert (put.definition_row is None) == (payload == "{}")


def test_a_deleted_job_is_read_as_it_was_put(jobs):
    put = jobs.create(full_job(deleted_at=NOW + 5))

    assert jobs.get(put.id) == put


def test_a_job_that_is_not_there_is_none(jobs):
    assert jobs.get(new_id()) is None


def test_a_taken_id_is_refused_and_the_first_job_stays(jobs):
    first = jobs.create(make_job())

    with pytest.raises(JobExistsError):
        jobs.create(make_job(owner="team-b", payload=BIG))

    assert jobs.get(first.id) == first


@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_a_creation_whose_answer_was_lost_succeeds(jobs, faults, payload):
    job = make_job(payload=payload)
    faults.inject(lose_answer=1 if payload == "{}" else 2)

    put = jobs.create(job)

    assert jobs.get(job.id) == put


def test_a_creation_whose_answer_was_lost_succeeds_although_somebody_wrote_since(jobs, faults):
    job = make_job()

    def start() -> None:
        read = jobs.get(job.id)
        jobs.save(read, replace(read, write_id="other", last_slot=NOW))

    faults.inject(lose_answer=1, meanwhile=start)

    jobs.create(job)

    assert jobs.get(job.id).last_slot == NOW


def many_jobs(count: int = 3) -> list[Any]:
    """Every second one with a definition row of its own; one write puts them."""
    return [
        make_job(id=new_id(), payload=BIG if number % 2 else "{}", write_id="mine", revised_by="mine")
        for number in range(count)
    ]


def test_many_jobs_are_read_as_they_were_put(jobs):
    wanted = many_jobs(100)

    put = jobs.create_all(wanted)

    assert [replace(job, definition_row=None) for job in put] == wanted
    assert jobs.get_many([job.id for job in wanted]) == list(put)
    assert [job.definition_row is None for job in put[:4]] == [True, False, True, False]


def test_one_taken_id_refuses_all_and_leaves_nothing(jobs, platform):
    wanted = many_jobs(4)
    taken = jobs.create(make_job(id=wanted[2].id, write_id="theirs"))

    with pytest.raises(JobExistsError):
        jobs.create_all(wanted)

    assert jobs.get_many([job.id for job in wanted]) == [taken]
    assert definition_rows(jobs, platform) == []


def test_some_of_a_call_that_were_put_otherwise_do_not_make_it_done(jobs):
    wanted = many_jobs(3)
    jobs.create(wanted[0])

    with pytest.raises(JobExistsError):
        jobs.create_all(wanted)

    assert [job.id for job in jobs.get_many([job.id for job in wanted])] == [wanted[0].id]


@pytest.mark.case(31)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_creation_of_many_whose_answer_was_lost_succeeds(jobs, faults, number):
    """Two definition rows come before the one write of all state rows."""
    wanted = many_jobs(5)
    faults.inject(lose_answer=number)

    put = jobs.create_all(wanted)

    assert jobs.get_many([job.id for job in wanted]) == list(put)


def test_a_creation_of_many_whose_answer_was_lost_succeeds_although_somebody_wrote_since(jobs, faults):
    wanted = many_jobs(3)

    def start() -> None:
        for number, job in enumerate(wanted):
            read = jobs.get(job.id)
            jobs.save(read, replace(read, write_id=f"other-{number}", last_slot=NOW))

    faults.inject(lose_answer=2, meanwhile=start)

    jobs.create_all(wanted)

    assert [job.last_slot for job in jobs.get_many([job.id for job in wanted])] == [NOW] * 3


def test_a_repeated_creation_of_many_changes_nothing(jobs):
    wanted = many_jobs(3)
    put = jobs.create_all(wanted)

    assert jobs.create_all(wanted) == put
    assert jobs.get_many([job.id for job in wanted]) == list(put)


@pytest.mark.parametrize("crash", [{"crash_before": 3}, {"crash_after": 1}, {"crash_after": 2}, {"crash_after": 3}])
def test_a_crash_leaves_all_of_many_or_none_and_is_repeated(jobs, faults, crash):
    wanted = many_jobs(5)
    ids = [job.id for job in wanted]
    faults.inject(**crash)

    with pytest.raises(Crash):
        jobs.create_all(wanted)

    assert len(jobs.get_many(ids)) == (5 if crash == {"crash_after": 3} else 0)
    faults.disarm()
    assert jobs.create_all(wanted) == jobs.get_many(ids)


def test_of_two_that_want_one_id_at_once_one_puts_all(jobs):
    shared = new_id()
    calls = [
        [make_job(id=new_id(), write_id=mark), make_job(id=shared, write_id=mark, payload=BIG), make_job(id=new_id())]
        for mark in ("w-1", "w-2", "w-3", "w-4")
    ]

    answers = at_once(4, lambda number: jobs.create_all(calls[number]))

    won = [number for number, answer in enumerate(answers) if not isinstance(answer, Exception)]
    assert len(won) == 1
    assert {type(answer) for number, answer in enumerate(answers) if number not in won} == {JobExistsError}
    assert sorted(len(jobs.get_many([job.id for job in call])) for call in calls) == [1, 1, 1, 3]
    assert jobs.get(shared) == answers[won[0]][1]


def test_rows_are_read_by_id_however_many_are_asked_for(jobs):
    put = [jobs.create(job) for job in many_jobs(130)]

    rows = jobs.get_rows([*(job.id for job in put), new_id(), put[0].id])

    assert rows == {job.id: job if job.definition_row is None else replace(job, definition=None) for job in put}
    assert jobs.get_rows([]) == {}


def test_the_definition_is_left_out_where_it_would_cost_a_read(jobs):
    put = jobs.create(make_job(payload=BIG))

    assert jobs.get(put.id, with_definition=False) == replace(put, definition=None)


def test_a_save_replaces_the_row_and_counts_the_write(jobs):
    read = jobs.create(full_job())
    new = make_job(
        id=read.id,
        write_id="w-42",
        revision=4,
        seq=read.seq,
        definition=read.definition,
        deleted_at=NOW + 9,
        revised_by="w-42",
    )

    saved = jobs.save(read, new)

    assert saved == replace(new, seq=42)
    assert jobs.get(read.id) == saved


@pytest.mark.parametrize("make_full", [full_job, job_of_a_graph])
def test_every_field_can_appear_and_go(jobs, make_full):
    plain = jobs.create(make_job())
    full = jobs.save(plain, make_full(definition=plain.definition, seq=plain.seq))

    assert jobs.get(plain.id) == full

    again = jobs.save(full, replace(plain, write_id="w-50", seq=full.seq))

    assert jobs.get(plain.id) == again
    assert replace(again, seq=1, write_id=plain.write_id) == plain


def test_who_writes_from_an_old_row_loses_and_gets_the_new_one(jobs):
    read = jobs.create(make_job())
    winner = jobs.save(read, replace(read, write_id="first", paused=True))

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, replace(read, write_id="second", cancelled=True))

    assert lost.value.current == winner
    assert jobs.get(read.id) == winner


@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_who_loses_against_a_new_definition_gets_it(jobs, payload):
    read = jobs.create(make_job())
    changed = make_definition(payload=payload, name="renamed")
    winner = jobs.save(read, replace(read, write_id="first", revision=2, definition=changed))

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, replace(read, write_id="second", paused=True))

    assert lost.value.current == winner
    assert lost.value.current.defined.name == "renamed"


def test_a_write_to_a_row_that_is_gone_finds_nothing(jobs):
    read = make_job()

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, replace(read, write_id="w-2", paused=True))

    assert lost.value.current is None
    assert jobs.get(read.id) is None


@pytest.mark.case(31)
def test_a_write_whose_answer_was_lost_succeeds(jobs, faults):
    read = jobs.create(make_job())
    faults.inject(lose_answer=1)

    saved = jobs.save(read, replace(read, write_id="mine", paused=True))

    assert saved.seq == read.seq + 1
    assert jobs.get(read.id) == saved


def test_a_lost_answer_overwritten_by_another_shows_its_marks(jobs, faults):
    read = jobs.create(make_job())

    def pause() -> None:
        row = jobs.get(read.id)
        jobs.save(row, replace(row, write_id="other", paused=True))

    faults.inject(lose_answer=1, meanwhile=pause)
    run = make_run(started_by="mine")

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, replace(read, write_id="mine", runs={f"{NOW}": run}))

    assert lost.value.current.paused
    assert lost.value.current.runs[f"{NOW}"].started_by == "mine"


def test_a_change_that_lost_its_answer_and_was_overwritten_keeps_its_definition(jobs, faults):
    read = jobs.create(make_job())

    def pause() -> None:
        row = jobs.get(read.id)
        jobs.save(row, replace(row, write_id="other", paused=True))

    faults.inject(lose_answer=2, meanwhile=pause)
    new = replace(read, write_id="mine", revised_by="mine", revision=2, definition=make_definition(payload=BIG))

    with pytest.raises(LostRaceError) as lost:
        jobs.save(read, new)

    assert lost.value.current.revised_by == "mine"
    assert lost.value.current.defined.payload == BIG
    assert jobs.get(read.id).defined.payload == BIG


@pytest.mark.parametrize("before", ["{}", BIG], ids=["inline", "own row"])
@pytest.mark.parametrize("after", ['{"a":1}', BIG.replace("x", "y")], ids=["to inline", "to own row"])
def test_a_new_definition_replaces_the_old(jobs, platform, before, after):
    read = jobs.create(make_job(payload=before))
    new = replace(read, write_id="w-2", revision=2, definition=make_definition(payload=after, name="renamed"))

    saved = jobs.save(read, new)

    assert jobs.get(read.id) == saved
    assert saved.defined.payload == after
    kept = [] if saved.definition_row is None else [saved.definition_row]
    assert definition_rows(jobs, platform) == kept


def test_a_number_of_another_kind_is_another_definition(jobs):
    read = jobs.create(make_job(document={"numbers": {"n": 1}}))

    jobs.save(read, replace(read, write_id="w-2", definition=make_definition(numbers={"n": 1.0})))

    assert repr(jobs.get(read.id).defined.document["numbers"]) == "{'n': 1.0}"


@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_a_write_that_does_not_know_the_definition_leaves_it(jobs, payload):
    put = jobs.create(make_job(payload=payload))
    read = replace(jobs.get(put.id, with_definition=False), definition=None)

    jobs.save(read, replace(read, write_id="w-2", paused=True))

    stored = jobs.get(put.id)
    assert (stored.defined, stored.definition_row) == (put.defined, put.definition_row)


def test_a_crash_before_the_state_row_leaves_the_old_definition(jobs, faults):
    read = jobs.create(make_job(payload=BIG))
    new = replace(read, write_id="w-2", revision=2, definition=make_definition(payload=BIG.replace("x", "y")))
    faults.inject(crash_after=1)

    with pytest.raises(Crash):
        jobs.save(read, new)

    assert jobs.get(read.id) == read


def test_who_loses_with_a_new_definition_leaves_none_behind(jobs, platform):
    read = jobs.create(make_job())
    jobs.save(read, replace(read, write_id="first", paused=True))

    with pytest.raises(LostRaceError):
        jobs.save(read, replace(read, write_id="second", definition=make_definition(payload=BIG)))

    assert definition_rows(jobs, platform) == []


@pytest.mark.parametrize("payload", ["{}", BIG], ids=["inline", "own row"])
def test_a_definition_that_cannot_be_read_does_not_hide_the_row(jobs, lose_definition, payload):
    put = jobs.create(make_job(payload=payload))
    other = jobs.create(make_job(id=new_id()))
    lose_definition(put.id)

    job = jobs.get(put.id)

    assert job == replace(put, definition=None)
    assert jobs.get_many([put.id, other.id]) == [job, other]
    saved = jobs.save(job, replace(job, write_id="w-2", paused=True))
    assert jobs.get(put.id) == saved


def test_one_of_many_parallel_writers_wins(jobs):
    read = jobs.create(make_job())

    answers = at_once(12, lambda number: jobs.save(read, replace(read, write_id=f"w-{number}", wakes=number)))

    won = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(won) == 1
    assert {type(answer) for answer in answers if answer is not won[0]} == {LostRaceError}
    assert jobs.get(read.id) == won[0]


def test_many_are_read_in_the_order_asked_for(jobs):
    put = [jobs.create(make_job(id=new_id(), payload=BIG if number % 2 else "{}")) for number in range(20)]
    asked = [job.id for job in reversed(put)]

    assert jobs.get_many([asked[0], new_id(), *asked[1:]]) == put[::-1]
    assert jobs.get_many([]) == []


def test_jobs_that_need_attention_come_earliest_first(jobs):
    ids = [new_id() for _ in range(40)]
    for number, job_id in enumerate(ids):
        jobs.create(make_job(id=job_id, attention_at=NOW + (7 * number) % 40))
    jobs.create(make_job(id=new_id(), attention_at=None))

    found = [list(jobs.due_for_attention(shard, until=NOW + 19)) for shard in range(jobs.shards)]

    wanted = {job_id: (7 * number) % 40 for number, job_id in enumerate(ids)}
    assert {one for shard in found for one in shard} == {job_id for job_id, at in wanted.items() if at <= 19}
    assert all(shard == sorted(shard, key=wanted.__getitem__) for shard in found)
    assert sum(map(bool, found)) > 1


def test_attention_follows_every_write(jobs):
    read = jobs.create(make_job(attention_at=NOW))

    def due(until: int) -> list[str]:
        return [one for shard in range(jobs.shards) for one in jobs.due_for_attention(shard, until=until)]

    later = jobs.save(read, replace(read, write_id="w-2", attention_at=NOW + 100))
    assert (due(NOW + 99), due(NOW + 100)) == ([], [read.id])

    rest = jobs.save(later, replace(later, write_id="w-3", attention_at=None))
    assert due(NOW + 1000) == []

    jobs.save(rest, replace(rest, write_id="w-4", attention_at=NOW + 5))
    assert due(NOW + 5) == [read.id]


def test_a_shard_of_many_pages_is_read_to_its_end(jobs, monkeypatch):
    monkeypatch.setattr("functions.adapters.dynamodb_jobs.ATTENTION_PAGE", 2)
    ids = {jobs.create(make_job(id=new_id(), attention_at=NOW)).id for _ in range(30)}

    assert {one for shard in range(jobs.shards) for one in jobs.due_for_attention(shard, until=NOW)} == ids


def list_all(jobs: Any, owner: str, limit: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = jobs.list_by_owners((owner,), limit=limit, cursor=cursor)
        pages.append(list(page.items))
        if page.cursor is None:
            return pages
        cursor = page.cursor


@pytest.mark.case(26)
def test_jobs_of_one_instant_are_paged_without_loss(jobs):
    ids = {jobs.create(make_job(id=new_id())).id for _ in range(30)}
    jobs.create(make_job(id=new_id(), owner="team-b"))

    pages = list_all(jobs, "team-a", 7)

    assert [len(page) for page in pages] == [7, 7, 7, 7, 2]
    assert {one for page in pages for one in page} == ids


def test_a_list_is_newest_first_and_its_last_page_has_no_cursor(jobs):
    ids = [jobs.create(make_job(id=new_id(), created_at=NOW + number)).id for number in range(4)]

    assert list_all(jobs, "team-a", 2) == [ids[:1:-1], ids[1::-1]]
    assert list_all(jobs, "nobody", 2) == [[]]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_jobs_of_several_owners_are_one_list(jobs, limit):
    made = []
    for number in range(9):
        owner = ("alice", "team-a", "team-b", "bob")[number % 4]
        made.append(jobs.create(make_job(id=new_id(), owner=owner, created_at=NOW + number // 3)))
    for owners in (("alice", "team-a"), ("team-b", "alice", "bob"), ("team-a",), ("nobody", "bob")):
        wanted = sorted(((job.created_at, job.id) for job in made if job.owner in owners), reverse=True)
        found, cursor = [], None
        while True:
            page = jobs.list_by_owners(owners, limit=limit, cursor=cursor)
            assert len(page.items) <= limit
            found += page.items
            if (cursor := page.cursor) is None:
                break
        assert found == [job_id for _, job_id in wanted]


def test_deleted_jobs_leave_the_list(jobs):
    read = jobs.create(make_job())
    jobs.save(read, replace(read, write_id="w-2", deleted_at=NOW))

    assert list_all(jobs, "team-a", 5) == [[]]


@pytest.mark.case(26)
@pytest.mark.parametrize("how", ["cut", "changed", "padded", "empty", "foreign", "not base64", "not ascii"])
def test_a_cursor_that_was_not_handed_out_is_refused(jobs, how):
    for _ in range(3):
        jobs.create(make_job(id=new_id()))
        jobs.create(make_job(id=new_id(), owner="team-b"))
    cursor = jobs.list_by_owners(("team-a",), limit=1, cursor=None).cursor
    foreign = jobs.list_by_owners(("team-b",), limit=1, cursor=None).cursor
    tampered = {
        "cut": cursor[:-1],
        "changed": cursor[:-3] + ("A" if cursor[-3] != "A" else "B") + cursor[-2:],
        "padded": cursor + "=",
        "empty": "",
        "foreign": foreign,
        "not base64": "!!!",
        "not ascii": "é" * 8,
    }[how]

    with pytest.raises(InvalidFieldError) as refused:
        jobs.list_by_owners(("team-a",), limit=1, cursor=tampered)

    assert refused.value.field == "cursor"


def definition_rows(jobs: Any, platform: Any) -> list[str]:
    """Names of all definition rows that are stored."""
    if platform is None:
        return [name for _, name in jobs.definitions]
    items = platform.dynamodb.scan(TableName=platform.jobs_table)["Items"]
    return [item["S"]["S"] for item in items if item["S"]["S"] != "S"]


def waiting_job(since: int, *, what: str = "key:team-a|db", **changes: Any) -> Any:
    run = make_run(state=RunState.WAITING, due_at=since, waits_for=what, deferrals=1, deferred_at=since)
    return make_job(id=new_id(), runs=MappingProxyType({f"{since}": run}), **changes)


def waiting_for(jobs: Any, what: str, *, limit: int = 10) -> list[str]:
    """Ids over all shards, in the order of their places."""
    places = [place for shard in range(jobs.waiting_shards) for place in jobs.waiting_for(what, shard, limit=limit)]
    return [job_id for _, job_id in sorted(places)]


def test_jobs_that_wait_for_the_same_come_by_priority_then_longest_first(jobs):
    late, early = jobs.create(waiting_job(NOW + 2)), jobs.create(waiting_job(NOW + 1))
    low = jobs.create(waiting_job(NOW, priority=Priority.LOW))
    high = jobs.create(waiting_job(NOW + 3, priority=Priority.HIGH))
    jobs.create(waiting_job(NOW, what="key:team-b|db"))

    assert waiting_for(jobs, "key:team-a|db") == [high.id, early.id, late.id, low.id]


def test_a_job_is_no_longer_found_once_it_waits_no_more_or_is_paused(jobs):
    started, paused = jobs.create(waiting_job(NOW)), jobs.create(waiting_job(NOW))

    jobs.save(started, replace(started, write_id="w2", runs=MappingProxyType({f"{NOW}": make_run()})))
    jobs.save(paused, replace(paused, write_id="w3", paused=True))

    assert waiting_for(jobs, "key:team-a|db") == []


def test_a_shard_hands_out_no_more_than_asked_for(jobs):
    for since in range(NOW, NOW + 12):
        jobs.create(waiting_job(since))

    assert all(len(jobs.waiting_for("key:team-a|db", shard, limit=2)) <= 2 for shard in range(jobs.waiting_shards))


class TestSetAside:
    def test_a_row_that_cannot_be_read_is_put_off_and_told_once(self, jobs: Any, spoil: Any) -> None:
        job = jobs.create(make_job(attention_at=NOW))
        spoil(job.id)
        with pytest.raises(UnreadableRowError, match=job.id):
            jobs.get(job.id)
        assert jobs.set_aside(job.id, until=NOW + 900) is True
        assert due_ids(jobs, NOW + 899) == []
        assert due_ids(jobs, NOW + 900) == [job.id]
        assert jobs.set_aside(job.id, until=NOW + 1800) is False
        assert due_ids(jobs, NOW + 1799) == []

    def test_whoever_can_read_it_finds_all_else_as_it_was(self, jobs: Any, spoil: Any) -> None:
        job = jobs.create(make_job(attention_at=NOW))
        spoil(job.id)
        jobs.set_aside(job.id, until=NOW + 900)
        spoil(job.id, mended=True)
        assert jobs.get(job.id) == replace(job, attention_at=NOW + 900, seq=job.seq + 1)
        with pytest.raises(LostRaceError):
            jobs.save(job, replace(job, write_id="w-2", paused=True))

    def test_it_is_told_anew_once_somebody_wrote_it(self, jobs: Any, spoil: Any) -> None:
        job = jobs.create(make_job(attention_at=NOW))
        spoil(job.id)
        jobs.set_aside(job.id, until=NOW + 900)
        spoil(job.id, mended=True)
        row = jobs.get(job.id)
        jobs.save(row, replace(row, write_id="w-2", attention_at=NOW + 60))
        spoil(job.id)
        assert jobs.set_aside(job.id, until=NOW + 960) is True

    def test_what_can_be_read_or_is_gone_stays_as_it_is(self, jobs: Any) -> None:
        job = jobs.create(make_job(attention_at=NOW))
        assert jobs.set_aside(job.id, until=NOW + 900) is None
        assert jobs.get(job.id) == job
        assert jobs.set_aside(new_id(), until=NOW + 900) is None


def due_ids(jobs: Any, until: int) -> list[str]:
    return [one for shard in range(jobs.shards) for one in jobs.due_for_attention(shard, until=until)]

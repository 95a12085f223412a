"""Cancel and retry of a whole workflow."""

from __future__ import annotations

import dataclasses

import pytest

from functions.domain.errors import UnavailableError
from functions.domain.job import JobStatus
from functions.usecases.workflow_actions import cancel_workflow, retry_workflow
from tests.driver import SCHEDULER
from tests.workflows import NEVER, After, Played, diamond, job, workflow

KEY = {"idempotency-key": "k1"}
SOON = {"type": "once", "at": "2027-01-15T08:10:00Z"}


def test_cancel_reaches_children_first_so_that_none_is_skipped() -> None:
    played = Played()
    path = played.create(diamond(a=job(schedule=SOON)))
    reply = played.api.post(f"{path}/cancel")
    assert reply.status == 200
    assert {one["status"] for one in reply.json["jobs"]} == {"CANCELLED"}
    assert reply.json["status"] == "CANCELLED"
    played.run(1_200)
    assert set(played.statuses(path).values()) == {"CANCELLED"}
    assert not played.called
    assert played.api.post(f"{path}/cancel").json == played.seen(path), "again: nothing changes"


def test_cancel_in_the_middle_leaves_what_has_ended() -> None:
    played = Played()
    path = played.create(diamond())
    replies = []
    played.on_call = lambda name: replies.append(played.api.post(f"{path}/cancel")) if name == "b" else None
    played.run()
    statuses = played.statuses(path)
    assert replies[0].status == 200
    assert (statuses["a"], statuses["b"], statuses["d"]) == ("COMPLETED", "CANCELLED", "CANCELLED")
    assert statuses["c"] in ("COMPLETED", "CANCELLED"), "it came before, or after"
    assert "d" not in played.called


def test_cancel_of_what_is_over_is_a_conflict() -> None:
    played = Played()
    path = played.create(diamond())
    played.run()
    reply = played.api.post(f"{path}/cancel")
    assert (reply.status, reply.code) == (409, "CONFLICT")
    assert set(played.statuses(path).values()) == {"COMPLETED"}


def test_cancel_goes_around_deleted_jobs() -> None:
    played = Played()
    path = played.create(diamond(a=job(schedule=SOON)))
    played.api.delete(f"/v1/jobs/{played.ids(path)['d']}")
    assert played.api.post(f"{path}/cancel").status == 200
    assert played.statuses(path) == {"a": "CANCELLED", "b": "CANCELLED", "c": "CANCELLED", "d": "DELETED"}


def test_a_child_that_cannot_be_cancelled_now_keeps_its_parents() -> None:
    """Else it would be skipped: whoever asks again gets the rest."""
    played = Played()
    path = played.create(workflow(a=job(schedule=SOON), b=job("a")))
    save, child = played.world.jobs.save, played.ids(path)["b"]

    def busy(read: object, new: object, **options: object) -> object:
        if getattr(read, "id", None) == child:
            raise UnavailableError
        return save(read, new, **options)  # type: ignore[arg-type]

    played.world.jobs.save = busy  # type: ignore[method-assign, assignment]
    assert played.api.post(f"{path}/cancel").status == 503
    assert played.statuses(path) == {"a": "SCHEDULED", "b": "BLOCKED"}
    played.world.jobs.save = save  # type: ignore[method-assign]
    assert played.api.post(f"{path}/cancel").status == 200
    assert set(played.statuses(path).values()) == {"CANCELLED"}


def test_retry_from_what_failed_runs_what_comes_after_it() -> None:
    played = Played()
    played.failing = {"b"}
    path = played.create(diamond(b=job("a", **NEVER)))
    played.run()
    assert played.statuses(path)["d"] == "SKIPPED"
    played.failing, before = set(), list(played.called)
    reply = played.api.post(f"{path}/retry")
    assert reply.status == 200
    assert reply.json["status"] == "RUNNING"
    played.run()
    assert set(played.statuses(path).values()) == {"COMPLETED"}
    assert played.called[len(before) :] == ["b", "d"], "what succeeded is not run again"
    assert played.seen(path)["status"] == "COMPLETED"


def test_retry_leaves_verdicts_to_their_parents() -> None:
    played = Played()
    played.failing = {"a"}
    path = played.create(workflow(a=job(**NEVER), b=job("a", onUpstreamFailure="fail"), c=job("b")))
    played.run()
    assert played.statuses(path) == {"a": "FAILED", "b": "FAILED", "c": "SKIPPED"}
    played.failing = set()
    assert played.api.post(f"{path}/retry").status == 200
    played.run()
    assert played.called == ["a", "a", "b", "c"]
    assert set(played.statuses(path).values()) == {"COMPLETED"}


@pytest.mark.parametrize("played_for", [0, 300])
def test_retry_where_nothing_failed_is_a_conflict(played_for: int) -> None:
    played = Played()
    path = played.create(diamond())
    played.run(played_for)
    reply = played.api.post(f"{path}/retry", headers=KEY)
    assert (reply.status, reply.code) == (409, "CONFLICT")


def test_the_same_retry_again_retries_nothing_twice() -> None:
    played = Played()
    played.failing = {"a", "x"}
    path = played.create(workflow(a=job(**NEVER), b=job("a"), x=job(**NEVER)))
    played.run()
    assert played.api.post(f"{path}/retry", headers=KEY).status == 200
    played.run()
    assert sorted(played.called) == ["a", "a", "x", "x"]
    assert played.api.post(f"{path}/retry", headers=KEY).status == 200, "the answer to the first was lost"
    played.run()
    assert sorted(played.called) == ["a", "a", "x", "x"]
    assert played.api.post(f"{path}/retry", headers={"idempotency-key": "k2"}).status == 200
    played.run()
    assert sorted(played.called) == ["a", "a", "a", "x", "x", "x"]


def test_a_cycle_that_two_reads_seem_to_show_hinders_no_cancel() -> None:
    played = Played()
    path = played.create(workflow(a=job(schedule=SOON), b=job("a")))
    ids = played.ids(path)
    rows = played.world.jobs.rows
    definition = rows[ids["b"]].defined
    torn = dataclasses.replace(
        definition,
        depends_on=tuple(dataclasses.replace(one, job_id=ids["b"]) for one in definition.depends_on),
    )
    rows[ids["b"]] = dataclasses.replace(rows[ids["b"]], definition=torn)
    assert played.seen(path)["status"] == "WAITING"
    assert played.api.post(f"{path}/cancel").status == 200
    assert set(played.statuses(path).values()) == {"CANCELLED"}


def test_two_who_cancel_and_retry_at_once_disturb_nobody() -> None:
    """Each comes in the middle of the other, after every one of its writes."""
    for step in range(1, 12):
        played = Played()
        played.failing = {"b"}
        path = played.create(diamond(b=job("a", **NEVER)))
        played.run()
        played.world.faults.on_step = After(step, lambda path=path, api=played.other: api.post(f"{path}/retry"))
        played.api.post(f"{path}/cancel")
        played.world.faults.on_step = None
        played.failing = set()
        played.run(600)
        rows = played.world.jobs.rows.values()
        assert all(row.status not in (JobStatus.RUNNING, JobStatus.BLOCKED, JobStatus.RETRYING) for row in rows)
        assert played.called.count("b") <= 2


def test_use_cases_say_what_the_routes_say() -> None:
    played = Played()
    path = played.create(diamond(a=job(schedule=SOON)))
    caller = dataclasses.replace(SCHEDULER, id="alice", owner="alice")
    seen = cancel_workflow(played.driver.services, caller, path.rpartition("/")[2])
    assert [member.status for member in seen.members] == ["CANCELLED"] * 4
    with pytest.raises(Exception, match="nothing to retry"):
        retry_workflow(played.driver.services, caller, path.rpartition("/")[2])

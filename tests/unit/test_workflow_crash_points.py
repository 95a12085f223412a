"""A workflow's creation stopped before and after each single write: invisible or whole, and its key finishes it."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

from tests.api_client import Reply, make_body
from tests.factories import NOW
from tests.faults import Crash, Faults
from tests.workflows import PATH, TARGET, After, Played, job, workflow

KEY = {"idempotency-key": "k1"}
BIG = {"text": "x" * 2_000}
"""A payload whose definition has a row of its own."""


def body(outside: str) -> dict[str, Any]:
    edges = {"target": TARGET, "dependsOn": [{"jobId": outside}, {"job": "a"}]}
    return workflow(a=job(), b=job("a", payload=BIG), c=job("a"), d=job("b", "c", payload=BIG), e=edges)


def begun(faults: Faults) -> tuple[Played, str]:
    played = Played(faults)
    outside = played.api.post("/v1/jobs", make_body(schedule={"type": "once", "at": "2027-01-15T08:00:00Z"})).json["id"]
    played.run(30)
    return played, str(outside)


def dead(faults: Faults) -> None:
    """A process that died writes nothing more, whichever of its threads it is."""

    def stop(_when: str, _name: str) -> None:
        if faults.crashed:
            raise Crash("dead")

    faults.on_step = stop


def see(played: Played) -> list[dict[str, Any]]:
    """What a reader sees: the workflows of the list, each whole."""
    listed = played.api.get(PATH).json["data"]
    for one in listed:
        assert set(played.statuses(f"{PATH}/{one['id']}").values()).isdisjoint({"DELETED"})
    return list(listed)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["crash_before", "crash_after"])
@pytest.mark.parametrize("later", [0, 1_000], ids=["at once", "much later"])
def test_a_death_anywhere_leaves_nothing_or_all_and_the_key_finishes_it(when: str, later: int) -> None:
    whole = 0
    for step in itertools.count(1):
        faults = Faults()
        played, outside = begun(faults)
        jobs = len(played.world.jobs.rows)
        faults.inject(**{when: step})
        dead(faults)
        with contextlib.suppress(Crash):
            played.api.post(PATH, body(outside), headers=KEY)
        crashed, where = faults.crashed, f"{when} {step}: {faults.steps[-2:]}"
        faults.disarm()
        faults.crashed = False
        seen = see(played)
        assert len(played.world.jobs.rows) in (jobs, jobs + 5), where
        assert len(seen) == (len(played.world.jobs.rows) > jobs), where
        whole += bool(seen) and crashed
        played.run(later)
        assert [one["id"] for one in see(played)] == [one["id"] for one in seen], where
        path = played.create(body(outside), headers=KEY)
        assert len(see(played)) == 1, where
        played.run(600)
        assert set(played.statuses(path).values()) == {"COMPLETED"}, where
        assert sorted(played.called) == ["a", "b", "c", "d", "e", "nightly report"], where
        assert played.create(body(outside), headers=KEY) == path
        if not crashed:
            assert step > 15
            break
    assert whole, "somewhere the jobs were there, and only their hints were missing"


def test_a_lost_answer_changes_nothing() -> None:
    for step in itertools.count(1):
        faults = Faults()
        played, outside = begun(faults)
        faults.inject(lose_answer=step)
        path = played.create(body(outside), headers=KEY)
        done = step > len(faults.steps)
        faults.disarm()
        played.run(600)
        assert sorted(played.called) == ["a", "b", "c", "d", "e", "nightly report"], step
        assert set(played.statuses(path).values()) == {"COMPLETED"}
        if done:
            break


def again(played: Played, outside: str) -> Reply:
    played.world.clock.advance(2)
    return played.other.post(PATH, body(outside), headers=KEY)


def test_the_same_request_in_the_middle_of_itself_makes_one_workflow() -> None:
    """After each write of the first, the second goes through all of it; their seconds differ."""
    for step in itertools.count(1):
        faults = Faults()
        played, outside = begun(faults)
        second = After(step, lambda played=played, outside=outside: again(played, outside))
        faults.on_step = second
        path = played.create(body(outside), headers=KEY)
        faults.on_step = None
        if not second.done:
            break
        reply = second.result
        assert reply.status == 201
        if reply.json["id"] != path.rpartition("/")[2]:
            assert step == 1, "before the key was kept"
        played.run(600)
        for one in see(played):
            assert set(played.statuses(f"{PATH}/{one['id']}").values()) == {"COMPLETED"}
        assert played.called.count("e") == len(see(played)), step


def test_the_second_of_the_first_request_counts_for_the_ones_after_it() -> None:
    """A job that runs at once is due when the workflow was made, whoever finishes it."""
    faults = Faults()
    played, outside = begun(faults)

    def stop(when: str, name: str) -> None:
        if (when, name) == ("before", "jobs.create_all"):
            raise Crash("dead")

    faults.on_step = stop
    with pytest.raises(Crash):
        played.api.post(PATH, body(outside), headers=KEY)
    faults.disarm()
    made = played.world.clock.now()
    played.run(700)
    path = played.create(body(outside), headers=KEY)
    assert played.seen(path)["createdAt"] == played.api.get(PATH).json["data"][0]["createdAt"]
    [first] = [one for one in played.seen(path)["jobs"] if one["name"] == "a"]
    job_ = played.api.get(f"/v1/jobs/{first['jobId']}").json
    assert job_["createdAt"] == played.seen(path)["createdAt"]
    assert job_["schedule"]["at"] == job_["createdAt"]
    assert made - NOW == 30
    played.run(60)
    assert set(played.statuses(path).values()) == {"COMPLETED"}

"""Workers: their rows, which decide what a poll set out to claim."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.domain.errors import InvalidFieldError
from functions.domain.worker import Worker, WorkerStatus
from tests.contract.conftest import at_once
from tests.factories import NOW


def make_worker(**changes):
    defaults = {
        "id": "aaaabbbbccccdddd",
        "owner": "team-a",
        "created_by": "alice",
        "name": "reports",
        "queues": ("reports", "mail"),
        "max_items": 3,
        "registered_at": NOW,
        "seen_at": NOW,
    }
    return Worker(**{**defaults, **changes})


def test_a_worker_is_read_as_it_was_registered(workers):
    workers.register(make_worker())

    assert workers.get("aaaabbbbccccdddd") == make_worker()
    assert workers.get("zzzzbbbbccccdddd") is None
    assert workers.seen("zzzzbbbbccccdddd", now=NOW) is None


def test_a_heartbeat_notes_the_instant_and_nothing_else(workers):
    workers.register(make_worker())

    seen = workers.seen("aaaabbbbccccdddd", now=NOW + 30.7)

    assert seen == workers.get("aaaabbbbccccdddd") == make_worker(seen_at=NOW + 30)


def test_a_late_heartbeat_never_goes_back(workers):
    workers.register(make_worker(seen_at=NOW + 60))

    assert workers.seen("aaaabbbbccccdddd", now=NOW + 30).seen_at == NOW + 60
    assert workers.get("aaaabbbbccccdddd").seen_at == NOW + 60


def test_what_a_poll_intends_is_kept(workers):
    workers.register(make_worker())
    read = workers.get("aaaabbbbccccdddd")

    saved = workers.save(read, replace(read, poll_id="p1", intended=("one", "two")))

    assert saved == workers.get(read.id)
    assert (saved.poll_id, saved.intended, saved.version) == ("p1", ("one", "two"), 2)


def test_of_two_writes_from_one_read_one_applies(workers):
    workers.register(make_worker())
    read = workers.get("aaaabbbbccccdddd")

    answers = at_once(6, lambda n: workers.save(read, replace(read, poll_id=f"p{n}", intended=(f"e{n}",))))

    [won] = [answer for answer in answers if answer is not None]
    assert workers.get(read.id) == won


def test_a_write_whose_answer_was_lost_is_a_success(workers, faults):
    workers.register(make_worker())
    read = workers.get("aaaabbbbccccdddd")
    faults.inject(lose_answer=1)

    saved = workers.save(read, replace(read, draining=True))

    assert saved is not None
    assert workers.get(read.id).draining


def test_a_heartbeat_takes_nothing_from_a_write_under_way(workers):
    workers.register(make_worker())
    read = workers.get("aaaabbbbccccdddd")
    workers.seen(read.id, now=NOW + 40)

    assert workers.save(read, replace(read, draining=True)) is not None
    stored = workers.get(read.id)
    assert (stored.draining, stored.seen_at) == (True, NOW + 40)


def test_a_list_has_pages(workers):
    ids = ["aaaabbbbccccdddd", "eeeebbbbccccdddd", "ggggbbbbccccdddd"]
    for worker_id in reversed(ids):
        workers.register(make_worker(id=worker_id, owner="team-b", name=""))

    first = workers.list(limit=2, cursor=None)
    second = workers.list(limit=2, cursor=first.cursor)

    assert [[worker.id for worker in page.items] for page in (first, second)] == [ids[:2], ids[2:]]
    assert second.cursor is None
    with pytest.raises(InvalidFieldError):
        workers.list(limit=2, cursor="x" + str(first.cursor))


def test_status_is_what_was_heard_last():
    worker = make_worker()

    assert worker.status(NOW + 90) is WorkerStatus.ACTIVE
    assert worker.status(NOW + 91) is WorkerStatus.OFFLINE
    assert replace(worker, draining=True).status(NOW + 90) is WorkerStatus.DRAINING
    assert replace(worker, draining=True).status(NOW + 91) is WorkerStatus.OFFLINE

"""Workers: their rows, which decide what a poll set out to claim."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from functions.domain.errors import InvalidFieldError
from functions.domain.worker import (
    OWNER_CHARACTERS,
    Worker,
    WorkerStatus,
    is_worker_id,
    new_worker_id,
    owner_prefix,
)
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

    first = workers.list(None, limit=2, cursor=None)
    second = workers.list(None, limit=2, cursor=first.cursor)

    assert [[worker.id for worker in page.items] for page in (first, second)] == [ids[:2], ids[2:]]
    assert second.cursor is None
    with pytest.raises(InvalidFieldError):
        workers.list(None, limit=2, cursor="x" + str(first.cursor))


def list_all(workers, owners, limit):
    found, cursor = [], None
    while True:
        page = workers.list(owners, limit=limit, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found
        # The last six bytes but of the checksum: nobody learns of another owner's worker by a cursor.
        assert base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[6:].decode() == page.items[-1].id


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_list_of_owners_has_all_of_theirs_and_of_no_other(workers, limit):
    made = {}
    for owner in ("alice", "team-a", "team-b", "bob"):
        made[owner] = [make_worker(id=new_worker_id(owner), owner=owner) for _ in range(3)]
    # By chance the ids of two owners may begin alike.
    made["twin"] = [make_worker(id=owner_prefix("team-a") + one * 11, owner="twin") for one in "2mz"]
    for worker in [worker for group in made.values() for worker in group]:
        workers.register(worker)

    for owners in (("alice",), ("team-a",), ("team-a", "alice"), ("bob", "team-b", "alice"), ("nobody",)):
        wanted = sorted((one for owner in owners for one in made.get(owner, [])), key=lambda one: one.id)
        assert list_all(workers, owners, limit) == wanted
    assert len(list_all(workers, None, limit)) == 15


def test_a_cursor_is_of_its_owners_only(workers):
    for owner in ("team-a", "team-a", "team-b"):
        workers.register(make_worker(id=new_worker_id(owner), owner=owner))
    cursor = workers.list(("team-a",), limit=1, cursor=None).cursor

    for owners in (("team-b",), ("team-a", "team-b"), None):
        with pytest.raises(InvalidFieldError):
            workers.list(owners, limit=1, cursor=cursor)


def test_ids_of_workers_are_unique_and_begin_with_their_owner():
    ids = {new_worker_id(f"team-{n % 3}") for n in range(600)}

    assert len(ids) == 600
    assert all(is_worker_id(one) for one in ids)
    assert len({one[:OWNER_CHARACTERS] for one in ids}) == 3


def test_status_is_what_was_heard_last():
    worker = make_worker()

    assert worker.status(NOW + 90) is WorkerStatus.ACTIVE
    assert worker.status(NOW + 91) is WorkerStatus.OFFLINE
    assert replace(worker, draining=True).status(NOW + 90) is WorkerStatus.DRAINING
    assert replace(worker, draining=True).status(NOW + 91) is WorkerStatus.OFFLINE

"""Checks of what holds starts back: slots of concurrency keys, and the index of who waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from functions.adapters.dynamodb_keys import share_row
from functions.adapters.dynamodb_shares import KEEP_SECONDS
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.adapters.process_shares import KEEP
from functions.domain.concurrency import Slot
from functions.domain.ids import new_write_id, slot_id
from functions.domain.run import ActiveRun, RunState
from tests.e2e.stack import once, unique, until

if TYPE_CHECKING:
    from tests.e2e.smoke import Smoke

SOON = 12.0


def _limit() -> dict[str, Any]:
    return {"concurrencyKey": unique("key"), "maxConcurrency": 1}


def _slots(smoke: Smoke) -> DynamoDbSlots:
    return DynamoDbSlots(smoke.aws.dynamodb, smoke.stack.outputs["CoordinationTable"])


def _key(smoke: Smoke, path: str) -> str:
    job = smoke.row(path)
    return f"key:{job.owner}|{job.defined.document['concurrencyKey']}"


def runs_under_a_limit(smoke: Smoke) -> None:
    smoke.ran(**_limit())


def counts_its_share(smoke: Smoke) -> None:
    """A start is written into its owner's row; no other check's jobs have this priority."""
    time.sleep(KEEP)  # a process that has just written it starts more without a write
    begun = int(time.time())
    owner = smoke.row(smoke.ran(priority="low")).owner
    found = smoke.aws.dynamodb.get_item(
        TableName=smoke.stack.outputs["CoordinationTable"], Key=share_row(owner, "low"), ConsistentRead=True
    )
    assert int(found["Item"]["ttl"]["N"]) >= begun + KEEP_SECONDS, "the start was not counted"


def frees_its_slot(smoke: Smoke) -> None:
    path = smoke.ran(**_limit())
    key = _key(smoke, path)
    ends = time.monotonic() + 3
    while _slots(smoke).held(key):
        assert time.monotonic() < ends, "the slot of a run that ended is not free"
        time.sleep(0.2)


def hands_its_slot_on_in_the_machine(smoke: Smoke) -> None:
    """What waits for the slot of an attempt in the state machine runs when that ends, long before the sweep."""
    limit = _limit()
    first = smoke.create(schedule=once(0), target=smoke.endpoint.target("sleep"), orchestrated=True, **limit)
    smoke.reaches(first, "RUNNING")
    second = smoke.create(schedule=once(0), **limit)
    ended = until(lambda: smoke.get(first)["status"] == "COMPLETED", seconds=SOON, hint="the first run ends")
    assert ended
    smoke.reaches(second, "COMPLETED")


def hands_its_slot_on_when_cancelled(smoke: Smoke) -> None:
    limit = _limit()
    first = smoke.create(schedule=once(0), target=smoke.endpoint.target("hang"), timeoutSeconds=60, **limit)
    smoke.reaches(first, "RUNNING")
    second = smoke.create(schedule=once(0), **limit)
    until(
        lambda: [each for each in smoke.get(f"{second}/history")["data"] if each["reason"] == "CONCURRENCY_LIMIT"],
        seconds=SOON,
        hint="the second run waits",
    )
    smoke.act(first, "cancel")
    smoke.reaches(second, "COMPLETED")


def grants_what_nobody_granted(smoke: Smoke) -> None:
    """A run waits, and the slot is held by one that never started: its time is over."""
    path = smoke.create(**_limit())
    job, key, now = smoke.row(path), _key(smoke, path), int(time.time())
    gone = Slot(index=0, holder="nobody", mark=new_write_id(), at=now - 200, until=now - 100)
    assert _slots(smoke).take(key, gone, instead_of=None)
    run = ActiveRun(
        state=RunState.WAITING,
        attempt=0,
        attempt_limit=4,
        due_at=now - 90,
        waits_for=key,
        deferrals=1,
        deferred_for="CONCURRENCY_LIMIT",
        deferred_at=now - 90,
    )
    waits = replace(job, runs={slot_id(now - 90): run}, attention_at=now - 30, write_id=new_write_id())
    smoke.jobs.save(job, waits)
    smoke.swept()
    until(
        lambda: [each for each in smoke.get(f"{path}/history")["data"] if each["status"] == "COMPLETED"],
        seconds=SOON,
        hint="the waiting run is granted the slot",
    )


def tells_a_circuit_in_the_machine(smoke: Smoke) -> None:
    """Its failure is counted by the circuit of a type that only this check's jobs have."""
    kind = unique("smoke")
    path = smoke.create(
        schedule=once(0),
        target=smoke.endpoint.target("503"),
        orchestrated=True,
        retryConfig={"maxRetries": 0},
        type=kind,
        circuitBreaker={},
    )
    smoke.reaches(path, "FAILED")
    ends = time.monotonic() + 3
    while not any(one["jobType"] == kind for one in smoke.get("/v1/circuits?limit=100")["data"]):
        assert time.monotonic() < ends, "steps: the circuit was not told of the failure"
        time.sleep(0.2)


Check = Callable[["Smoke"], None]

LIMIT_CHECKS: dict[str, dict[str, Check]] = {
    "api": {"FindWaiting": hands_its_slot_on_when_cancelled},
    "executor": {
        "CountShare": counts_its_share,
        "ReadSlots": runs_under_a_limit,
        "TakeSlots": runs_under_a_limit,
        "FindWaiting": runs_under_a_limit,
        "FreeSlots": frees_its_slot,
    },
    "steps": {"ReadCoordination": tells_a_circuit_in_the_machine}
    | dict.fromkeys(("ReadSlots", "TakeSlots", "FindWaiting", "FreeSlots"), hands_its_slot_on_in_the_machine),
    "sweep": dict.fromkeys(("ReadSlots", "TakeSlots", "FindWaiting", "FreeSlots"), grants_what_nobody_granted),
}
"""The check that a grant's removal must fail, by function and name in infra.grants."""

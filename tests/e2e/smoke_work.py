"""Checks of what polls and handlers that report progress may do."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

from tests.e2e.stack import instant, once, unique, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.smoke import Smoke

SOON = 8.0
WINDOW = 25
"""Seconds within which the retry must begin."""


def _worker(smoke: Smoke, queue: str) -> str:
    answer = smoke.api.post("/v1/workers", {"queues": [queue]}, role="admin")
    assert answer.status_code == 201, f"register: {answer.status_code}"
    return f"/v1/workers/{answer.json()['id']}"


def _waiting(smoke: Smoke, queue: str, **changes: Any) -> str:
    """A job of which a run waits for a worker of the queue."""
    target = {"type": "worker", "queue": queue}
    path = smoke.create(**{"target": target, "schedule": once(0), "timeoutSeconds": 60, **changes})
    until(lambda: _newest(smoke, path).get("reason") == "WAITS_FOR_WORKER", seconds=SOON, hint="it waits for a worker")
    return path


def _newest(smoke: Smoke, path: str) -> dict[str, Any]:
    history: list[dict[str, Any]] = smoke.get(f"{path}/history")["data"]
    return history[0] if history else {}


def _poll(smoke: Smoke, worker: str, **body: Any) -> list[dict[str, Any]]:
    answer = smoke.api.post(f"{worker}/poll", body, role="admin")
    assert answer.status_code == 200, f"poll: {answer.status_code}"
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def polls(smoke: Smoke) -> None:
    queue = unique("queue")
    _waiting(smoke, queue)
    assert len(_poll(smoke, _worker(smoke, queue))) == 1, "the poll finds nothing"


def polls_within_a_limit(smoke: Smoke) -> None:
    """Of two jobs of a type that runs one at a time one is claimed; the other gives its own key's slot back."""
    queue, job_type = unique("queue"), smoke.configured(maxConcurrency=1)
    keys = [unique("key"), unique("key")]
    for key in keys:
        _waiting(smoke, queue, type=job_type, concurrencyKey=key, maxConcurrency=1)
    claimed = _poll(smoke, _worker(smoke, queue), maxItems=2)
    assert len(claimed) == 1, f"{len(claimed)} of the type are claimed"
    rows = [row for key in keys for row in _slots(smoke, key)]
    assert len(rows) == 1, f"{len(rows)} slots are taken: none was given back"


def polls_with_a_result(smoke: Smoke) -> None:
    """What a worker is given takes a value from the result of the job that its job waited for."""
    queue = unique("queue")
    parent = smoke.create(target={"type": "handler", "name": "echo"}, payload={"n": 1.5}, schedule=once(0))
    parent_id = parent.rpartition("/")[2]
    payload = {"n": {"$from": parent_id, "path": "payload.n"}}
    _waiting(smoke, queue, schedule=None, dependsOn=[{"jobId": parent_id}], payload=payload)
    [claimed] = _poll(smoke, _worker(smoke, queue))
    assert claimed["payload"] == {"n": 1.5}, "the result is not in the payload"


def _slots(smoke: Smoke, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = smoke.aws.dynamodb.scan(
        TableName=smoke.stack.outputs["CoordinationTable"],
        FilterExpression="contains(kind, :key)",
        ExpressionAttributeValues={":key": {"S": key}},
        ConsistentRead=True,
    )["Items"]
    return rows


def arms_a_far_deadline(smoke: Smoke) -> None:
    """The hint of a claim whose deadline is more than 15 minutes away is a schedule."""
    queue = unique("queue")
    path = _waiting(smoke, queue, timeoutSeconds=7_200)
    assert len(_poll(smoke, _worker(smoke, queue))) == 1, "the poll finds nothing"
    assert smoke.schedules(path), "the far deadline has no schedule"


def ends_what_is_polled_too_late(smoke: Smoke) -> None:
    """A retry whose window is over is ended by the poll that meets it, and the run behind it is due."""
    queue = unique("queue")
    retries = {"maxRetries": 1, "initialDelaySeconds": 1, "jitter": 0, "retryWindowSeconds": WINDOW}
    path = _waiting(smoke, queue, retryConfig=retries, overlapPolicy="queue")
    worker = _worker(smoke, queue)
    [first] = _poll(smoke, worker)
    report = {"workerId": first["workerId"], "fence": first["fence"], "error": {"code": "TARGET_ERROR"}}
    assert smoke.api.post(f"/v1/executions/{first['id']}/fail", report, role="admin").status_code == 200
    smoke.act(path, "execute")
    over = instant(first["scheduledFor"]) + WINDOW
    assert time.time() < over - 2, "the machine is too slow for this check"
    time.sleep(over + 3 - time.time())
    found = _poll(smoke, worker)
    assert found == [], f"the poll finds {found}"
    history = smoke.get(f"{path}/history")["data"]
    assert "RETRY_WINDOW_OVER" in [each["reason"] for each in history], "the retry was not ended"
    until(lambda: _newest(smoke, path).get("reason") == "WAITS_FOR_WORKER", seconds=SOON, hint="the next run is due")


def reports_progress(smoke: Smoke) -> None:
    folder = smoke.stack.place.directory / "tmp" / unique("expire")
    folder.mkdir()
    try:
        (folder / "old").touch()
        target = {"type": "handler", "name": "expire-files"}
        payload = {"directory": folder.name, "olderThanSeconds": -1}
        path = smoke.create(target=target, schedule=once(0), payload=payload)
        smoke.reaches(path, "COMPLETED")
    finally:
        shutil.rmtree(folder)
    execution = _newest(smoke, path)["id"]
    row = smoke.aws.dynamodb.get_item(
        TableName=smoke.stack.outputs["CoordinationTable"],
        Key={"kind": {"S": "progress"}, "name": {"S": execution}},
        ConsistentRead=True,
    )
    assert row.get("Item", {}).get("m", {}).get("S") == "0 of 1 removed", "no progress was kept"


WORK_CHECKS: dict[str, Callable[[Smoke], None]] = {
    "ReadJob": polls,
    "ChangeJob": polls,
    "ReadWorker": polls,
    "CountRequest": polls,
    "FindWaiting": polls,
    "ReadSlots": polls_within_a_limit,
    "TakeSlots": polls_within_a_limit,
    "FreeSlots": polls_within_a_limit,
    "ReadExecution": polls_with_a_result,
    "RecordExecution": ends_what_is_polled_too_late,
    "SendHints": ends_what_is_polled_too_late,
    "ArmSchedules": arms_a_far_deadline,
}

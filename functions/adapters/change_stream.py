"""Records of the streams of Jobs and Coordination, as changes that tell something."""

from __future__ import annotations

from typing import Any

from functions.adapters.dynamodb_circuits import read_circuit
from functions.adapters.dynamodb_items import read_job
from functions.adapters.dynamodb_keys import CIRCUITS, circuit_key_of, row_of
from functions.adapters.dynamodb_set_aside import is_set_aside
from functions.adapters.dynamodb_workers import read_worker
from functions.domain.event import Change
from functions.domain.target_events import CircuitChange, WorkerDrained, WorkerRegistered

STATE = "S"


def read_change(record: dict[str, Any]) -> Change | CircuitChange | WorkerRegistered | WorkerDrained | None:
    """The change; None for a record that tells nothing: of a definition, of what expired, of a heartbeat,
    of a row that was only set aside.

    Raises CorruptDefinitionError, KeyError or ValueError for one that cannot be read.
    """
    images = record["dynamodb"]
    if record["eventName"] == "REMOVE":
        return None
    if "kind" in images["Keys"]:
        return _coordinated(record["eventName"], images, at=float(images["ApproximateCreationDateTime"]))
    if row_of(images["Keys"]) != STATE:
        return None
    if is_set_aside(images["NewImage"]):
        return None
    old = images.get("OldImage")
    return Change(
        before=None if old is None else read_job(old),
        after=read_job(images["NewImage"]),
        at=float(images["ApproximateCreationDateTime"]),
    )


def _coordinated(
    event: str, images: dict[str, Any], *, at: float
) -> CircuitChange | WorkerRegistered | WorkerDrained | None:
    kind, old, new = images["Keys"]["kind"]["S"], images.get("OldImage"), images["NewImage"]
    if kind == "worker":
        worker = read_worker(new)
        if event == "INSERT":
            return WorkerRegistered(worker=worker)
        was_draining = old is not None and read_worker(old).draining
        return WorkerDrained(worker=worker, at=at) if worker.draining and not was_draining else None
    if not kind.startswith(CIRCUITS):
        return None
    key = circuit_key_of(new)
    return CircuitChange(before=None if old is None else read_circuit(key, old), after=read_circuit(key, new))

"""Names of keys and indexes of the four tables, and the one place that builds and parses them (docs/architecture.md).

| table        | partition | sort                                             | indexes (keys only)     |
|--------------|-----------|--------------------------------------------------|-------------------------|
| Jobs         | `jobId`   | `S`: `S` state, `D#<revision>#<mark>` definition | attention owner waiting |
| Executions   | `jobId`   | `sk`: `<slot>-<attempt>`, gaps `<first>-0000`    | dead `dl ca`            |
|              | `<job>#ends` | `<number>`: ends of runs, for other jobs      |                         |
| Idempotency  | `pk`      |                                                  |                         |
| Coordination | `kind`    | `name`                                           |                         |

Keys of the indexes of Jobs: attention `as at`, owner `ow oc`, waiting `wp ws`.

| `kind` of Coordination                       | `name`             | what                                       |
|----------------------------------------------|--------------------|--------------------------------------------|
| `bucket`, `owner`                            | caller, owner      | what is left of a limit; who owns jobs     |
| `retry-config`                               | job type           | configuration of a type                    |
| `circuit#<owner>`                            | `<target>~<type>`  | a circuit; no owner: one that all share    |
| `worker`, `progress`                         | worker, execution  | a worker; how far an execution is          |
| `slot#<concurrency key>`                     | `<index>`          | a slot that is taken                       |
| `share#<owner>`                              | priority           | what an owner uses of its share            |
| `dependents#<job>`                           | job                | an edge to a job that depends on this one  |
| `graph`                                      | owner              | version of the owner's graph               |
| `workflow`                                   | workflow           | jobs that were created together            |
| `workflows#<owner>`                          | `<created>#<id>`   | the list of an owner's workflows           |

The attribute `ttl` of every table is the epoch second after which DynamoDB may delete the row.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from typing import Any

from functions.domain.circuit_key import CircuitKey
from functions.domain.errors import InvalidFieldError
from functions.domain.ids import is_slot_id

AttributeValue = Mapping[str, Any]
"""DynamoDB's typed value: `{"S": "text"}`, `{"N": "1"}`, `{"M": {…}}`."""
Item = Mapping[str, AttributeValue]

ATTENTION_INDEX = "attention"
OWNER_INDEX = "owner"
WAITING_INDEX = "waiting"

SHARDS = 32
"""Partitions of the attention index: each takes 1 000 write units a second (DynamoDB quotas)."""
WAITING_SHARDS = 4
"""Partitions of the waiting index for each thing that runs wait for."""
DEAD_LETTERS = "d"
"""Partition of the index of dead letters."""

_ENDS = "#ends"
_OWNER_PLACE = re.compile(r"\d{10}#[0-9a-f-]{36}", re.ASCII)
_WORKFLOW_PLACE = re.compile(r"\d{10}#.{1,64}", re.ASCII)
_WORKER_PLACE = re.compile(r"[a-z2-7]{16}", re.ASCII)
_CIRCUIT_PLACE = re.compile(r"[!-~]{1,1024}", re.ASCII)
_HISTORY_PLACE = re.compile(r"\d{10}([dm][a-z2-7]{8})?-\d{4}", re.ASCII)


def text(value: str) -> dict[str, Any]:
    return {"S": value}


def number(value: float) -> dict[str, Any]:
    return {"N": str(value)}


# --- Jobs ---


def state_key(job_id: str) -> dict[str, Any]:
    return {"jobId": text(job_id), "S": text("S")}


def definition_key(job_id: str, row: str) -> dict[str, Any]:
    return {"jobId": text(job_id), "S": text(row)}


def definition_row(revision: int, write_id: str) -> str:
    """Carries the write's mark, so two changes never meet in one row."""
    return f"D#{revision}#{write_id}"


def job_id_of(item: Item) -> str:
    return str(item["jobId"]["S"])


def row_of(item: Item) -> str:
    """The sort key of a row of Jobs."""
    return str(item["S"]["S"])


def attention_shard(job_id: str) -> int:
    return zlib.crc32(job_id.encode()) % SHARDS


def attention_partition(shard: int) -> str:
    return f"a#{shard}"


def waiting_shard(job_id: str) -> int:
    return zlib.crc32(job_id.encode()) % WAITING_SHARDS


def waiting_partition(what: str, shard: int) -> str:
    return f"{what}#{shard}"


def owner_place(created_at: int, job_id: str) -> str:
    """Where a job stands in its owner's list."""
    return f"{created_at:010d}#{job_id}"


def job_at(place: str) -> str:
    """The id of the job that stands there."""
    return place.split("#", 1)[1]


def owner_start_key(owner: str, place: str) -> dict[str, Any]:
    """Where a query of the owner index goes on: the place is the cursor's, the owner the request's.

    Raises InvalidFieldError("cursor", …) for what is no place: DynamoDB would refuse it in words of its own.
    """
    _must_be_place(place, _OWNER_PLACE)
    return state_key(job_at(place)) | {"ow": text(owner), "oc": text(place)}


# --- Executions ---


def execution_key(job_id: str, slot_id: str, attempt: int) -> dict[str, Any]:
    return {"jobId": text(job_id), "sk": text(f"{slot_id}-{attempt:04d}")}


def gap_key(job_id: str, first: int) -> dict[str, Any]:
    return execution_key(job_id, f"{first:010d}", 0)


def end_key(job_id: str, number: int) -> dict[str, Any]:
    """The end of a run, by its number: a partition beside that of the job's history."""
    return {"jobId": text(f"{job_id}{_ENDS}"), "sk": text(f"{number:010d}")}


def is_end(item: Item) -> bool:
    """Whether the row of Executions keeps the end of a run for other jobs, and is no part of a history."""
    return job_id_of(item).endswith(_ENDS)


def history_start_key(job_id: str, place: str) -> dict[str, Any]:
    """Where a query of a job's history goes on; raises InvalidFieldError("cursor", …) for what is no place."""
    _must_be_place(place, _HISTORY_PLACE)
    return {"jobId": text(job_id), "sk": text(place)}


def history_place(item: Item) -> str:
    return str(item["sk"]["S"])


def split_history_place(place: str) -> tuple[str, int]:
    """Slot id and attempt, 0 for a gap; raises ValueError."""
    slot_id, attempt = place.rsplit("-", 1)
    if not is_slot_id(slot_id):
        raise ValueError(f"{slot_id!r:.64} is no slot id")
    return slot_id, int(attempt)


def _must_be_place(place: str, form: re.Pattern[str]) -> None:
    if not form.fullmatch(place):
        raise InvalidFieldError("cursor", "This is no cursor of this list: begin without one.")


# --- Idempotency, Coordination ---


def idempotency_key(scope: str, key: str) -> dict[str, Any]:
    """Hashed: bounded, and nothing that a caller sent can be read from it."""
    mark = hashlib.sha256(scope.encode() + b"\0" + key.encode()).hexdigest()
    return {"pk": text(mark)}


def bucket_key(caller: str) -> dict[str, Any]:
    return {"kind": text("bucket"), "name": text(caller)}


def worker_key(worker_id: str) -> dict[str, Any]:
    return {"kind": text("worker"), "name": text(worker_id)}


def worker_position(place: str) -> str:
    """Raises InvalidFieldError("cursor", …) for what is no worker's id."""
    _must_be_place(place, _WORKER_PLACE)
    return place


def progress_key(execution_id: str) -> dict[str, Any]:
    return {"kind": text("progress"), "name": text(execution_id)}


RETRY_CONFIGS = "retry-config"
"""Kind of the rows of job types' configurations."""


def retry_config_key(job_type: str) -> dict[str, Any]:
    return {"kind": text(RETRY_CONFIGS), "name": text(job_type)}


def owner_key(owner: str) -> dict[str, Any]:
    return {"kind": text("owner"), "name": text(owner)}


def dependents_kind(parent: str) -> str:
    """The partition of the edges to a job's dependents."""
    return f"dependents#{parent}"


def edge_row(parent: str, child: str) -> dict[str, Any]:
    return {"kind": text(dependents_kind(parent)), "name": text(child)}


def graph_row(owner: str) -> dict[str, Any]:
    return {"kind": text("graph"), "name": text(owner)}


def workflow_row(workflow_id: str) -> dict[str, Any]:
    return {"kind": text("workflow"), "name": text(workflow_id)}


def workflows_kind(owner: str) -> str:
    """The partition of the list of an owner's workflows."""
    return f"workflows#{owner}"


def workflow_place(created_at: int, workflow_id: str) -> str:
    """Where a workflow stands in its owner's list."""
    return f"{created_at:010d}#{workflow_id}"


def listed_workflow(owner: str, place: str) -> dict[str, Any]:
    """Raises InvalidFieldError("cursor", …) for what is no place."""
    _must_be_place(place, _WORKFLOW_PLACE)
    return {"kind": text(workflows_kind(owner)), "name": text(place)}


def workflow_at(place: str) -> str:
    """The id of the workflow that stands there."""
    return place.split("#", 1)[1]


CIRCUITS = "circuit#"
"""What the partitions of circuits begin with."""


def circuits_kind(owner: str | None) -> str:
    """The partition of an owner's circuits; None: of those that all owners share."""
    return f"{CIRCUITS}{owner or ''}"


def circuit_row(key: str) -> dict[str, Any]:
    parsed = CircuitKey.parse(key)
    return {"kind": text(circuits_kind(parsed.owner)), "name": text(parsed.name)}


def circuit_key_of(item: Item) -> str:
    owner = str(item["kind"]["S"]).removeprefix(CIRCUITS)
    return str(CircuitKey.within(owner or None, name_of(item)))


def circuit_start_key(owner: str | None, place: str) -> dict[str, Any]:
    """Where a query of an owner's circuits goes on; raises InvalidFieldError("cursor", …) for what is not a place."""
    _must_be_place(place, _CIRCUIT_PLACE)
    return {"kind": text(circuits_kind(owner)), "name": text(place)}


def slot_kind(key: str) -> str:
    """The partition of a concurrency key's slots."""
    return f"slot#{key}"


def slot_row(key: str, index: int) -> dict[str, Any]:
    """Sorted by number, as text."""
    return {"kind": text(slot_kind(key)), "name": text(f"{index:04d}")}


def share_row(owner: str, priority: str) -> dict[str, Any]:
    return {"kind": text(f"share#{owner}"), "name": text(priority)}


def name_of(item: Item) -> str:
    """The sort key of a row of Coordination."""
    return str(item["name"]["S"])

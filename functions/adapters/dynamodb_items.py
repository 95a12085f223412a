"""Rows of the tables Jobs and Executions and what they mean in the domain, both ways, in one table of names.

A state row is written each time a job moves, so its names are short and what equals its default is absent.
Attributes that this release does not know are never touched: a newer one may have put them there.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from functions.adapters.dynamodb_fields import (
    FLAG,
    FLOAT,
    INT,
    INTS,
    REQUIRED,
    TEXT,
    TEXTS,
    Field,
    Kind,
    enumerated,
    mapped,
    read_fields,
    write_fields,
)
from functions.adapters.dynamodb_keys import (
    Item,
    attention_partition,
    attention_shard,
    job_id_of,
    number,
    owner_place,
    text,
    waiting_partition,
    waiting_shard,
)
from functions.adapters.stored_results import make_last_run
from functions.domain.actor import Actor
from functions.domain.concurrency import place_of
from functions.domain.definition import Definition, Priority
from functions.domain.errors import CorruptDefinitionError, UnreadableRowError
from functions.domain.ids import is_slot_id
from functions.domain.job import Followed, Gap, GateChange, GateChanged, Job, SkipReason, Upstream
from functions.domain.run import ActiveRun, Approval, Decision, Outcome, RunState
from functions.domain.silence import Silence
from functions.domain.stored_json import read_stored

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY = 86_400
DELETED_JOB_DAYS = 30
"""How long the row of a deleted job can still be read."""

_NO_RUNS: Mapping[str, ActiveRun] = MappingProxyType({})


def _slot(value: str) -> str:
    if not is_slot_id(value):
        raise ValueError(f"{value!r:.64} is no slot id")
    return value


ACTOR = Kind(lambda actor: text(actor.as_text()), lambda value: Actor.read(str(value["S"])))
_GATE_CHANGE_FIELDS = (
    Field("revision", "n", INT, REQUIRED),
    Field("what", "w", enumerated(GateChanged), REQUIRED),
)
_SLOT_ID = Kind(text, lambda value: _slot(value["S"]))
APPROVAL = mapped(
    Approval,
    (
        Field("decision", "d", enumerated(Decision), REQUIRED),
        Field("by", "b", TEXT, REQUIRED),
        Field("at", "t", INT, REQUIRED),
        Field("comment", "c", TEXT),
        Field("subject", "s", TEXT),
    ),
)
_RUN_FIELDS = (
    Field("state", "st", enumerated(RunState), REQUIRED),
    Field("attempt", "n", INT, REQUIRED),
    Field("attempt_limit", "lim", INT, REQUIRED),
    Field("fence", "f", INT, 0),
    Field("lease_expires_at", "lease", INT),
    Field("started_at", "sa", FLOAT),
    Field("due_at", "at", INT),
    Field("manual", "man", FLAG, default=False),
    Field("forced", "frc", FLAG, default=False),
    Field("asked_attempt", "aa", INT, 0),
    Field("started_by", "own", TEXT),
    Field("waits_for", "wf", TEXT),
    Field("deferrals", "dn", INT, 0),
    Field("deferred_for", "dr", TEXT),
    Field("deferred_at", "ds", INT),
    Field("looked_at", "lk", INT),
    Field("held_back_at", "hb", INT),
    Field("granted", "gr", TEXT),
    Field("holds", "sl", TEXTS, ()),
    Field("probes", "pb", TEXT),
    Field("worker_id", "w", TEXT),
    Field("deadline_at", "dl", INT),
    Field("took", "tk", INTS, ()),
    Field("verdict", "vd", enumerated(Outcome)),
    Field("verdict_for", "vr", TEXT),
    Field("approval", "ap", APPROVAL),
    Field("asked_by", "ab", TEXT),
)
_RUN = mapped(ActiveRun, _RUN_FIELDS)
_RUNS = Kind(
    lambda runs: {"M": {slot_id: _RUN.write(run) for slot_id, run in runs.items()}},
    lambda value: MappingProxyType({_slot(slot_id): _RUN.read(run) for slot_id, run in value["M"].items()}),
)
_GAP_FIELDS = (
    Field("first", "from", INT, REQUIRED),
    Field("last", "to", INT, REQUIRED),
    Field("count", "n", INT, REQUIRED),
    Field("reason", "r", enumerated(SkipReason), REQUIRED),
)
_GAP = mapped(Gap, _GAP_FIELDS)
LAST_RUN_FIELDS = (
    Field("slot_id", "slot", _SLOT_ID, REQUIRED),
    Field("attempt", "n", INT, REQUIRED),
    Field("outcome", "o", enumerated(Outcome), REQUIRED),
    Field("fence", "f", INT, 0),
    Field("ended_at", "t", INT, REQUIRED),
    Field("error_code", "e", TEXT),
    Field("reason", "r", TEXT),
    Field("ended_by", "wid", TEXT),
    Field("started_at", "sa", FLOAT),
    Field("completed_at", "ca", FLOAT),
    Field("result", "res", TEXT),
    Field("approval", "ap", APPROVAL),
)
_LAST_RUN = mapped(make_last_run, LAST_RUN_FIELDS)
_UPSTREAM_FIELDS = (
    Field("marks", "m", INTS, REQUIRED),
    Field("look_at", "at", INT),
    Field("since", "t", INT),
    Field("blocked_by", "b", INT),
    Field("seen", "s", INTS, ()),
)
_TOLD = Kind(number, lambda value: int(value["N"]))
"""-1: those who wait for a first end are to be told that none comes."""
_FOLLOWED_FIELDS = (
    Field("ends", "n", INT, REQUIRED),
    Field("told", "k", _TOLD, REQUIRED),
    Field("cursor", "c", TEXT),
    Field("once", "o", FLAG, default=False),
)
_SILENCE_FIELDS = (
    Field("after", "s", INT, REQUIRED),
    Field("since", "t", INT, REQUIRED),
    Field("last_success_at", "ok", INT),
    Field("alerted", "al", FLAG, default=False),
    Field("once", "o", FLAG, default=False),
)

_JOB = (
    Field("owner", "o", TEXT, REQUIRED),
    Field("created_by", "cb", TEXT, REQUIRED),
    Field("created_at", "ca", INT, REQUIRED),
    Field("revision", "rev", INT, 1),
    Field("seq", "seq", INT, REQUIRED),
    Field("write_id", "wid", TEXT, ""),
    Field("definition_row", "dr", TEXT),
    Field("revised_by", "rw", TEXT, ""),
    Field("acted", "by", ACTOR),
    Field("updated_by", "ub", TEXT),
    Field("changed_by", "ch", TEXT),
    Field("gate_change", "gc", mapped(GateChange, _GATE_CHANGE_FIELDS)),
    Field("priority", "pr", enumerated(Priority), Priority.NORMAL),
    Field("lean", "ln", FLAG, default=False),
    Field("spread", "sp", INT, 0),
    Field("next_slot", "nx", INT),
    Field("last_slot", "ls", INT),
    Field("runs", "runs", _RUNS, _NO_RUNS),
    Field("cancelled_calls", "cc", _RUNS, _NO_RUNS),
    Field("fence", "f", INT, 0),
    Field("gap", "gap", _GAP),
    Field("catch_up_to", "cu", INT),
    Field("starts", "ns", INT, 0),
    Field("brake_minute", "bm", INT, 0),
    Field("brake_count", "bc", INT, 0),
    Field("attention_at", "at", INT),
    Field("wakes", "wk", INT, 0),
    Field("paused", "pa", FLAG, default=False),
    Field("cancelled", "cx", FLAG, default=False),
    Field("deleted_at", "del", INT),
    Field("last_run", "lr", _LAST_RUN),
    Field("silence", "si", mapped(Silence, _SILENCE_FIELDS)),
    Field("upstream", "up", mapped(Upstream, _UPSTREAM_FIELDS)),
    Field("followed", "fo", mapped(Followed, _FOLLOWED_FIELDS)),
)

_DOCUMENT, _PAYLOAD = "d", "p"


def state_attributes(job: Job) -> dict[str, Any]:
    """The state row without its key and without an inline definition.

    `as` is there with `at`, so the row is in the attention index exactly while somebody must look at it; `wp` and `ws`
    while a run waits for others; `ow` and `oc` give way to `ttl` when the job is deleted.
    """
    item = write_fields(job, _JOB)
    if job.attention_at is not None:
        item["as"] = text(attention_partition(attention_shard(job.id)))
    if (waiting := job.waiting) is not None:
        _, run = waiting
        shard = waiting_shard(job.id)
        item["wp"] = text(waiting_partition(str(run.waits_for), shard))
        item["ws"] = text(place_of(job.priority, run.deferred_at or 0))
    if job.deleted_at is None:
        item |= {"ow": text(job.owner), "oc": text(owner_place(job.created_at, job.id))}
    else:
        item["ttl"] = number(job.deleted_at + DELETED_JOB_DAYS * DAY)
    return item


def definition_attributes(definition: Definition) -> dict[str, Any]:
    """The same in a row of its own and inline."""
    return {_DOCUMENT: text(document_text(definition)), _PAYLOAD: text(definition.payload)}


DEFINITION_ATTRIBUTES = frozenset({_DOCUMENT, _PAYLOAD})


def document_text(definition: Definition) -> str:
    """Canonical JSON of the document: equal texts mean the same definition (1 and 1.0 are not the same)."""
    return json.dumps(definition.document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def read_job(item: Item, *, definition: Definition | None = None) -> Job:
    """The state row; `definition` where the row has none inline.

    A definition that cannot be read is None. Raises UnreadableRowError when the row itself cannot be read.
    """
    job_id = job_id_of(item)
    try:
        values = read_fields(item, _JOB)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRowError(job_id) from error
    if _DOCUMENT in item:
        definition = read_definition(item, job_id=job_id, created_at=values["created_at"])
    return Job(id=job_id, definition=definition, **values)


def read_definition(item: Item, *, job_id: str, created_at: int) -> Definition | None:
    """None when it cannot be read."""
    try:
        document = read_stored(item[_DOCUMENT]["S"])
        return Definition.read(document, item[_PAYLOAD]["S"], job_id=job_id, created_at=created_at)
    except (CorruptDefinitionError, KeyError, ValueError):
        return None


def item_size(item: Item) -> int:
    """Bytes that DynamoDB counts (developer guide, "DynamoDB item sizes and formats")."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "N":
        return len(content) // 2 + 2
    if kind == "M":
        return 3 + len(content) + item_size(content)
    return 1

"""Rows of the tables Jobs and Executions and what they mean in the domain, both ways, in one table of names.

A state row is written each time a job moves, so its names are short and what equals its default is absent.
Attributes that this release does not know are never touched: a newer one may have put them there.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from functions.adapters.dynamodb_keys import (
    DEAD_LETTERS,
    Item,
    attention_partition,
    attention_shard,
    end_key,
    execution_key,
    gap_key,
    history_place,
    job_id_of,
    number,
    owner_place,
    split_history_place,
    text,
    waiting_partition,
    waiting_shard,
)
from functions.domain.concurrency import place_of
from functions.domain.definition import Definition, Priority
from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus, SkippedSlots
from functions.domain.ids import is_slot_id
from functions.domain.job import (
    ActiveRun,
    Approval,
    Decision,
    Followed,
    Gap,
    Job,
    LastRun,
    Outcome,
    RunState,
    SkipReason,
    Upstream,
)
from functions.domain.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DAY = 86_400
DELETED_JOB_DAYS = 30
"""How long the row of a deleted job can still be read."""

LARGEST_NUMBER = 10**11
"""Largest number of a row, as an instant in the year 5138: two of them still make a date."""

_REQUIRED = object()
_NO_RUNS: Mapping[str, ActiveRun] = MappingProxyType({})


class _Kind(NamedTuple):
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], Any]


class _Field(NamedTuple):
    name: str
    attribute: str
    kind: _Kind
    default: Any = None


def _in_range(value: float) -> Any:
    """Instants and counters: what is beyond could be read, and would then break every answer that shows it."""
    if not 0 <= value <= LARGEST_NUMBER:
        raise ValueError(f"{value} is not between 0 and {LARGEST_NUMBER}")
    return value


def _slot(value: str) -> str:
    if not is_slot_id(value):
        raise ValueError(f"{value!r:.64} is no slot id")
    return value


_TEXT = _Kind(text, lambda value: str(value["S"]))
_SLOT_ID = _Kind(text, lambda value: _slot(value["S"]))
_INT = _Kind(number, lambda value: _in_range(int(value["N"])))
_FLOAT = _Kind(number, lambda value: _in_range(float(value["N"])))
_TEXTS = _Kind(lambda value: text("\n".join(value)), lambda value: tuple(str(value["S"]).split("\n")))
_INTS = _Kind(
    lambda value: text(",".join(map(str, value))),
    lambda value: tuple(_in_range(int(one)) for one in str(value["S"]).split(",")),
)
_FLAG = _Kind(lambda value: {"BOOL": value}, lambda value: bool(value["BOOL"]))


def _enum(kind: Callable[[str], Any]) -> _Kind:
    return _Kind(lambda value: text(value.value), lambda value: kind(value["S"]))


def _map(kind: Callable[..., Any], fields: Sequence[_Field]) -> _Kind:
    return _Kind(lambda value: {"M": _write(value, fields)}, lambda value: kind(**_read(value["M"], fields)))


def _write(value: Any, fields: Sequence[_Field]) -> dict[str, Any]:
    item = {}
    for field in fields:
        part = getattr(value, field.name)
        if part != field.default:
            item[field.attribute] = field.kind.write(part)
    return item


def _read(item: Item, fields: Sequence[_Field]) -> dict[str, Any]:
    values = {}
    for field in fields:
        if field.attribute in item:
            values[field.name] = field.kind.read(item[field.attribute])
        elif field.default is _REQUIRED:
            raise KeyError(field.attribute)
        else:
            values[field.name] = field.default
    return values


_APPROVAL = _map(
    Approval,
    (
        _Field("decision", "d", _enum(Decision), _REQUIRED),
        _Field("by", "b", _TEXT, _REQUIRED),
        _Field("at", "t", _INT, _REQUIRED),
        _Field("comment", "c", _TEXT),
    ),
)
_RUN_FIELDS = (
    _Field("state", "st", _enum(RunState), _REQUIRED),
    _Field("attempt", "n", _INT, _REQUIRED),
    _Field("attempt_limit", "lim", _INT, _REQUIRED),
    _Field("fence", "f", _INT, 0),
    _Field("lease_expires_at", "lease", _INT),
    _Field("started_at", "sa", _FLOAT),
    _Field("due_at", "at", _INT),
    _Field("manual", "man", _FLAG, default=False),
    _Field("forced", "frc", _FLAG, default=False),
    _Field("asked_attempt", "aa", _INT, 0),
    _Field("started_by", "own", _TEXT),
    _Field("waits_for", "wf", _TEXT),
    _Field("deferrals", "dn", _INT, 0),
    _Field("deferred_for", "dr", _TEXT),
    _Field("deferred_at", "ds", _INT),
    _Field("looked_at", "lk", _INT),
    _Field("holds", "sl", _TEXTS, ()),
    _Field("worker_id", "w", _TEXT),
    _Field("deadline_at", "dl", _INT),
    _Field("took", "tk", _INTS, ()),
    _Field("verdict", "vd", _enum(Outcome)),
    _Field("verdict_for", "vr", _TEXT),
    _Field("approval", "ap", _APPROVAL),
)
_RUN = _map(ActiveRun, _RUN_FIELDS)
_RUNS = _Kind(
    lambda runs: {"M": {slot_id: _RUN.write(run) for slot_id, run in runs.items()}},
    lambda value: MappingProxyType({_slot(slot_id): _RUN.read(run) for slot_id, run in value["M"].items()}),
)
_GAP_FIELDS = (
    _Field("first", "from", _INT, _REQUIRED),
    _Field("last", "to", _INT, _REQUIRED),
    _Field("count", "n", _INT, _REQUIRED),
    _Field("reason", "r", _enum(SkipReason), _REQUIRED),
)
_GAP = _map(Gap, _GAP_FIELDS)
_LAST_RUN_FIELDS = (
    _Field("slot_id", "slot", _SLOT_ID, _REQUIRED),
    _Field("attempt", "n", _INT, _REQUIRED),
    _Field("outcome", "o", _enum(Outcome), _REQUIRED),
    _Field("fence", "f", _INT, 0),
    _Field("ended_at", "t", _INT, _REQUIRED),
    _Field("error_code", "e", _TEXT),
    _Field("reason", "r", _TEXT),
    _Field("ended_by", "wid", _TEXT),
    _Field("started_at", "sa", _FLOAT),
    _Field("completed_at", "ca", _FLOAT),
    _Field("result", "res", _TEXT),
)
_LAST_RUN = _map(LastRun, _LAST_RUN_FIELDS)
_UPSTREAM_FIELDS = (
    _Field("marks", "m", _INTS, _REQUIRED),
    _Field("look_at", "at", _INT),
    _Field("since", "t", _INT),
    _Field("blocked_by", "b", _INT),
)
_FOLLOWED_FIELDS = (
    _Field("ends", "n", _INT, _REQUIRED),
    _Field("told", "k", _INT, _REQUIRED),
    _Field("cursor", "c", _TEXT),
    _Field("once", "o", _FLAG, default=False),
)
_SILENCE_FIELDS = (
    _Field("after", "s", _INT, _REQUIRED),
    _Field("since", "t", _INT, _REQUIRED),
    _Field("last_success_at", "ok", _INT),
    _Field("alerted", "al", _FLAG, default=False),
    _Field("once", "o", _FLAG, default=False),
)

_JOB = (
    _Field("owner", "o", _TEXT, _REQUIRED),
    _Field("created_by", "cb", _TEXT, _REQUIRED),
    _Field("created_at", "ca", _INT, _REQUIRED),
    _Field("revision", "rev", _INT, 1),
    _Field("seq", "seq", _INT, _REQUIRED),
    _Field("write_id", "wid", _TEXT, ""),
    _Field("definition_row", "dr", _TEXT),
    _Field("revised_by", "rw", _TEXT, ""),
    _Field("priority", "pr", _enum(Priority), Priority.NORMAL),
    _Field("lean", "ln", _FLAG, default=False),
    _Field("spread", "sp", _INT, 0),
    _Field("next_slot", "nx", _INT),
    _Field("last_slot", "ls", _INT),
    _Field("runs", "runs", _RUNS, _NO_RUNS),
    _Field("fence", "f", _INT, 0),
    _Field("gap", "gap", _GAP),
    _Field("catch_up_to", "cu", _INT),
    _Field("starts", "ns", _INT, 0),
    _Field("brake_minute", "bm", _INT, 0),
    _Field("brake_count", "bc", _INT, 0),
    _Field("attention_at", "at", _INT),
    _Field("wakes", "wk", _INT, 0),
    _Field("paused", "pa", _FLAG, default=False),
    _Field("cancelled", "cx", _FLAG, default=False),
    _Field("deleted_at", "del", _INT),
    _Field("last_run", "lr", _LAST_RUN),
    _Field("silence", "si", _map(Silence, _SILENCE_FIELDS)),
    _Field("upstream", "up", _map(Upstream, _UPSTREAM_FIELDS)),
    _Field("followed", "fo", _map(Followed, _FOLLOWED_FIELDS)),
)

_DOCUMENT, _PAYLOAD = "d", "p"


def state_attributes(job: Job) -> dict[str, Any]:
    """The state row without its key and without an inline definition.

    `as` is there with `at`, so the row is in the attention index exactly while somebody must look at it; `wp` and `ws`
    while a run waits for others; `ow` and `oc` give way to `ttl` when the job is deleted.
    """
    item = _write(job, _JOB)
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

    A definition that cannot be read is None. Raises CorruptDefinitionError when the row itself cannot be read.
    """
    job_id = job_id_of(item)
    try:
        values = _read(item, _JOB)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDefinitionError(f"The stored row of job {job_id} cannot be read.") from error
    if _DOCUMENT in item:
        definition = read_definition(item, job_id=job_id, created_at=values["created_at"])
    return Job(id=job_id, definition=definition, **values)


def read_definition(item: Item, *, job_id: str, created_at: int) -> Definition | None:
    """None when it cannot be read."""
    try:
        document = json.loads(item[_DOCUMENT]["S"])
        return Definition.read(document, item[_PAYLOAD]["S"], job_id=job_id, created_at=created_at)
    except (CorruptDefinitionError, KeyError, ValueError, RecursionError):
        return None


_EXECUTION = (
    _Field("status", "s", _enum(ExecutionStatus), _REQUIRED),
    _Field("final", "fin", _FLAG, default=False),
    _Field("fence", "f", _INT, 0),
    _Field("write_id", "wid", _TEXT, ""),
    _Field("completed_at", "ca", _FLOAT, _REQUIRED),
    _Field("started_at", "sa", _FLOAT),
    _Field("next_retry_at", "nr", _INT),
    _Field("reason", "r", _TEXT),
    _Field(
        "error",
        "err",
        _map(ExecutionError, (_Field("code", "c", _TEXT, _REQUIRED), _Field("message", "m", _TEXT, _REQUIRED))),
    ),
    _Field("result", "res", _TEXT),
    _Field("deferrals", "dn", _INT, 0),
    _Field("deferred_for", "dr", _TEXT),
    _Field("worker_id", "w", _TEXT),
    _Field("approval", "ap", _APPROVAL),
)
_SKIPPED = (
    _Field("first", "from", _INT, _REQUIRED),
    _Field("last", "to", _INT, _REQUIRED),
    _Field("count", "n", _INT, _REQUIRED),
    _Field("reason", "r", _enum(SkipReason), _REQUIRED),
    _Field("recorded_at", "ca", _FLOAT, _REQUIRED),
)


def execution_item(execution: Execution, *, retention_days: int) -> dict[str, Any]:
    item = execution_key(execution.job_id, execution.slot_id, execution.attempt) | _write(execution, _EXECUTION)
    item["ttl"] = _expiry(execution.completed_at, retention_days)
    if execution.is_dead_letter:
        item["dl"] = text(DEAD_LETTERS)
    return item


def end_item(job_id: str, number: int, last: LastRun, *, retention_days: int) -> dict[str, Any]:
    """The end of a followed job's run, kept for those that depend on it."""
    return end_key(job_id, number) | _write(last, _LAST_RUN_FIELDS) | {"ttl": _expiry(last.ended_at, retention_days)}


def read_end(item: Item) -> LastRun:
    """Raises CorruptDefinitionError when the row cannot be read."""
    try:
        return LastRun(**_read(item, _LAST_RUN_FIELDS))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDefinitionError(f"The stored end {job_id_of(item)} cannot be read.") from error


def gap_item(row: SkippedSlots, *, retention_days: int) -> dict[str, Any]:
    ttl = _expiry(row.recorded_at, retention_days)
    return gap_key(row.job_id, row.first) | _write(row, _SKIPPED) | {"ttl": ttl}


def read_history(item: Item) -> Execution | SkippedSlots:
    """Raises CorruptDefinitionError when the row cannot be read."""
    job_id, place = job_id_of(item), history_place(item)
    try:
        slot_id, attempt = split_history_place(place)
        if attempt == 0:
            return SkippedSlots(job_id=job_id, **_read(item, _SKIPPED))
        return Execution(job_id=job_id, slot_id=slot_id, attempt=attempt, **_read(item, _EXECUTION))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDefinitionError(f"The stored row {place} of job {job_id} cannot be read.") from error


def _expiry(recorded_at: float, retention_days: int) -> dict[str, Any]:
    return number(int(recorded_at) + retention_days * DAY)


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

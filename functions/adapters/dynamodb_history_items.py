"""Rows of history: executions, kept ends, skipped ranges."""

from __future__ import annotations

from typing import Any

from functions.adapters.dynamodb_fields import (
    FLAG,
    FLOAT,
    INT,
    REQUIRED,
    TEXT,
    Field,
    enumerated,
    mapped,
    read_fields,
    write_fields,
)
from functions.adapters.dynamodb_items import ACTOR, APPROVAL, DAY, LAST_RUN_FIELDS
from functions.adapters.dynamodb_keys import (
    DEAD_LETTERS,
    Item,
    end_key,
    execution_key,
    gap_key,
    history_place,
    job_id_of,
    number,
    split_history_place,
    text,
)
from functions.adapters.stored_results import make_execution, make_last_run
from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus, SkippedSlots
from functions.domain.job import SkipReason
from functions.domain.run import LastRun

EXECUTION = (
    Field("status", "s", enumerated(ExecutionStatus), REQUIRED),
    Field("final", "fin", FLAG, default=False),
    Field("fence", "f", INT, 0),
    Field("write_id", "wid", TEXT, ""),
    Field("completed_at", "ca", FLOAT, REQUIRED),
    Field("started_at", "sa", FLOAT),
    Field("next_retry_at", "nr", INT),
    Field("reason", "r", TEXT),
    Field(
        "error",
        "err",
        mapped(ExecutionError, (Field("code", "c", TEXT, REQUIRED), Field("message", "m", TEXT, REQUIRED))),
    ),
    Field("result", "res", TEXT),
    Field("deferrals", "dn", INT, 0),
    Field("deferred_for", "dr", TEXT),
    Field("worker_id", "w", TEXT),
    Field("approval", "ap", APPROVAL),
    Field("cancelled_by", "by", ACTOR),
)
SKIPPED = (
    Field("first", "from", INT, REQUIRED),
    Field("last", "to", INT, REQUIRED),
    Field("count", "n", INT, REQUIRED),
    Field("reason", "r", enumerated(SkipReason), REQUIRED),
    Field("recorded_at", "ca", FLOAT, REQUIRED),
)


def execution_item(execution: Execution, *, retention_days: int) -> dict[str, Any]:
    item = execution_key(execution.job_id, execution.slot_id, execution.attempt) | write_fields(execution, EXECUTION)
    item["ttl"] = _expiry(execution.completed_at, retention_days)
    if execution.is_dead_letter:
        item["dl"] = text(DEAD_LETTERS)
    return item


def end_item(job_id: str, number: int, last: LastRun, *, retention_days: int) -> dict[str, Any]:
    """The end of a followed job's run, kept for those that depend on it."""
    return (
        end_key(job_id, number) | write_fields(last, LAST_RUN_FIELDS) | {"ttl": _expiry(last.ended_at, retention_days)}
    )


def read_end(item: Item) -> LastRun:
    """Raises CorruptDefinitionError when the row cannot be read."""
    try:
        return make_last_run(**read_fields(item, LAST_RUN_FIELDS))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDefinitionError(f"The stored end {job_id_of(item)} cannot be read.") from error


def gap_item(row: SkippedSlots, *, retention_days: int) -> dict[str, Any]:
    ttl = _expiry(row.recorded_at, retention_days)
    return gap_key(row.job_id, row.first) | write_fields(row, SKIPPED) | {"ttl": ttl}


def read_history(item: Item) -> Execution | SkippedSlots:
    """Raises CorruptDefinitionError when the row cannot be read."""
    job_id, place = job_id_of(item), history_place(item)
    try:
        slot_id, attempt = split_history_place(place)
        if attempt == 0:
            return SkippedSlots(job_id=job_id, **read_fields(item, SKIPPED))
        return make_execution(job_id=job_id, slot_id=slot_id, attempt=attempt, **read_fields(item, EXECUTION))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDefinitionError(f"The stored row {place} of job {job_id} cannot be read.") from error


def _expiry(recorded_at: float, retention_days: int) -> dict[str, Any]:
    return number(int(recorded_at) + retention_days * DAY)

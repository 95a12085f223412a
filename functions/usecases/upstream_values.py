"""The payload that an attempt is made with: the job's own, with the results it takes from those it depends on."""

from __future__ import annotations

from functions.domain.errors import CorruptDefinitionError, UnavailableError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer
from functions.domain.run import LastRun
from functions.domain.stored_json import is_readable
from functions.domain.upstream_values import PayloadSizeError, may_take, resolved, sources_of
from functions.usecases.graph import ResultNotKeptError, result_of
from functions.usecases.services import Engine


def payload_of(engine: Engine, job: Job, slot: str) -> str | TargetAnswer:
    """The payload, as JSON text, for the attempt in `slot`; the answer that stands for a call where there is none.

    Nothing is read for a payload that takes nothing.
    """
    payload = job.defined.payload
    if not is_readable(payload):
        return _unsendable("The stored payload cannot be read.")
    if not job.defined.depends_on or not may_take(payload):
        return payload
    parents = [dependency.job_id for dependency in job.defined.depends_on]
    numbers = dict(zip(parents, job.runs[slot].took, strict=False))
    sources = sources_of(payload, parents)
    try:
        ends = {source: _end(engine, source, numbers.get(source, 0)) for source in sources}
        return resolved(payload, {source: _result(engine, source, end) for source, end in ends.items()})
    except PayloadSizeError as error:
        return _unsendable(str(error))
    except ResultNotKeptError as error:
        return _unsendable(f"The payload takes from job {error.job_id}, whose result was not kept: {error.code}.")
    except (UnavailableError, CorruptDefinitionError) as error:
        return _unsendable(f"The results that the payload takes could not be read: {error}", retryable=True)


def _result(engine: Engine, parent: str, end: LastRun | None) -> str | None:
    """None where it has none, or is kept no longer."""
    return None if end is None else result_of(engine, parent, end)


def _end(engine: Engine, parent: str, number: int) -> LastRun | None:
    """The end with this number, the latest for 0; None where there is none, or it is kept no longer."""
    row = engine.jobs.get(parent, with_definition=False)
    ends = 0 if row is None or row.followed is None else row.followed.ends
    if row is not None and ends > 0 and number in (0, ends):
        return row.last_run
    return engine.history.end(parent, number) if number else None


def _unsendable(message: str, *, retryable: bool = False) -> TargetAnswer:
    """Another attempt would find the same, unless it is retryable."""
    error = ExecutionError(code="PAYLOAD_ERROR", message=message)
    return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retryable=retryable)

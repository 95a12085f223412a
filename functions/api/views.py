"""From the domain to the contract's JSON. Payloads and results are stored as JSON text and go out as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.api.body import compact
from functions.api.conditional import etag
from functions.domain.circuit_key import CircuitKey
from functions.domain.execution import Execution, SkippedSlots
from functions.domain.ids import execution_id, run_id, slot_id, slot_instant
from functions.domain.instants import rfc3339
from functions.domain.masking import masked_target
from functions.domain.run import RunState
from functions.domain.waiting import job_waits, run_waits
from functions.domain.webhook_key import REMEMBERED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from functions.domain.circuit import Circuit
    from functions.domain.job import Job, Upstream
    from functions.domain.job_type import StoredTypeConfig
    from functions.domain.progress import Progress
    from functions.domain.run import ActiveRun, Approval
    from functions.domain.waiting import Waiting
    from functions.domain.webhook_key import WebhookKeys
    from functions.ports import Page
    from functions.usecases.history import ActiveExecution, HistoryEntry

_RUN_STATUS = {RunState.RUNNING: "RUNNING", RunState.WAITING: "WAITING", RunState.QUEUED: "QUEUED"}


def job_text(job: Job) -> str:
    """The whole job, payload included; raises CorruptDefinitionError where definition or payload cannot be read."""
    return with_raw(_job(job, job.defined.document), "payload", job.defined.checked_payload)


def jobs_text(page: Page[Job]) -> str:
    """A list of jobs, without payloads. One whose definition cannot be read is shown without it."""
    jobs = [_job(job, {} if job.definition is None else job.definition.document) for job in page.items]
    return compact({"data": jobs, "pagination": _pagination(page)})


def bulk_text(results: Iterable[tuple[int, Job | dict[str, Any]]]) -> str:
    """A result for each item: its status, and the job without its payload, or the error."""
    data = [
        {"index": index, "status": status, "error": result}
        if isinstance(result, dict)
        else {"index": index, "status": status, "job": _job(result, result.defined.document)}
        for index, (status, result) in enumerate(results)
    ]
    return compact({"data": data})


def history_text(page: Page[HistoryEntry]) -> str:
    return _page([execution_text(entry) for entry in page.items], page)


def execution_text(entry: HistoryEntry) -> str:
    """One execution, finished or not, or a gap of skipped slots."""
    if isinstance(entry, Execution):
        return _execution(entry)
    return compact(_gap(entry) if isinstance(entry, SkippedSlots) else active_view(entry))


def retry_config_view(config: StoredTypeConfig) -> dict[str, Any]:
    """What was configured for a type, and by whom."""
    return {
        "jobType": config.job_type,
        **config.document,
        "updatedAt": rfc3339(config.updated_at),
        "updatedBy": config.updated_by,
    }


def retry_configs_text(page: Page[StoredTypeConfig]) -> str:
    return compact({"data": [retry_config_view(config) for config in page.items], "pagination": _pagination(page)})


def circuit_view(circuit: Circuit, now: float) -> dict[str, Any]:
    """A circuit as it stands."""
    key = CircuitKey.parse(circuit.key)
    return {
        "key": circuit.key,
        "owner": key.owner,
        "jobType": key.job_type,
        "target": key.target,
        "state": circuit.state(now).value,
        "failures": circuit.failures,
        "since": rfc3339(circuit.since) if circuit.since else None,
        "openUntil": None if circuit.open_until is None else rfc3339(circuit.open_until),
        "probe": None if circuit.probe is None else circuit.probe.execution_id,
    }


def webhook_key_view(owner: str, keys: WebhookKeys, now: float) -> dict[str, Any]:
    """An owner's webhook key, with the secret."""
    return {
        "owner": owner,
        "secret": keys.secret,
        "createdAt": rfc3339(keys.created_at),
        "signsFrom": rfc3339(keys.created_at + REMEMBERED_SECONDS),
        "previous": [{"validUntil": rfc3339(one.until)} for one in keys.previous if now < one.until],
    }


def circuits_text(page: Page[Circuit], now: float) -> str:
    return compact({"data": [circuit_view(circuit, now) for circuit in page.items], "pagination": _pagination(page)})


def _job(job: Job, document: Mapping[str, Any]) -> dict[str, Any]:
    view: dict[str, Any] = {"id": job.id, **document}
    if "id" in document or "payload" in document:  # by hand only: the fields of those names are the row's
        view = {name: value for name, value in view.items() if name != "payload"} | {"id": job.id}
    if "target" in document:
        view["target"] = masked_target(document["target"])
    view |= {
        "status": job.status.value,
        "enabled": not job.paused,
        "owner": job.owner,
        "createdBy": job.created_by,
        "updatedBy": job.updated_by or job.created_by,
        "createdAt": rfc3339(job.created_at),
        "nextRunAt": None if job.next_due is None else rfc3339(job.next_due),
        "waitingFor": waiting_view(job_waits(job)),
        "silentSince": rfc3339(job.silence.since) if job.silence is not None and job.is_silent else None,
        "revision": job.revision,
        "etag": etag(job),
        "activeRuns": [_run(job, slot, run) for slot, run in sorted(job.runs.items())],
        "gates": [_gate(job, slot, run) for slot, run in sorted(job.runs.items()) if run.at_gate],
        "lastRun": last_run_view(job),
    }
    if job.deleted_at is not None:
        view["deletedAt"] = rfc3339(job.deleted_at)
    if job.upstream is not None:
        view["upstream"] = _upstream(job.upstream, document)
    return view


def last_run_view(job: Job) -> dict[str, Any] | None:
    """How the run that ended last did; None where none has."""
    last = job.last_run
    if last is None:
        return None
    return {
        "runId": run_id(job.id, last.slot_id),
        "scheduledFor": rfc3339(slot_instant(last.slot_id)),
        "outcome": last.outcome.value,
        "attempt": last.attempt,
        "errorCode": last.error_code,
        "reason": last.reason,
        "endedAt": rfc3339(last.ended_at),
    }


def _upstream(upstream: Upstream, document: Mapping[str, Any]) -> dict[str, Any]:
    """What the job waits for; `document` is empty where it cannot be read."""
    blocked_by, dependencies = upstream.blocked_by, document.get("dependsOn", ())
    known = blocked_by is not None and blocked_by < len(dependencies)
    return {
        "waitingFor": dependencies[blocked_by]["jobId"] if known else None,
        "since": None if upstream.since is None else rfc3339(upstream.since),
        "nextLookAt": None if upstream.look_at is None else rfc3339(upstream.look_at),
    }


def waiting_view(waiting: Waiting | None) -> dict[str, Any] | None:
    """What is waited for besides the time; None for nothing."""
    if waiting is None:
        return None
    since = None if waiting.since is None else rfc3339(waiting.since)
    return {"kind": waiting.kind.value, "name": waiting.name, "since": since}


def _run(job: Job, slot: str, run: ActiveRun) -> dict[str, Any]:
    return {
        "runId": run_id(job.id, slot),
        "scheduledFor": rfc3339(slot_instant(slot)),
        "status": _RUN_STATUS[run.state],
        "attempt": run.attempt,
        "nextAttemptAt": None
        if run.due_at is None or run.state is not RunState.WAITING or run.at_gate
        else rfc3339(run.due_at),
        "waitingFor": waiting_view(run_waits(job, slot, run)),
    }


def _gate(job: Job, slot: str, run: ActiveRun) -> dict[str, Any]:
    """A run that waits for approval. `role` is null where the definition cannot be read."""
    policy = None if job.definition is None else job.definition.approval
    return {
        "runId": run_id(job.id, slot),
        "scheduledFor": rfc3339(slot_instant(slot)),
        "waitingSince": rfc3339(run.deferred_at or 0),
        "decideBy": rfc3339(run.due_at or 0),
        "role": None if policy is None else policy.role,
    }


def _approval(approval: Approval | None) -> dict[str, Any] | None:
    if approval is None:
        return None
    return {
        "decision": approval.decision.value,
        "by": approval.by,
        "at": rfc3339(approval.at),
        "comment": approval.comment,
    }


def _execution(execution: Execution) -> str:
    view = _attempt(execution.job_id, execution.slot_id, execution.attempt)
    view |= {
        "status": execution.status.value,
        "final": execution.final,
        "reason": execution.reason,
        "error": None
        if execution.error is None
        else {"code": execution.error.code, "message": execution.error.message},
        "startedAt": None if execution.started_at is None else rfc3339(execution.started_at),
        "completedAt": rfc3339(execution.completed_at),
        "nextRetryAt": None if execution.next_retry_at is None else rfc3339(execution.next_retry_at),
        "fence": execution.fence,
        "deferrals": execution.deferrals,
        "deferredFor": execution.deferred_for,
        "workerId": execution.worker_id,
        "waitingFor": None,
        "approval": _approval(execution.approval),
        "progress": None,
    }
    return with_raw(view, "result", "null" if execution.result is None else execution.result)


def active_view(execution: ActiveExecution) -> dict[str, Any]:
    """An attempt that has not ended."""
    return _attempt(execution.job_id, execution.slot_id, execution.attempt) | {
        "status": str(execution.status),
        "final": False,
        "reason": execution.reason,
        "error": None,
        "startedAt": None if execution.started_at is None else rfc3339(execution.started_at),
        "completedAt": None,
        "nextRetryAt": None if execution.due_at is None else rfc3339(execution.due_at),
        "fence": execution.fence,
        "deferrals": execution.deferrals,
        "deferredFor": execution.deferred_for,
        "workerId": execution.worker_id,
        "waitingFor": waiting_view(execution.waiting),
        "approval": _approval(execution.approval),
        "progress": None if execution.progress is None else progress_view(execution.progress),
        "result": None,
    }


def progress_view(progress: Progress) -> dict[str, Any]:
    return {"percent": progress.percent, "message": progress.message}


def _gap(gap: SkippedSlots) -> dict[str, Any]:
    return _attempt(gap.job_id, slot_id(gap.first), 0) | {
        "status": "SKIPPED",
        "final": True,
        "reason": gap.reason.value,
        "from": rfc3339(gap.first),
        "to": rfc3339(gap.last),
        "count": gap.count,
        "completedAt": rfc3339(gap.recorded_at),
    }


def _attempt(job_id: str, slot: str, attempt: int) -> dict[str, Any]:
    return {
        "id": execution_id(job_id, slot, attempt),
        "jobId": job_id,
        "runId": run_id(job_id, slot),
        "scheduledFor": rfc3339(slot_instant(slot)),
        "attempt": attempt,
    }


def _page(texts: Iterable[str], page: Page[Any]) -> str:
    return f'{{"data":[{",".join(texts)}],"pagination":{compact(_pagination(page))}}}'


def _pagination(page: Page[Any]) -> dict[str, str]:
    return {} if page.cursor is None else {"cursor": page.cursor}


def with_raw(view: Mapping[str, Any], name: str, raw: str) -> str:
    """The JSON text of the view with one more field, whose JSON text is there already."""
    return f'{compact(view)[:-1]},"{name}":{raw}}}'

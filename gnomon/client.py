"""The API for Python programs.

```python
with Client(api_url, ClientCredentials(client_id, client_secret, token_url)) as gnomon:
    job = gnomon.create_job({"name": "nightly", "schedule": {…}, "target": {…}})
    gnomon.update_job(job["id"], {"tags": ["billing"]}, etag=job["etag"])
    for execution in gnomon.history(job["id"]):
        print(execution["attempt"], execution["status"])
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gnomon.calling import Caller, if_match, segment
from gnomon.tokens import ClientCredentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gnomon.paging import Pages
    from gnomon.shapes import (
        Circuit,
        Execution,
        HistoryEntry,
        Job,
        JobSummary,
        Preview,
        Revocation,
        TypeConfig,
        WebhookKey,
    )

__all__ = ["Client", "ClientCredentials"]


class Client(Caller):
    """Jobs, their history, types and circuits. How it calls, repeats and fails is what Caller says."""

    def create_job(self, definition: Mapping[str, Any], *, idempotency_key: str | None = None) -> Job:
        """Register a job; returns the whole job. Without a key one is drawn, so that a repeat makes no second job."""
        return cast("Job", self._keyed("/v1/jobs", definition, idempotency_key))

    def get_job(self, job_id: str) -> Job:
        return cast("Job", self._call("GET", _job(job_id)))

    def list_jobs(
        self,
        *,
        status: str | None = None,
        type_: str | None = None,
        owner: str | None = None,
        tag: str | None = None,
        silent: bool | None = None,
        page_size: int = 50,
        cursor: str | None = None,
    ) -> Pages[JobSummary]:
        """Your own jobs, newest first, without payloads; `owner="*"` for all your role may see. Pages as it goes."""
        filters = {
            "status": status,
            "type": type_,
            "owner": owner,
            "tag": tag,
            "silent": None if silent is None else str(silent).lower(),
        }
        return self._pages("/v1/jobs", filters, page_size, cursor=cursor)

    def replace_job(self, job_id: str, definition: Mapping[str, Any], *, etag: str | None = None) -> Job:
        """The definition in the place of the one there is. With `etag`, as each job has it, only while nobody else has
        changed the job; such a call is not repeated, since its own first try would be such a change."""
        headers, repeatable = if_match(etag), etag is None
        return cast("Job", self._call("PUT", _job(job_id), body=definition, headers=headers, repeatable=repeatable))

    def update_job(self, job_id: str, changes: Mapping[str, Any], *, etag: str | None = None) -> Job:
        """Merge patch (RFC 7396): what `changes` leaves out stays, None takes a field away."""
        headers = {"Content-Type": "application/merge-patch+json", **if_match(etag)}
        return cast("Job", self._call("PATCH", _job(job_id), body=changes, headers=headers))

    def delete_job(self, job_id: str, *, etag: str | None = None) -> None:
        """Cancel the job and take it away; its history expires with the stage's retention."""
        self._call("DELETE", _job(job_id), headers=if_match(etag))

    def pause_job(self, job_id: str, *, etag: str | None = None) -> Job:
        return self._act(job_id, "pause", etag)

    def resume_job(self, job_id: str, *, etag: str | None = None) -> Job:
        return self._act(job_id, "resume", etag)

    def transfer_job(self, job_id: str, owner: str, *, etag: str | None = None) -> Job:
        """Give the job to another owner, such as `team-billing`. For admins."""
        return cast(
            "Job", self._call("POST", f"{_job(job_id)}/transfer", body={"owner": owner}, headers=if_match(etag))
        )

    def execute_job(self, job_id: str, *, etag: str | None = None, idempotency_key: str | None = None) -> Job:
        """Run now, beside the schedule. A key is drawn as for a creation: a repeat makes no second run."""
        return cast("Job", self._keyed(f"{_job(job_id)}/execute", None, idempotency_key, headers=if_match(etag)))

    def retry_job(
        self,
        job_id: str,
        *,
        delay_seconds: int | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Repeat the last run, which failed or waits for its retry: now, or after the delay."""
        body = None if delay_seconds is None else {"delaySeconds": delay_seconds}
        return cast("Job", self._keyed(f"{_job(job_id)}/retry", body, idempotency_key, headers=if_match(etag)))

    def cancel_job(self, job_id: str, *, etag: str | None = None) -> Job:
        """End the job for good: nothing runs after it, its history stays."""
        return self._act(job_id, "cancel", etag)

    def approve_job(
        self,
        job_id: str,
        *,
        run_id: str | None = None,
        comment: str | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Let a run pass that waits at its gate; recurring jobs need its id. A key is drawn as for a creation.

        With `etag` only the job that was read is approved, not what somebody made of it since.
        """
        return self._decide(job_id, "approve", run_id, comment, etag, idempotency_key)

    def reject_job(
        self,
        job_id: str,
        *,
        run_id: str | None = None,
        comment: str | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """End a run that waits at its gate."""
        return self._decide(job_id, "reject", run_id, comment, etag, idempotency_key)

    def history(self, job_id: str, *, page_size: int = 50, cursor: str | None = None) -> Pages[HistoryEntry]:
        """Attempts and lines of skipped slots, newest first, the active ones included. Pages as it goes."""
        return self._pages(f"{_job(job_id)}/history", {}, page_size, cursor=cursor)

    def get_execution(self, execution_id: str) -> Execution:
        return cast("Execution", self._call("GET", _execution(execution_id)))

    def cancel_execution(self, execution_id: str) -> Execution:
        return cast("Execution", self._call("POST", f"{_execution(execution_id)}/cancel"))

    def preview(
        self,
        expression: str,
        *,
        timezone: str | None = None,
        after: str | None = None,
        count: int | None = None,
        job_id: str | None = None,
    ) -> Preview:
        """The next slots of a cron expression, strictly after `after` (RFC 3339; default now)."""
        query = {"expression": expression, "timezone": timezone, "after": after, "count": count, "jobId": job_id}
        return cast("Preview", self._call("GET", "/v1/schedule/preview", query=query))

    def list_retry_configs(self, *, page_size: int = 50, cursor: str | None = None) -> Pages[TypeConfig]:
        """What is configured for the types of jobs, by type. Pages as it goes."""
        return self._pages("/v1/retry-configs", {}, page_size, cursor=cursor)

    def get_retry_config(self, job_type: str) -> TypeConfig:
        return cast("TypeConfig", self._call("GET", _retry_config(job_type)))

    def put_retry_config(self, job_type: str, config: Mapping[str, Any]) -> TypeConfig:
        """What holds for the type's jobs where they say nothing, in the place of what was configured. For admins."""
        return cast("TypeConfig", self._call("PUT", _retry_config(job_type), body=config))

    def delete_retry_config(self, job_type: str) -> None:
        """The type's jobs follow the stage again. For admins."""
        self._call("DELETE", _retry_config(job_type))

    def list_circuits(
        self, *, owner: str | None = None, page_size: int = 50, cursor: str | None = None
    ) -> Pages[Circuit]:
        """Your own circuits, by key; `owner="*"` for all your role may see, shared ones included. Pages as it goes."""
        return self._pages("/v1/circuits", {"owner": owner}, page_size, cursor=cursor)

    def reset_circuit(self, key: str) -> Circuit:
        """Close the circuit: its target is called again. For its owner, and admins."""
        return cast("Circuit", self._call("POST", f"/v1/circuits/{segment(key, 'circuit key')}/reset"))

    def get_webhook_key(self, owner: str = "me") -> WebhookKey:
        """The key by which the http calls of your jobs, or of another owner's, are signed; made where there is none."""
        return cast("WebhookKey", self._call("GET", f"/v1/webhook-keys/{segment(owner, 'owner')}"))

    def rotate_webhook_key(self, owner: str = "me", *, keep_previous_seconds: int = 86_400) -> WebhookKey:
        """A new key; those before sign beside it for so long. Every call is signed by it from `signsFrom` on."""
        body = {"keepPreviousSeconds": keep_previous_seconds}
        return cast("WebhookKey", self._call("POST", f"/v1/webhook-keys/{segment(owner, 'owner')}/rotate", body=body))

    def revoke_caller(self, subject: str) -> Revocation:
        """Refuse every request of a caller from now on: a user's `sub`, or a machine's client id. For admins."""
        return cast("Revocation", self._call("PUT", f"/v1/admin/revocations/{segment(subject, 'subject')}", body={}))

    def restore_caller(self, subject: str) -> None:
        """Let a revoked caller in again. For admins."""
        self._call("DELETE", f"/v1/admin/revocations/{segment(subject, 'subject')}")

    def _act(self, job_id: str, action: str, etag: str | None) -> Job:
        return cast("Job", self._call("POST", f"{_job(job_id)}/{action}", headers=if_match(etag)))

    def _decide(
        self, job_id: str, action: str, run_id: str | None, comment: str | None, etag: str | None, key: str | None
    ) -> Job:
        said = {"runId": run_id, "comment": comment}
        body = {name: value for name, value in said.items() if value is not None}
        return cast("Job", self._keyed(f"{_job(job_id)}/{action}", body, key, headers=if_match(etag)))


def _job(job_id: str) -> str:
    return f"/v1/jobs/{segment(job_id, 'job id')}"


def _execution(execution_id: str) -> str:
    return f"/v1/executions/{segment(execution_id, 'execution id')}"


def _retry_config(job_type: str) -> str:
    return f"/v1/retry-configs/{segment(job_type, 'job type')}"

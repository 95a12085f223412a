"""The API for Python programs.

```python
with Client(api_url, token) as gnomon:
    job = gnomon.create_job({"name": "nightly", "schedule": {…}, "target": {…}})
    for execution in gnomon.history(job["id"]):
        print(execution["attempt"], execution["status"])
```
"""

from __future__ import annotations

import json
import random
import time
import uuid
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

import httpx

from gnomon.answers import api_error, retry_after, unreachable
from gnomon.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gnomon.shapes import Circuit, Execution, Job, Preview, RetryConfig

_BUSY = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 60.0


class Client:
    """One API, one caller. Not for use from several threads at once.

    Every method raises GnomonApiError for what the API refuses and UnreachableError when no answer comes. Calls that
    may be repeated safely are repeated, at most `attempts` times in all: reads, replacements, deletions, and creations,
    runs and retries (each carries an idempotency key) on 429, 502, 503, 504 and a lost answer; all others on 429 alone,
    which says that nothing was done. `Retry-After` is honoured, up to a minute.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        *,
        timeout_seconds: float = 30.0,
        attempts: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not is_safe_url(api_url):
            raise UsageError(
                f"API URL {api_url!r} is neither https:// nor http:// on this machine.",
                advice="The token would travel unencrypted: use the https:// address of the stack's output.",
            )
        self._attempts = attempts
        self._sleep = sleep
        self._uniform = uniform
        self._clock = clock
        self._http = httpx.Client(
            base_url=api_url.rstrip("/"),
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=timeout_seconds,
            transport=transport,
            trust_env=not _is_loopback(httpx.URL(api_url)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

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
    ) -> Iterator[Job]:
        """Your own jobs, newest first, without payloads; `owner="*"` for all your role may see. Pages as it goes."""
        filters = {
            "status": status,
            "type": type_,
            "owner": owner,
            "tag": tag,
            "silent": None if silent is None else str(silent).lower(),
        }
        return cast("Iterator[Job]", self._pages("/v1/jobs", filters, page_size))

    def replace_job(self, job_id: str, definition: Mapping[str, Any], *, etag: str | None = None) -> Job:
        return cast("Job", self._call("PUT", _job(job_id), body=definition, headers=_if_match(etag)))

    def update_job(self, job_id: str, changes: Mapping[str, Any], *, etag: str | None = None) -> Job:
        """Merge patch (RFC 7396): what `changes` leaves out stays, None takes a field away."""
        headers = {"Content-Type": "application/merge-patch+json", **_if_match(etag)}
        return cast("Job", self._call("PATCH", _job(job_id), body=changes, headers=headers))

    def delete_job(self, job_id: str) -> None:
        """Cancel the job and take it away; its history expires with the stage's retention."""
        self._call("DELETE", _job(job_id))

    def pause_job(self, job_id: str) -> Job:
        return self._act(job_id, "pause")

    def resume_job(self, job_id: str) -> Job:
        return self._act(job_id, "resume")

    def execute_job(self, job_id: str, *, idempotency_key: str | None = None) -> Job:
        """Run now, beside the schedule. A key is drawn as for a creation: a repeat makes no second run."""
        return cast("Job", self._keyed(f"{_job(job_id)}/execute", None, idempotency_key))

    def retry_job(self, job_id: str, *, delay_seconds: int | None = None, idempotency_key: str | None = None) -> Job:
        """Repeat the last run, which failed or waits for its retry: now, or after the delay."""
        body = None if delay_seconds is None else {"delaySeconds": delay_seconds}
        return cast("Job", self._keyed(f"{_job(job_id)}/retry", body, idempotency_key))

    def cancel_job(self, job_id: str) -> Job:
        """End the job for good: nothing runs after it, its history stays."""
        return self._act(job_id, "cancel")

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

    def history(self, job_id: str, *, page_size: int = 50) -> Iterator[Execution]:
        """Attempts newest first, the active one included. Pages as it goes."""
        return cast("Iterator[Execution]", self._pages(f"{_job(job_id)}/history", {}, page_size))

    def get_execution(self, execution_id: str) -> Execution:
        return cast("Execution", self._call("GET", f"/v1/executions/{quote(execution_id, safe='')}"))

    def cancel_execution(self, execution_id: str) -> Execution:
        return cast("Execution", self._call("POST", f"/v1/executions/{quote(execution_id, safe='')}/cancel"))

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

    def list_retry_configs(self, *, page_size: int = 50) -> Iterator[RetryConfig]:
        """What is configured for the types of jobs, by type. Pages as it goes."""
        return cast("Iterator[RetryConfig]", self._pages("/v1/retry-configs", {}, page_size))

    def get_retry_config(self, job_type: str) -> RetryConfig:
        return cast("RetryConfig", self._call("GET", _retry_config(job_type)))

    def put_retry_config(self, job_type: str, config: Mapping[str, Any]) -> RetryConfig:
        """What holds for the type's jobs where they say nothing, in the place of what was configured. For admins."""
        return cast("RetryConfig", self._call("PUT", _retry_config(job_type), body=config))

    def delete_retry_config(self, job_type: str) -> None:
        """The type's jobs follow the stage again. For admins."""
        self._call("DELETE", _retry_config(job_type))

    def list_circuits(self, *, page_size: int = 50) -> Iterator[Circuit]:
        """Circuits of targets, by key, for who reads all owners' jobs. Pages as it goes."""
        return cast("Iterator[Circuit]", self._pages("/v1/circuits", {}, page_size))

    def reset_circuit(self, key: str) -> Circuit:
        """Close the circuit: its target is called again. For admins."""
        return cast("Circuit", self._call("POST", f"/v1/circuits/{quote(key, safe='')}/reset"))

    def _act(self, job_id: str, action: str) -> Job:
        return cast("Job", self._call("POST", f"{_job(job_id)}/{action}"))

    def _decide(
        self, job_id: str, action: str, run_id: str | None, comment: str | None, etag: str | None, key: str | None
    ) -> Job:
        said = {"runId": run_id, "comment": comment}
        body = {name: value for name, value in said.items() if value is not None}
        return cast("Job", self._keyed(f"{_job(job_id)}/{action}", body, key, headers=_if_match(etag)))

    def _keyed(
        self, path: str, body: Mapping[str, Any] | None, key: str | None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        headers = {"Idempotency-Key": key or str(uuid.uuid4()), **(headers or {})}
        return self._call("POST", path, body=body, headers=headers, repeatable=True)

    def _pages(self, path: str, filters: Mapping[str, Any], page_size: int) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = self._call("GET", path, query={**filters, "limit": page_size, "cursor": cursor})
            yield from page["data"]
            cursor = page.get("pagination", {}).get("cursor")
            if not cursor:
                return

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> Any:
        response = self._answer(method, path, query=query, body=body, headers=headers, repeatable=repeatable)
        if response is None or not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise UnreachableError(
                f"{response.url} answered {response.status_code} with something that is not JSON.",
                advice="Is this address a Gnomon API? `make up` prints the local one.",
            ) from None

    def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> httpx.Response | None:
        """The answer of a call that succeeded; None for a deletion that had been done before."""
        request = self._http.build_request(
            method,
            path,
            params={name: value for name, value in (query or {}).items() if value is not None},
            content=None if body is None else _json(body),
            headers={**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})},
        )
        repeatable = repeatable or method in {"GET", "PUT", "DELETE"}
        response, repeated = self._send(request, repeatable=repeatable)
        # The deletion whose answer was lost, or came as 503, has been done: there is nothing left.
        if method == "DELETE" and repeated and response.status_code == httpx.codes.NOT_FOUND:
            return None
        if not response.is_success:
            raise api_error(response)
        return response

    def _send(self, request: httpx.Request, *, repeatable: bool) -> tuple[httpx.Response, bool]:
        """The answer, and whether the request was sent more than once."""
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            asked: float | None = None
            try:
                response = self._http.send(request)
            except httpx.ConnectError as error:
                raise unreachable(request, error) from error
            except httpx.TransportError as error:
                if last or not repeatable:
                    raise unreachable(request, error) from error
            else:
                busy = response.status_code in _BUSY and (repeatable or response.status_code == 429)
                if last or not busy:
                    return response, attempt > 1
                asked = retry_after(response.headers.get("Retry-After"), now=self._clock())
            drawn = self._uniform(0.5, 1.0) * 2 ** (attempt - 1)
            self._sleep(min(drawn if asked is None else asked, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")


def is_safe_url(url: str) -> bool:
    """Whether a token may be sent there: over TLS, or without leaving this machine."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return bool(parsed.host) and (parsed.scheme == "https" or (parsed.scheme == "http" and _is_loopback(parsed)))


def _is_loopback(url: httpx.URL) -> bool:
    return url.host in {"127.0.0.1", "localhost", "::1"}


def _job(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _retry_config(job_type: str) -> str:
    return f"/v1/retry-configs/{quote(job_type, safe='')}"


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"If-Match": etag}


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError) as error:
        raise UsageError(f"The body cannot be written as JSON: {error}.") from error

"""A small real HTTP server that answers as the contract says, from memory: commands and demo are tested on it."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = "/_aws/execute-api/abc123/$default"


@dataclass(frozen=True, kw_only=True)
class Seen:
    method: str
    path: str
    """Below the API's address."""
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(kw_only=True)
class ApiServer:
    requests: list[Seen] = field(default_factory=list)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    histories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Newest first, by job id."""
    workflows: dict[str, dict[str, Any]] = field(default_factory=dict)
    types: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Configurations of job types, by type as it is in the path."""
    circuits: dict[str, dict[str, Any]] = field(default_factory=dict)
    webhook_key: dict[str, Any] = field(
        default_factory=lambda: {
            "owner": "team-billing",
            "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "createdAt": "2026-11-29T19:00:00Z",
            "signsFrom": "2026-11-29T19:01:00Z",
            "previous": [{"validUntil": "2026-11-30T19:00:00Z"}],
        }
    )
    """Circuits, by key."""
    refusals: list[tuple[int, Any]] = field(default_factory=list)
    """Answered before anything else, one a request."""
    on_look: Callable[[ApiServer, dict[str, Any]], None] = lambda _server, _job: None
    """Called with the job before each of its reads: here a test lets time pass."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{BASE}"

    def add_job(self, **fields: Any) -> dict[str, Any]:
        job = {
            "id": str(uuid.uuid4()),
            "name": "nightly",
            "status": "SCHEDULED",
            "schedule": {"type": "interval", "everySeconds": 60},
            "target": {"type": "handler", "name": "report"},
            "createdAt": "2026-11-29T19:00:00Z",
            "nextRunAt": "2026-11-29T19:01:00Z",
            "revision": 1,
            "owner": "team-a",
            "lastRun": None,
            **fields,
        }
        self.jobs[job["id"]] = job
        self.histories[job["id"]] = []
        return job

    def answer(self, seen: Seen) -> tuple[int, Any]:  # noqa: C901, PLR0912 - a line a route
        self.requests.append(seen)
        if self.refusals:
            return self.refusals.pop(0)
        match [seen.method, *seen.path.strip("/").split("/")]:
            case ["POST", "v1", "jobs"]:
                return 201, self.add_job(**seen.body)
            case ["GET", "v1", "jobs"]:
                return 200, _page(list(self.jobs.values()), seen.query)
            case ["GET", "v1", "workflows", workflow_id] if workflow_id in self.workflows:
                return 200, self.workflows[workflow_id]
            case ["GET", "v1", "schedule", "preview"]:
                return 200, {"slots": ["2026-11-30T08:00:00Z"], "local": ["2026-11-30T09:00:00+01:00"]}
            case ["GET", "v1", "retry-configs"]:
                return 200, _page(list(self.types.values()), seen.query)
            case ["PUT", "v1", "retry-configs", job_type]:
                marks = {"updatedAt": "2026-11-29T19:00:00Z", "updatedBy": "root"}
                self.types[job_type] = {"jobType": unquote(job_type), **seen.body, **marks}
                return 200, self.types[job_type]
            case ["GET", "v1", "webhook-keys", _] | ["POST", "v1", "webhook-keys", _, "rotate"]:
                return 200, self.webhook_key
            case ["PUT", "v1", "admin", "revocations", subject]:
                return 200, {"subject": unquote(subject), "revokedAt": "2026-11-29T19:00:00Z"}
            case ["DELETE", "v1", "admin", "revocations", _]:
                return 204, None
            case ["GET", "v1", "circuits"]:
                return 200, _page(list(self.circuits.values()), seen.query)
            case ["POST", "v1", "circuits", key, "reset"] if unquote(key) in self.circuits:
                self.circuits[unquote(key)] |= {"state": "CLOSED", "failures": 0, "openUntil": None}
                return 200, self.circuits[unquote(key)]
            case ["GET", "v1", "retry-configs", job_type] if job_type in self.types:
                return 200, self.types[job_type]
            case ["DELETE", "v1", "retry-configs", job_type] if job_type in self.types:
                del self.types[job_type]
                return 204, None
            case [method, "v1", "jobs", job_id, *action] if job_id in self.jobs:
                return self._about(method, self.jobs[job_id], *action)
        return refusal(404, "NOT_FOUND", "There is nothing here, or nothing you may see.")

    def _about(self, method: str, job: dict[str, Any], action: str = "") -> tuple[int, Any]:
        match method, action:
            case "GET", "":
                self.on_look(self, job)
                return 200, job
            case "GET", "history":
                return 200, _page(self.histories[job["id"]], {})
            case "DELETE", "":
                del self.jobs[job["id"]]
                return 204, None
            case "POST", "pause":
                job["status"] = "PAUSED"
            case "POST", "cancel":
                job["status"] = "CANCELLED"
            case "POST", "transfer":
                job["owner"] = self.requests[-1].body["owner"]
        return 200, job


def refusal(status: int, code: str, message: str, *details: tuple[str, str]) -> tuple[int, Any]:
    problems = [{"field": name, "message": text} for name, text in details]
    return status, {"error": {"code": code, "message": message, "details": problems, "requestId": "req-1"}}


def _page(items: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    start, limit = int(query.get("cursor", 0)), int(query.get("limit", 50))
    following = {"cursor": str(start + limit)} if start + limit < len(items) else {}
    return {"data": items[start : start + limit], "pagination": following}


def _handler(api: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5
        wbufsize = -1  # head and body in one packet

        def _answer(self) -> None:
            url = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen = Seen(
                method=self.command,
                path=url.path.removeprefix(BASE),
                query=dict(parse_qsl(url.query)),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=json.loads(raw) if raw else None,
            )
            status, document = api.answer(seen)
            content = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            pass

    return Handler

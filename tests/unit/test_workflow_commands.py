"""`gnomon workflow …` against the real API and engine, over ports in memory; each look lets a second pass."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from gnomon.cli import app
from gnomon.workflow_client import WorkflowClient
from gnomon.workflow_display import workflow_picture
from tests.gateway import Gateway
from tests.workflows import NEVER, Played, diamond, job, workflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")


class Served:
    """The engine behind an address of this machine."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.gateway = Gateway(played.driver)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        request = httpx.Request(
            handler.command,
            f"http://api.test{handler.path}",
            headers=dict(handler.headers),
            content=handler.rfile.read(length),
        )
        response = self.gateway(request)
        if handler.command == "GET":
            self.played.run(1)
        handler.send_response(response.status_code)
        handler.send_header("Content-Length", str(len(response.content)))
        handler.end_headers()
        handler.wfile.write(response.content)


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def url(played: Played) -> Iterator[str]:
    served = Served(played)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def do_POST(self) -> None:
            served.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def shell(url: str) -> Any:
    environment = {"NO_COLOR": "1", "COLUMNS": "200", "GNOMON_API_URL": url, "GNOMON_TOKEN": "token"}

    def call(*arguments: str, input_: str | None = None) -> Any:
        return CliRunner(env=environment).invoke(app, ("workflow", *arguments), input=input_)

    return call


def made(shell: Any, body: dict[str, Any]) -> str:
    result = shell("create", "-", "--output", "json", input_=json.dumps(body))
    assert result.exit_code == 0, result.output
    return str(json.loads(result.stdout)["id"])


def test_create_reads_a_file_and_shows_a_tree(shell: Any, tmp_path: Path) -> None:
    file = tmp_path / "etl.json"
    file.write_text(json.dumps(diamond()), "utf-8")
    result = shell("create", str(file), "--idempotency-key", "k")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "etl  RUNNING"
    assert [line.lstrip("│ ├└─").split()[0] for line in lines[1:5]] == ["a", "b", "d", "c"]
    assert "d  BLOCKED  waits for b, c  also after c" in result.stdout
    assert "`gnomon workflow watch " in result.stdout
    again = shell("create", str(file), "--idempotency-key", "k", "--output", "json")
    assert json.loads(again.stdout)["id"] in result.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "holds no JSON object"),
        ("{", "is not JSON"),
        (json.dumps(workflow(a=job("a"))), 'jobs.a.dependsOn[0].job: "a" is the job itself'),
    ],
)
def test_what_is_wrong_is_said(shell: Any, text: str, words: str) -> None:
    result = shell("create", "-", input_=text)
    assert result.exit_code == 1
    assert words in result.stderr


def test_watch_tells_each_change_until_the_end(shell: Any) -> None:
    workflow_id = made(shell, diamond())
    result = shell("watch", workflow_id, "--interval", "0.2")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("a  SCHEDULED")
    assert lines[-1] == "etl: COMPLETED"
    assert sum(line.startswith("d  COMPLETED") for line in lines) == 1
    told = shell("watch", workflow_id, "--output", "json").stdout.splitlines()
    assert {json.loads(line)["status"] for line in told} == {"COMPLETED"}


def test_watch_ends_with_1_where_it_failed(played: Played, shell: Any) -> None:
    played.failing = {"b"}
    workflow_id = made(shell, diamond(b=job("a", **NEVER)))
    result = shell("watch", workflow_id, "--interval", "0.2")
    assert result.exit_code == 1
    assert "d  SKIPPED  UPSTREAM_FAILED" in result.stdout
    played.failing = set()
    retried = shell("retry", workflow_id)
    assert retried.exit_code == 0
    assert retried.stdout.startswith("etl  RUNNING")
    assert shell("watch", workflow_id, "--interval", "0.2").exit_code == 0


def test_cancel_and_list_and_get(shell: Any) -> None:
    assert "No workflows." in shell("list").stdout
    workflow_id = made(shell, diamond(a=job(schedule={"type": "once", "at": "2027-01-15T18:00:00Z"})))
    assert "a  SCHEDULED  starts " in shell("get", workflow_id).stdout
    assert workflow_id in shell("list").stdout
    assert shell("cancel", workflow_id).stdout.startswith("etl  CANCELLED")
    assert shell("retry", workflow_id).exit_code == 1


def test_mermaid_is_printed_as_it_is(shell: Any) -> None:
    workflow_id = made(shell, diamond())
    result = shell("get", workflow_id, "--mermaid")
    assert result.stdout.startswith("graph TD\n  j0[")
    assert "  j0 --> j1\n" in result.stdout


def test_the_client_pages_and_repeats() -> None:
    played = Played()
    busy = iter([True, False, False, False, False, False, False])

    def transport(request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and next(busy):
            Gateway(played.driver)(request)  # done, and the answer lost
            return httpx.Response(503)
        return Gateway(played.driver)(request)

    with WorkflowClient(
        "https://api.test", "t", transport=httpx.MockTransport(transport), sleep=lambda _: None
    ) as client:
        first = client.create_workflow(workflow(a=job()))
        assert [one["id"] for one in client.list_workflows(page_size=1)] == [first["id"]]
        client.create_workflow(workflow(a=job()))
        assert len(list(client.list_workflows(page_size=1))) == 2
        assert client.cancel_workflow(first["id"])["status"] == "CANCELLED"


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    now = datetime(2027, 1, 15, 8, tzinfo=UTC)
    console = Console(width=120, no_color=True)
    seen: Any = {
        "name": "x\x1b[2J",
        "status": "WAITING",
        "jobs": [
            {"name": "a", "status": "BLOCKED", "waitsFor": "approval"},
            {"name": "b", "status": "BLOCKED", "waitsFor": "jobs", "blockedBy": [{"name": None, "jobId": "j-1"}]},
            {"name": "c", "status": "PAUSED", "waitsFor": "resume"},
            {"name": "d", "status": "COMPLETED", "readyAt": "2027-01-15T07:59:00Z", "endedAt": "2027-01-15T07:59:30Z"},
        ],
        "edges": [{"from": "b", "to": "a"}, {"from": "a", "to": "b"}, {"from": None, "to": "d"}],
        "criticalPath": [{"name": "d", "seconds": 30}],
    }
    with console.capture() as capture:
        console.print(workflow_picture(seen, now))
    text = capture.get()
    assert "\x1b" not in text
    for words in ("waits for an approval", "waits for a job outside (j-1)", "is paused", "d  COMPLETED  30 s"):
        assert words in text
    assert "critical path: d 30 s" in text

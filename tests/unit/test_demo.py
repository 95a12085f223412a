"""The demo against an API that runs its jobs: each look lets a second pass, and due jobs call the real receiver."""

from __future__ import annotations

import base64
import io
import json
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import httpx
import pytest
from rich.console import Console
from standardwebhooks import Webhook

from gnomon.client import Client
from gnomon.local import demo
from gnomon.local.receiver import Receiver
from gnomon.stack_file import Stack
from tests.unit.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


class Executor:
    """Makes an attempt of the job that is looked at, as the deployed stack would, signed with its own secret."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.starts = datetime.now(UTC)
        self.ticks = 0

    def now(self) -> datetime:
        return self.starts + timedelta(seconds=self.ticks)

    def look(self, api: ApiServer, job: dict[str, Any]) -> None:
        self.ticks += 1
        history = api.histories[job["id"]]
        if job["status"] in {"COMPLETED", "FAILED"}:
            return
        again = bool(history) and history[0]["status"] == "FAILED"
        number = history[0]["attempt"] + 1 if again else 1
        run = history[0]["runId"] if again else f"{job['id']}-{int(self.now().timestamp())}"
        status = self._call(job, f"{run}-{number:04d}")
        started = self.now().isoformat()
        history.insert(
            0,
            {
                "id": f"{run}-{number:04d}",
                "runId": run,
                "scheduledFor": started,
                "attempt": number,
                "status": "COMPLETED" if status == 200 else "FAILED",
                "final": status in {200, 401},
                "error": None if status == 200 else {"code": f"HTTP_{status}", "message": "refused"},
                "startedAt": started,
                "completedAt": started,
            },
        )
        if history[0]["final"] and job["schedule"]["type"] == "once":
            job["status"] = history[0]["status"]

    def _call(self, job: dict[str, Any], execution: str) -> int:
        body, at = json.dumps(job.get("payload")), datetime.now(UTC)
        run = execution.rpartition("-")[0]
        headers = {
            "webhook-id": run,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(self.secret).sign(run, at, body),
            "Gnomon-Job-Id": job["id"],
        }
        with httpx.Client(trust_env=False) as sender:
            return sender.post(job["target"]["url"], content=body, headers=headers).status_code


class Theatre:
    """A stage with an executor behind it; `output` is what the audience sees."""

    def __init__(self, api: ApiServer, receiver: Receiver, executor: Executor | None, *, terminal: bool) -> None:
        self.output = io.StringIO()
        self.slept = 0.0
        if executor:
            api.on_look = executor.look
        self.stage = demo.Stage(
            client=Client(api.url, "token"),
            receiver=receiver,
            console=Console(file=self.output, force_terminal=terminal, width=200, no_color=True, highlight=False),
            now=lambda: datetime.now(UTC),
            sleep=self.sleep,
            monotonic=lambda: self.slept,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.client.close()

    def sleep(self, seconds: float) -> None:
        """Nobody waits; time passes faster than it seems, so that the deadline comes after a few looks."""
        self.slept += seconds * 20


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(SECRET, demo.ANSWERS) as listening:
        yield listening


@pytest.mark.parametrize("terminal", [True, False])
def test_it_ends_well_after_two_failures(api: ApiServer, receiver: Receiver, terminal: bool) -> None:
    with Theatre(api, receiver, Executor(), terminal=terminal) as theatre:
        job = demo.play(theatre.stage)
    shown = theatre.output.getvalue()
    assert job["status"] == "COMPLETED"
    assert "3 attempts, 2 failures, COMPLETED" in shown
    assert "HTTP_503" in shown
    assert "2026-11-30T09:00:00+01:00" in shown
    assert [delivery.answered for delivery in receiver.deliveries if delivery.path == "/flaky"] == [503, 503, 200]
    assert [kept["name"] for kept in api.jobs.values()] == ["demo-flaky-receiver"], "the interval job is deleted"
    once, every = (request.body for request in api.requests if request.method == "POST")
    assert once["retryConfig"] == {
        "maxRetries": 3,
        "backoffStrategy": "fixed",
        "initialDelaySeconds": 1,
        "jitter": 0,
    }
    assert every["schedule"] == {"type": "interval", "everySeconds": 5}


def test_without_a_terminal_each_change_is_one_line(api: ApiServer, receiver: Receiver) -> None:
    with Theatre(api, receiver, Executor(), terminal=False) as theatre:
        demo.play(theatre.stage)
    lines = [line for line in theatre.output.getvalue().splitlines() if line.startswith("demo-flaky-receiver")]
    assert len(lines) == 3
    assert ["FAILED" in line for line in lines] == [True, True, False]
    assert "\x1b" not in theatre.output.getvalue()


def test_a_job_that_never_starts_is_told_at_the_deadline(api: ApiServer, receiver: Receiver) -> None:
    theatre = Theatre(api, receiver, None, terminal=False)
    with theatre, pytest.raises(demo.DemoError, match="within 90 s") as caught:
        demo.play(theatre.stage)
    assert "demo-flaky-receiver" in str(caught.value)
    assert "attempts: none" in str(caught.value)
    assert "calls: none" in str(caught.value)
    assert len(api.jobs) == 1, "the interval job is deleted then too"


def test_a_wrong_signature_is_told(api: ApiServer, receiver: Receiver) -> None:
    other = "whsec_" + base64.b64encode(b"another secret of 32 bytes......").decode()
    theatre = Theatre(api, receiver, Executor(other), terminal=False)
    with theatre, pytest.raises(demo.DemoError, match="webhook-signature does not match"):
        demo.play(theatre.stage)


def test_main_ends_with_1_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GNOMON_STACK", str(tmp_path / "absent.json"))
    assert demo.main(["--no-up"]) == 1
    assert "absent.json" in capsys.readouterr().err


def test_main_plays_on_the_running_stack(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = {"apiUrl": api.url, "tokens": {"scheduler": "token-1"}, "webhookSecret": SECRET}
    (tmp_path / "stack.json").write_text(json.dumps(stack))
    monkeypatch.setenv("GNOMON_STACK", str(tmp_path / "stack.json"))
    api.on_look = Executor().look
    assert demo.main(["--no-up"]) == 0
    shown = capsys.readouterr().out
    assert api.url in shown
    assert "make down" in shown
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer token-1"}


def test_another_port_is_part_of_the_commands(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(path=tmp_path / "stack.json", api_url=api.url, tokens={})
    shown: dict[str, str] = {}
    for port in ("4566", "4577"):
        monkeypatch.setenv("GNOMON_PORT", port)
        output = io.StringIO()
        demo.say_what_next(Console(file=output), stack, {"id": "7d1f"})
        shown[port] = output.getvalue()
    assert "GNOMON_PORT" not in shown["4566"]
    assert "GNOMON_PORT=4577 make down" in shown["4577"]
    assert shown["4577"].count("GNOMON_PORT=4577") == 3


def test_the_request_works_when_pasted(api: ApiServer, tmp_path: Path) -> None:
    """A shell runs the printed line, with a `curl` that shows what it was given."""
    path = tmp_path / "stack.json"
    path.write_text(json.dumps({"tokens": {"scheduler": "token-1"}}))
    output = io.StringIO()
    stack = Stack(path=path, api_url=api.url, tokens={"scheduler": "token-1"})
    demo.say_what_next(Console(file=output, width=80), stack, {"id": "7d1f"})
    line = next(line for line in output.getvalue().splitlines() if "curl" in line)
    command = line.strip().removeprefix("history").strip()
    fake = 'curl() { for given in "$@"; do echo "$given"; done; }; '
    shown = subprocess.run(["sh", "-c", fake + command], capture_output=True, text=True, check=True).stdout
    assert shlex.split(command)[0] == "curl"
    assert shown.splitlines() == ["-sS", "-H", "Authorization: Bearer token-1", f"{api.url}/v1/jobs/7d1f/history"]

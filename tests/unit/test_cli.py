from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from gnomon.cli import app
from gnomon.display import short_ids, what, when_words
from gnomon.moments import clock_time, moment
from tests.api_client import Api
from tests.unit.api_server import ApiServer, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("loopback")


class Shell:
    """Runs the program in this process, in a folder with a stack file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, input_: str | None = None) -> Any:
        return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"}).invoke(app, arguments, input=input_)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def shell(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for variable in ("GNOMON_API_URL", "GNOMON_TOKEN", "GNOMON_STACK", "GNOMON_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".local").mkdir()
    tokens = {"admin": "token-of-admin", "scheduler": "token-of-scheduler", "viewer": "token-of-viewer"}
    (tmp_path / ".local" / "stack.json").write_text(json.dumps({"apiUrl": api.url, "tokens": tokens}))
    return Shell(tmp_path)


def test_create_sends_what_the_flags_say_and_nothing_else(api: ApiServer, shell: Shell) -> None:
    result = shell(
        *("jobs", "create", "--name", "report", "--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin"),
        *("--http", "https://example.com/hook", "--method", "put", "--payload", '{"n": 1.0}'),
        *("--max-retries", "0", "--backoff", "fixed", "--initial-delay", "2m", "--jitter", "0.5", "--timeout", "30"),
        *("--priority", "high", "--overlap", "queue", "--misfire", "skip", "--max-runs", "5", "--alert-after", "25h"),
        *("--tag", "a", "--tag", "b", "--idempotency-key", "key-1", "--output", "json"),
    )
    assert result.exit_code == 0, result.output
    (request,) = api.requests
    assert request.body == {
        "name": "report",
        "schedule": {"type": "cron", "expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"},
        "target": {"type": "http", "url": "https://example.com/hook", "method": "PUT"},
        "payload": {"n": 1.0},
        "retryConfig": {"maxRetries": 0, "backoffStrategy": "fixed", "initialDelaySeconds": 120, "jitter": 0.5},
        "timeoutSeconds": 30,
        "priority": "high",
        "overlapPolicy": "queue",
        "misfirePolicy": "skip",
        "maxRuns": 5,
        "alertAfterSeconds": 90_000,
        "tags": ["a", "b"],
    }
    assert request.headers["idempotency-key"] == "key-1"
    assert json.loads(result.stdout) == next(iter(api.jobs.values()))


@pytest.mark.parametrize(
    ("flags", "schedule", "target"),
    [
        (
            ["--every", "15m", "--handler", "report"],
            {"type": "interval", "everySeconds": 900},
            {"type": "handler", "name": "report"},
        ),
        (
            ["--at", "2027-01-31T16:00", "--timezone", "Europe/Berlin", "--lambda", "gnomon-dev-team-a--x"],
            {"type": "once", "at": "2027-01-31T16:00", "timezone": "Europe/Berlin"},
            {"type": "lambda", "functionName": "gnomon-dev-team-a--x"},
        ),
        (
            ["--cron", "@daily", "--sqs", "https://sqs/1/gnomon-dev-team-a--q"],
            {"type": "cron", "expression": "@daily"},
            {"type": "sqs", "queueUrl": "https://sqs/1/gnomon-dev-team-a--q"},
        ),
        (
            ["--every", "1d", "--worker", "reports"],
            {"type": "interval", "everySeconds": 86_400},
            {"type": "worker", "queue": "reports"},
        ),
    ],
)
def test_each_kind_of_schedule_and_target(
    api: ApiServer, shell: Shell, flags: list[str], schedule: dict[str, object], target: dict[str, object]
) -> None:
    assert shell("jobs", "create", "--name", "x", *flags).exit_code == 0
    assert api.requests[0].body == {"name": "x", "schedule": schedule, "target": target}


def test_flags_of_how_an_attempt_runs(api: ApiServer, shell: Shell) -> None:
    flags = ["--circuit-breaker", "--concurrency-key", "db", "--max-concurrency", "2", "--timeout", "2m"]
    assert shell("jobs", "create", "--name", "x", "--every", "60", "--http", "https://a.b", *flags).exit_code == 0
    for flag in ("--callback", "--orchestrated", "--no-circuit-breaker"):
        assert shell("jobs", "create", "--name", "x", "--every", "60", "--handler", "h", flag).exit_code == 0
    limits = {"circuitBreaker": {"enabled": True}, "concurrencyKey": "db", "maxConcurrency": 2}
    first, callback, orchestrated, never = (request.body for request in api.requests)
    assert first.items() >= {**limits, "timeoutSeconds": 120}.items()
    assert (callback["completion"], orchestrated["orchestrated"]) == ("callback", True)
    assert never["circuitBreaker"] == {"enabled": False}
    assert not {"orchestrated", "circuitBreaker"} & callback.keys()


def test_flags_of_what_a_job_depends_on(api: ApiServer, shell: Shell) -> None:
    flags = ["--depends-on", "a", "--depends-on", "b:failure", "--join", "any", "--on-upstream-failure", "run"]
    given = ("jobs", "create", "--name", "x", "--handler", "h", *flags)
    assert shell(*given, "--upstream-timeout", "1h").exit_code == 0
    assert shell(*given, "--at", "2027-01-31T16:00:00Z").exit_code == 0
    alone, later = (request.body for request in api.requests)
    assert alone == {
        "name": "x",
        "target": {"type": "handler", "name": "h"},
        "dependsOn": [{"jobId": "a"}, {"jobId": "b", "on": "failure"}],
        "join": "any",
        "onUpstreamFailure": "run",
        "upstreamTimeoutSeconds": 3_600,
    }
    assert later["schedule"] == {"type": "once", "at": "2027-01-31T16:00:00Z"}


def test_a_job_says_after_which_others_it_runs() -> None:
    one, two = {"jobId": "a"}, {"jobId": "b"}
    assert when_words({"dependsOn": [one]}) == "after a"
    assert when_words({"dependsOn": [one, two]}) == "after all of 2"
    once = {"type": "once", "at": "2027-01-31T16:00:00Z"}
    words = when_words({"dependsOn": [one, two], "join": "any", "schedule": once})
    assert words == "after any of 2, not before 2027-01-31T16:00:00Z"
    assert when_words({"schedule": {"type": "interval", "everySeconds": 5}}) == "every 5 s"


def test_an_attempt_that_was_put_off_says_why() -> None:
    now = datetime(2027, 1, 15, 8, tzinfo=UTC)
    words = what({"status": "QUEUED", "reason": "CIRCUIT_OPEN", "deferrals": 2, "deferredFor": "CIRCUIT_OPEN"}, now)
    assert words == "put off 2 times: CIRCUIT_OPEN"
    words = what({"status": "COMPLETED", "reason": None, "deferrals": 1, "deferredFor": "BRAKE"}, now)
    assert words == "put off once: BRAKE"


def test_a_payload_of_null_is_a_payload(api: ApiServer, shell: Shell) -> None:
    assert shell("jobs", "create", "--name", "x", "--in", "5", "--handler", "h", "--payload", "null").exit_code == 0
    assert api.requests[0].body["payload"] is None


def test_a_body_comes_from_a_file_or_from_input(api: ApiServer, shell: Shell) -> None:
    body = {
        "name": "f",
        "schedule": {"type": "cron", "expression": "@daily"},
        "target": {"type": "handler", "name": "h"},
    }
    (shell.folder / "job.json").write_text(json.dumps(body))
    (shell.folder / "payload.json").write_text('{"a": [1]}')
    assert shell("jobs", "create", "--file", "job.json").exit_code == 0
    assert shell("jobs", "create", "--file", "-", input_=json.dumps(body)).exit_code == 0
    flags = ("jobs", "create", "--name", "x", "--every", "60", "--handler", "h")
    assert shell(*flags, "--payload", "@payload.json").exit_code == 0
    assert [request.body for request in api.requests[:2]] == [body, body]
    assert api.requests[2].body["payload"] == {"a": [1]}


def test_a_condition_on_the_one_job_it_depends_on(api: ApiServer, shell: Shell) -> None:
    given = ("jobs", "create", "--name", "x", "--handler", "h", "--depends-on", "a:completion", "--when", "rows > `0`")
    assert shell(*given).exit_code == 0
    assert api.requests[-1].body["dependsOn"] == [{"jobId": "a", "on": "completion", "when": "rows > `0`"}]


def test_flags_of_a_gate(api: ApiServer, shell: Shell) -> None:
    given = ("jobs", "create", *_VALID, "--approval-role", "finance")
    flags = ["--approver", "ann", "--approver", "bob@example.com", "--approval-timeout", "4h"]
    assert shell(*given).exit_code == 0
    assert shell(*given, *flags, "--approval-on-timeout", "approve", "--no-four-eyes").exit_code == 0
    assert shell(*given, "--four-eyes").exit_code == 0
    assert [request.body["approval"] for request in api.requests] == [
        {"role": "finance"},
        {
            "role": "finance",
            "approvers": ["ann", "bob@example.com"],
            "timeoutSeconds": 14_400,
            "onTimeout": "approve",
            "fourEyes": False,
        },
        {"role": "finance", "fourEyes": True},
    ]
    assert shell("jobs", "create", *_VALID, "--approval-on-timeout", "never", "--approval-role", "x").exit_code == 2


_VALID = ("--name", "x", "--every", "60", "--handler", "h")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--every", "60", "--handler", "h"], "--name"),
        (["--name", "x", "--handler", "h"], "--cron, --every, --at, --in"),
        (["--name", "x", "--handler", "h", "--depends-on", "a:always"], "'always' is no way to end"),
        (["--name", "x", "--handler", "h", "--depends-on", "a", "--depends-on", "b", "--when", "c"], "--file job.json"),
        ([*_VALID, "--when", "rows"], "--when is a condition on the result of one --depends-on"),
        ([*_VALID, "--approver", "ann"], "A gate needs --approval-role"),
        ([*_VALID, "--no-four-eyes"], "A gate needs --approval-role"),
        ([*_VALID, "--approval-role", "x", "--approval-timeout", "soon"], "--approval-timeout 'soon' is no duration"),
        (["--name", "x", "--every", "60"], "--http, --handler, --lambda, --sqs"),
        ([*_VALID, "--cron", "@daily"], "--cron and --every exclude each other"),
        ([*_VALID, "--sqs", "u"], "--handler and --sqs exclude each other"),
        (["--name", "x", "--every", "soon", "--handler", "h"], "--every 'soon' is no duration"),
        ([*_VALID, "--timezone", "Europe/Berlin"], "--timezone says nothing about --every"),
        ([*_VALID, "--method", "PUT"], "--method goes with --http"),
        ([*_VALID, "--payload", "{"], "--payload is not JSON"),
        ([*_VALID, "--payload", "NaN"], "--payload is not JSON"),
        ([*_VALID, "--payload", "1e400"], "--payload is not JSON"),
        ([*_VALID, "--payload", "@absent.json"], "absent.json: No such file"),
        ([*_VALID, "--file", "absent.json"], "--file is the whole job"),
        (["--file", "absent.json"], "absent.json: No such file"),
    ],
)
def test_unusable_input_is_told_before_anything_is_sent(
    api: ApiServer, shell: Shell, flags: list[str], complaint: str
) -> None:
    result = shell("jobs", "create", *flags)
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert api.requests == []


def test_a_refusal_names_field_message_request_and_way_out(api: ApiServer, shell: Shell) -> None:
    api.refusals = [
        refusal(400, "VALIDATION_ERROR", "The request is not valid.", ("schedule.expression", "minute 61 is over 59")),
        refusal(404, "NOT_FOUND", "There is nothing here.", ("jobId", "There is nothing here.")),
        (401, {"message": "Unauthorized"}),
    ]
    first, second, third = (
        shell("preview", "61 * * * *"),
        shell("jobs", "get", "x"),
        shell("jobs", "list", "--output", "json"),
    )
    assert [result.exit_code for result in (first, second, third)] == [1, 1, 1]
    assert [result.stdout for result in (first, second, third)] == ["", "", ""]
    assert "VALIDATION_ERROR, HTTP 400" in first.stderr
    assert "  schedule.expression: minute 61 is over 59" in first.stderr
    assert "request id: req-1" in first.stderr
    assert "gnomon jobs list" in second.stderr
    assert second.stderr.count("There is nothing here.") == 1
    assert "make up" in third.stderr


def test_unknown_flags_end_with_2(shell: Shell) -> None:
    result = shell("jobs", "list", "--colour")
    assert result.exit_code == 2
    assert "--colour" in result.stderr


@pytest.mark.slow
def test_a_stack_that_is_down_is_told_without_traceback(shell: Shell) -> None:
    stack = {"apiUrl": "http://127.0.0.1:9/x", "tokens": {"scheduler": "s"}}
    (shell.folder / "down.json").write_text(json.dumps(stack))
    result = shell("jobs", "list", "--stack", "down.json")
    assert result.exit_code == 1
    assert "No answer from http://127.0.0.1:9" in result.stderr
    assert "make up" in result.stderr
    assert "Traceback" not in result.output


def test_the_role_picks_the_token(api: ApiServer, shell: Shell) -> None:
    shell("jobs", "list")
    shell("jobs", "list", "--role", "admin")
    shell("jobs", "list", "--token", "mine")
    sent = [request.headers["authorization"] for request in api.requests]
    assert sent == ["Bearer token-of-scheduler", "Bearer token-of-admin", "Bearer mine"]


def test_list_shows_a_line_a_job_and_pages_up_to_the_limit(api: ApiServer, shell: Shell) -> None:
    ids = [api.add_job(name=f"job-{number}")["id"] for number in range(130)]
    table = shell("jobs", "list", "--limit", "120", "--status", "scheduled", "--tag", "t", "--owner", "*")
    assert [line.split()[0] for line in table.stdout.splitlines()[1:121]] == ids[:120]
    assert "every 60 s" in table.stdout
    assert "--limit" in table.stdout.splitlines()[-1]
    assert len(api.requests) == 2
    assert api.requests[0].query.items() >= {("status", "SCHEDULED"), ("tag", "t"), ("owner", "*")}
    as_json = json.loads(shell("jobs", "list", "--limit", "3", "--output", "json").stdout)
    assert [job["id"] for job in as_json["data"]] == ids[:3]


def test_silent_jobs_are_shown_and_asked_for(api: ApiServer, shell: Shell) -> None:
    silent = api.add_job(name="quiet", silentSince="2026-11-28T19:00:00Z")
    api.add_job(name="loud")
    lines = {line.split()[0]: line for line in shell("jobs", "list", "--silent").stdout.splitlines()}
    assert api.requests[0].query["silent"] == "true"
    assert [job_id for job_id, line in lines.items() if "SILENT" in line] == [silent["id"]]
    assert "silent since" in shell("jobs", "get", silent["id"]).stdout


@pytest.mark.parametrize(
    ("command", "method", "path"),
    [
        (["pause"], "POST", "/pause"),
        (["resume"], "POST", "/resume"),
        (["run"], "POST", "/execute"),
        (["retry"], "POST", "/retry"),
        (["cancel"], "POST", "/cancel"),
        (["get"], "GET", ""),
        (["history"], "GET", "/history"),
        (["delete"], "DELETE", ""),
    ],
)
def test_each_command_calls_its_route(api: ApiServer, shell: Shell, command: list[str], method: str, path: str) -> None:
    job = api.add_job()
    result = shell("jobs", *command, job["id"])
    assert result.exit_code == 0, result.output
    assert [(request.method, request.path) for request in api.requests] == [(method, f"/v1/jobs/{job['id']}{path}")]
    assert api.requests[0].body is None


def test_retry_takes_a_delay(api: ApiServer, shell: Shell) -> None:
    assert shell("jobs", "retry", api.add_job()["id"], "--delay", "2m").exit_code == 0
    assert api.requests[0].body == {"delaySeconds": 120}


def test_history_shows_lateness_errors_retries_and_skipped_slots(api: ApiServer, shell: Shell) -> None:
    job = api.add_job()
    api.histories[job["id"]] = [
        attempt(job, 2, "COMPLETED", startedAt="2026-11-29T19:00:12.250Z", completedAt="2026-11-29T19:00:12.300Z"),
        attempt(
            job,
            1,
            "FAILED",
            error={"code": "HTTP_503", "message": "answered 503"},
            startedAt="2026-11-29T19:00:00.040Z",
            completedAt="2026-11-29T19:00:01Z",
            nextRetryAt="2026-11-29T19:00:12Z",
        ),
        {
            "jobId": job["id"],
            "status": "SKIPPED",
            "reason": "PAUSED",
            "from": "2026-11-29T18:00:00Z",
            "to": "2026-11-29T18:59:00Z",
            "count": 60,
        },
    ]
    lines = shell("jobs", "history", job["id"]).stdout.splitlines()
    assert "250 ms" in lines[1]
    assert "50 ms" in lines[1].split("250 ms")[1]
    assert "HTTP_503: answered 503; retry at" in lines[2]
    assert re.search(r"\s40 ms\s+960 ms\s", lines[2])
    assert "PAUSED; 60 slots to" in lines[3]


def test_a_name_cannot_steer_the_terminal_or_the_markup(api: ApiServer, shell: Shell) -> None:
    job = api.add_job(name="\x1b[2J[red]evil[/red]\x9b")
    for command in (["list"], ["get", job["id"]]):
        output = shell("jobs", *command).stdout
        assert "\x1b" not in output
        assert "\x9b" not in output
        assert "[red]evil[/red]" in output


def test_watch_tells_each_change_once_until_the_job_is_at_rest(api: ApiServer, shell: Shell) -> None:
    job = api.add_job(status="RUNNING")
    steps = iter(
        [
            [attempt(job, 1, "RUNNING", final=False)],
            [attempt(job, 1, "RUNNING", final=False)],
            [attempt(job, 1, "FAILED", final=False)],
            [attempt(job, 2, "COMPLETED"), attempt(job, 1, "FAILED", final=False)],
        ]
    )

    def go_on(server: ApiServer, looked_at: dict[str, Any]) -> None:
        server.histories[job["id"]] = next(steps)
        if server.histories[job["id"]][0]["status"] == "COMPLETED":
            looked_at["status"] = "COMPLETED"

    api.on_look = go_on
    result = shell("jobs", "watch", job["id"], "--interval", "0.2", "--output", "json")
    assert result.exit_code == 0
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["attempt"], line["status"]) for line in told] == [(1, "RUNNING"), (1, "FAILED"), (2, "COMPLETED")]


def test_watch_tells_how_far_an_attempt_is(api: ApiServer, shell: Shell) -> None:
    job = api.add_job(status="RUNNING")
    steps = iter([None, (25, "a quarter"), (25, "a quarter"), (50.5, "half"), (50.5, "half")])

    def go_on(server: ApiServer, looked_at: dict[str, Any]) -> None:
        step = next(steps, "over")
        progress = dict(zip(("percent", "message"), step, strict=True)) if isinstance(step, tuple) else None
        status = "COMPLETED" if step == "over" else "RUNNING"
        server.histories[job["id"]] = [attempt(job, 1, status, final=step == "over", progress=progress)]
        looked_at["status"] = status

    api.on_look = go_on
    lines = shell("jobs", "watch", job["id"], "--interval", "0.2").stdout.splitlines()
    told = [line for line in lines if "attempt 1" in line]
    assert ["25 % a quarter" in line for line in told] == [False, True, False, False]
    assert ["50.5 % half" in line for line in told] == [False, False, True, False]


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("FAILED", "RETRIES_EXHAUSTED", "HTTP_503: answered 503; RETRIES_EXHAUSTED"),
        ("FAILED", "NOT_RETRYABLE", "HTTP_503: answered 503; NOT_RETRYABLE"),
        ("FAILED", "CIRCUIT_OPEN", "HTTP_503: answered 503; CIRCUIT_OPEN"),
        ("TIMED_OUT", "RETRY_WINDOW_OVER", "HTTP_503: answered 503; RETRY_WINDOW_OVER"),
        ("CANCELLED", "JOB_CANCELLED", "HTTP_503: answered 503; JOB_CANCELLED"),
    ],
)
def test_history_says_why_nothing_follows(api: ApiServer, shell: Shell, status: str, reason: str, words: str) -> None:
    job = api.add_job()
    error = {"code": "HTTP_503", "message": "answered 503"}
    api.histories[job["id"]] = [attempt(job, 1, status, reason=reason, error=error)]
    assert words in shell("jobs", "history", job["id"]).stdout


@pytest.mark.parametrize(
    ("status", "active", "flags", "code"),
    [
        ("COMPLETED", "COMPLETED", ["--exit-status"], 0),
        ("FAILED", "FAILED", ["--exit-status"], 1),
        ("FAILED", "FAILED", [], 1),
        ("CANCELLED", "CANCELLED", [], 1),
        ("SKIPPED", "CANCELLED", [], 1),
        ("PAUSED", "COMPLETED", ["--exit-status"], 1),
        ("PAUSED", "COMPLETED", [], 0),
        ("PAUSED", "QUEUED", [], 0),
    ],
)
def test_watch_ends_at_rest(
    api: ApiServer, shell: Shell, status: str, active: str, flags: list[str], code: int
) -> None:
    job = api.add_job(status=status)
    api.histories[job["id"]] = [attempt(job, 1, active)]
    result = shell("jobs", "watch", job["id"], *flags)
    assert result.exit_code == code
    assert f"attempt 1  {active}" in result.stdout
    assert f"nightly: {status}" in result.stdout


@pytest.mark.parametrize(
    ("first", "run"),
    [("RUNNING", "1795978800"), ("QUEUED", "1795978800mabcdef23")],
    ids=["running", "asked for by hand"],
)
def test_watch_goes_on_while_a_paused_job_has_something_to_do(
    api: ApiServer, shell: Shell, first: str, run: str
) -> None:
    job = api.add_job(status="PAUSED")
    looks = iter([first, "RUNNING", "COMPLETED"])
    api.on_look = lambda server, _: server.histories.update(
        {job["id"]: [attempt(job, 1, next(looks), runId=f"{job['id']}-{run}")]}
    )
    assert shell("jobs", "watch", job["id"], "--interval", "0.2").exit_code == 0
    assert next(looks, None) is None


def test_watch_tells_how_far_a_run_is(api: ApiServer, shell: Shell) -> None:
    job = api.add_job(status="RUNNING")
    half = {"percent": 50.5, "message": "half of it"}
    looks = iter([None, half, half, {"percent": 100, "message": ""}])

    def go_on(server: ApiServer, looked_at: dict[str, Any]) -> None:
        progress = next(looks, None)
        server.histories[job["id"]] = [attempt(job, 1, "RUNNING", final=False, progress=progress)]
        if progress and progress["percent"] == 100:
            looked_at["status"] = "COMPLETED"

    api.on_look = go_on
    result = shell("jobs", "watch", job["id"], "--interval", "0.2")
    lines = [line for line in result.stdout.splitlines() if "attempt 1" in line]
    assert len(lines) == 3
    assert lines[1].endswith("50.5 % half of it")
    assert lines[2].endswith("100 %")


def test_preview_shows_both_times(shell: Shell) -> None:
    output = shell("preview", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin").stdout
    assert "2026-11-30T09:00:00+01:00" in output
    assert "2026-11-30T08:00:00Z" in output


@pytest.mark.parametrize("command", [["jobs", "create"], ["jobs", "list"], ["jobs", "watch"], ["preview"], ["worker"]])
def test_help_has_examples(shell: Shell, command: list[str]) -> None:
    result = shell(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert "gnomon " in result.stdout


@pytest.mark.slow
def test_the_program_itself_in_a_pipe(api: ApiServer, shell: Shell) -> None:
    """As a process without a terminal, with an output that cannot show every letter."""
    job = api.add_job(name="größe")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONIOENCODING": "ascii",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gnomon", "jobs", "list"],
        cwd=shell.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    line = io.StringIO(done.stdout).readlines()[1]
    assert line.startswith(job["id"])
    assert "gr\\xf6\\xdfe" in line
    assert "\x1b" not in done.stdout


def attempt(job: dict[str, Any], number: int, status: str, **fields: Any) -> dict[str, Any]:
    run = f"{job['id']}-1795978800"
    return {
        "id": f"{run}-{number:04d}",
        "jobId": job["id"],
        "runId": run,
        "scheduledFor": "2026-11-29T19:00:00Z",
        "attempt": number,
        "status": status,
        "final": True,
        **fields,
    }


class TestTypes:
    """`gnomon types`: what holds for all jobs of a type."""

    def test_set_sends_what_the_flags_say_and_nothing_else(self, api: ApiServer, shell: Shell) -> None:
        result = shell(
            *("types", "set", "billing/eu", "--role", "admin", "--max-retries", "0", "--backoff", "linear"),
            *("--initial-delay", "30", "--max-delay", "1h", "--jitter", "0", "--retry-window", "1d", "--no-poison"),
            *("--max-concurrency", "20", "--output", "json"),
        )
        assert result.exit_code == 0, result.output
        (request,) = api.requests
        assert (request.method, request.path) == ("PUT", "/v1/retry-configs/billing%2Feu")
        assert request.headers["authorization"] == "Bearer token-of-admin"
        assert request.body == {
            "maxRetries": 0,
            "backoffStrategy": "linear",
            "initialDelaySeconds": 30,
            "maxDelaySeconds": 3600,
            "jitter": 0.0,
            "retryWindowSeconds": 86_400,
            "poisonDetection": False,
            "maxConcurrency": 20,
        }
        assert json.loads(result.stdout) == api.types["billing%2Feu"]

    def test_a_file_is_the_whole_configuration(self, api: ApiServer, shell: Shell) -> None:
        body = {"circuitBreaker": {"openSeconds": 60}}
        assert shell("types", "set", "billing", "--file", "-", input_=json.dumps(body)).exit_code == 0
        assert api.requests[0].body == body

    @pytest.mark.parametrize("flags", [(), ("--file", "-", "--max-retries", "1")], ids=["nothing", "both"])
    def test_unusable_input_sends_nothing(self, api: ApiServer, shell: Shell, flags: tuple[str, ...]) -> None:
        result = shell("types", "set", "billing", *flags, input_="{}")
        assert result.exit_code == 1
        assert "error:" in result.stderr
        assert not api.requests

    def test_list_get_and_delete(self, api: ApiServer, shell: Shell) -> None:
        assert "No type is configured" in shell("types", "list").stdout
        shell("types", "set", "billing", "--max-retries", "8", "--poison")
        listed = shell("types", "list").stdout
        assert "maxRetries 8, poisonDetection true" in listed
        shown = shell("types", "get", "billing").stdout
        assert re.search(r"^maxRetries +8 *$", shown, re.MULTILINE)
        assert re.search(r"^by +root *$", shown, re.MULTILINE)
        assert "Deleted what was configured for billing." in shell("types", "delete", "billing").stdout
        gone = shell("types", "get", "billing")
        assert gone.exit_code == 1
        assert "NOT_FOUND" in gone.stderr


class TestCircuits:
    """`gnomon circuits`: targets that are left alone."""

    KEY = "http:api.example.com:443@team-billing"

    def test_list_and_reset(self, api: ApiServer, shell: Shell) -> None:
        assert "No circuit has counted anything yet." in shell("circuits", "list").stdout
        api.circuits[self.KEY] = {
            "key": self.KEY,
            "owner": "team-billing",
            "jobType": None,
            "target": "http:api.example.com:443",
            "state": "OPEN",
            "failures": 5,
            "since": "2026-11-29T19:00:00Z",
            "openUntil": "2026-11-29T19:00:30Z",
            "probe": None,
        }
        listed = shell("circuits", "list").stdout
        assert re.search(rf"^{self.KEY} +OPEN +5 ", listed, re.MULTILINE)
        assert shell("circuits", "list", "--owner", "*").exit_code == 0
        assert api.requests[-1].query["owner"] == "*"
        result = shell("circuits", "reset", self.KEY, "--role", "admin", "--output", "json")
        assert json.loads(result.stdout)["state"] == "CLOSED"
        *_, request = api.requests
        assert (request.method, request.path) == (
            "POST",
            f"/v1/circuits/{quote(self.KEY, safe='')}/reset",
        )
        assert request.headers["authorization"] == "Bearer token-of-admin"

    def test_a_key_that_is_not_there(self, api: ApiServer, shell: Shell) -> None:
        gone = shell("circuits", "reset", "handler:none")
        assert gone.exit_code == 1
        assert "NOT_FOUND" in gone.stderr


class TestOwnersAndCallers:
    def test_transfer_says_to_whom(self, api: ApiServer, shell: Shell) -> None:
        job = api.add_job(owner="team-a")
        result = shell("jobs", "transfer", job["id"], "--to", "team-b")
        assert result.exit_code == 0, result.output
        assert (api.requests[-1].path, api.requests[-1].body) == (f"/v1/jobs/{job['id']}/transfer", {"owner": "team-b"})
        assert "Transferred to team-b" in result.output

    def test_create_for_a_team(self, api: ApiServer, shell: Shell) -> None:
        shell("jobs", "create", "--name", "a", "--every", "60", "--handler", "h", "--owner", "team-b")
        assert api.requests[-1].body["owner"] == "team-b"

    def test_revoke_and_restore(self, api: ApiServer, shell: Shell) -> None:
        revoked = shell("callers", "revoke", "mallory")
        assert revoked.stdout == "mallory is refused since 2026-11-29T19:00:00Z.\n"
        assert (api.requests[-1].method, api.requests[-1].path) == ("PUT", "/v1/admin/revocations/mallory")
        assert shell("callers", "restore", "mallory").stdout == "mallory may call again.\n"
        assert api.requests[-1].method == "DELETE"


class TestWebhooks:
    """`gnomon webhooks`: the key by which receivers verify calls."""

    def test_secret_prints_nothing_else(self, api: ApiServer, shell: Shell) -> None:
        assert shell("webhooks", "secret").stdout == f"{api.webhook_key['secret']}\n"
        assert (api.requests[-1].method, api.requests[-1].path) == ("GET", "/v1/webhook-keys/me")
        assert shell("webhooks", "secret", "--owner", "team-a").exit_code == 0
        assert api.requests[-1].path == "/v1/webhook-keys/team-a"
        assert json.loads(shell("webhooks", "secret", "--output", "json").stdout) == api.webhook_key

    @pytest.mark.parametrize(
        ("flags", "seconds"), [([], 86_400), (["--keep-previous", "2h"], 7_200), (["--keep-previous", "0"], 0)]
    )
    def test_rotate(self, api: ApiServer, shell: Shell, flags: list[str], seconds: int) -> None:
        shown = shell("webhooks", "rotate", *flags).stdout
        *_, request = api.requests
        assert (request.method, request.path) == ("POST", "/v1/webhook-keys/me/rotate")
        assert request.body == {"keepPreviousSeconds": seconds}
        assert api.webhook_key["secret"] in shown
        assert re.search(r"^signs every call from +", shown, re.MULTILINE)
        assert re.search(r"^the key before until +", shown, re.MULTILINE)


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_decisions_name_run_and_comment_and_carry_a_key(api: ApiServer, shell: Shell, verb: str) -> None:
    job = api.add_job(status="BLOCKED")
    result = shell("jobs", verb, job["id"], "--run", f"{job['id']}-1801407582", "--comment", "so be it")
    assert result.exit_code == 0, result.output
    assert api.requests[-1].path == f"/v1/jobs/{job['id']}/{verb}"
    assert api.requests[-1].body == {"runId": f"{job['id']}-1801407582", "comment": "so be it"}
    assert api.requests[-1].headers["idempotency-key"]
    shell("jobs", verb, job["id"])
    assert api.requests[-1].body == {}


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_decisions_are_about_the_job_that_was_looked_at(api: ApiServer, shell: Shell, verb: str) -> None:
    job = api.add_job(status="BLOCKED", revision=7)
    shell("jobs", verb, job["id"])
    *_, read, decision = api.requests
    assert (read.method, read.path) == ("GET", f"/v1/jobs/{job['id']}")
    assert decision.headers["if-match"] == '"7.0"'
    shell("jobs", verb, job["id"], "--revision", "5")
    *_, before, decision = api.requests
    assert before.method == "POST", "nothing is read for a revision that is given"
    assert decision.headers["if-match"] == '"5.0"'


def gate(job: dict[str, Any], decide_by: str = "2026-11-29T21:00:00Z") -> dict[str, Any]:
    return {
        "runId": f"{job['id']}-1801407582",
        "scheduledFor": "2026-11-29T20:00:00Z",
        "waitingSince": "2026-11-29T20:00:00Z",
        "decideBy": decide_by,
        "role": "approver",
    }


def test_a_gate_is_shown(api: ApiServer, shell: Shell) -> None:
    job = api.add_job(status="BLOCKED")
    job["gates"] = [gate(job)]
    api.histories[job["id"]] = [attempt(job, 1, "QUEUED", reason="APPROVAL_NEEDED", deferredFor="APPROVAL_NEEDED")]
    shown = shell("jobs", "get", job["id"]).stdout
    assert f"{job['id']}-1801407582 for approval by approver until 2026-11-29" in shown
    assert "APPROVAL_NEEDED" in shell("jobs", "history", job["id"]).stdout


def test_watch_tells_of_each_gate_once_and_of_the_decision(api: ApiServer, shell: Shell) -> None:
    job = api.add_job(status="BLOCKED")
    steps = iter(["waits", "waits", "decided", "over"])
    decision = {"decision": "approved", "by": "boss", "at": "2026-11-29T20:01:00Z", "comment": "fine"}

    def go_on(server: ApiServer, looked_at: dict[str, Any]) -> None:
        step = next(steps)
        approval = None if step == "waits" else decision
        looked_at["gates"] = [gate(job)] if step == "waits" else []
        looked_at["status"] = "COMPLETED" if step == "over" else "BLOCKED"
        server.histories[job["id"]] = [
            attempt(job, 1, "COMPLETED" if step == "over" else "QUEUED", final=step == "over", approval=approval)
        ]

    api.on_look = go_on
    lines = shell("jobs", "watch", job["id"], "--interval", "0.2").stdout.splitlines()
    assert len([line for line in lines if line.startswith("waits: ")]) == 1
    assert ["approved by boss: fine" in line for line in lines if "attempt 1" in line] == [False, True, True]


class TestNames:
    """Jobs by the beginning of their id or by their name, and several at once."""

    def test_a_name_or_a_beginning_costs_one_read_of_the_list(self, api: ApiServer, shell: Shell) -> None:
        job = api.add_job(name="nightly report")
        api.add_job(name="other")
        for given in ("nightly report", job["id"][:8], job["id"][:13].upper()):
            api.requests.clear()
            assert shell("jobs", "pause", given).exit_code == 0
            assert [(one.method, one.path) for one in api.requests] == [
                ("GET", "/v1/jobs"),
                ("POST", f"/v1/jobs/{job['id']}/pause"),
            ]
            assert api.requests[0].query["limit"] == "100"

    def test_an_id_costs_nothing_also_in_capitals(self, api: ApiServer, shell: Shell) -> None:
        job = api.add_job()
        assert shell("jobs", "get", job["id"].upper()).exit_code == 0
        assert [one.path for one in api.requests] == [f"/v1/jobs/{job['id']}"]

    @pytest.mark.parametrize("command", ["get", "history", "pause", "resume", "run", "execute", "retry", "cancel"])
    def test_every_command_of_jobs_takes_them(self, api: ApiServer, shell: Shell, command: str) -> None:
        job = api.add_job(name="mine")
        assert shell("jobs", command, "mine").exit_code == 0
        assert api.requests[-1].path.startswith(f"/v1/jobs/{job['id']}")

    def test_two_of_a_name_are_named_and_nothing_is_done(self, api: ApiServer, shell: Shell) -> None:
        first, second = api.add_job(name="twin", status="PAUSED"), api.add_job(name="twin")
        result = shell("jobs", "delete", "twin")
        assert result.exit_code == 1
        assert "twin may be 2 jobs" in result.stderr
        assert f"{first['id']}: twin PAUSED" in result.stderr
        assert f"{second['id']}: twin SCHEDULED" in result.stderr
        assert {one.method for one in api.requests} == {"GET"}
        told = json.loads(shell("jobs", "delete", "twin", "-o", "json").stderr)["error"]
        assert told["code"] == "AMBIGUOUS_NAME"
        assert {detail["field"] for detail in told["details"]} == {first["id"], second["id"]}

    def test_a_name_that_is_the_beginning_of_another_id_is_ambiguous(self, api: ApiServer, shell: Shell) -> None:
        other = api.add_job(name="other")
        api.add_job(name=other["id"][:8])
        assert "may be 2 jobs" in shell("jobs", "cancel", other["id"][:8]).stderr

    def test_three_characters_are_too_few(self, api: ApiServer, shell: Shell) -> None:
        job = api.add_job()
        assert shell("jobs", "get", job["id"][:3]).exit_code == 1
        assert shell("jobs", "get", job["id"][:4]).exit_code == 0

    def test_no_more_than_a_thousand_are_read(self, api: ApiServer, shell: Shell) -> None:
        """A name that was found may then not be the only one: nothing is done on a guess."""
        newest = api.add_job(name="found")
        for number in range(1000):
            api.add_job(name=f"job-{number}")
        oldest = api.add_job(name="too old")
        result = shell("jobs", "delete", "found")
        assert result.exit_code == 1
        assert f"The newest is {newest['id']}: give the id." in result.stderr
        assert len(api.requests) == 10
        assert {one.method for one in api.requests} == {"GET"}
        assert "newest 1,000 jobs" in shell("jobs", "get", "too old").stderr
        assert shell("jobs", "delete", oldest["id"]).exit_code == 0

    @pytest.mark.parametrize("command", ["get", "pause", "resume", "run", "retry", "cancel", "delete"])
    def test_each_of_several_has_a_result(self, api: ApiServer, shell: Shell, command: str) -> None:
        first, second = api.add_job(name="one"), api.add_job(name="two")
        given = ("jobs", command, first["id"], "nobody", "two", first["id"])
        result = shell(*given, "-o", "json")
        assert result.exit_code == 1
        found = json.loads(result.stdout)["data"]
        assert [one["id"] for one in found] == [first["id"], "nobody", second["id"]]
        assert [one.get("error", {}).get("code") for one in found] == [None, "NOT_FOUND", None]
        assert json.loads(result.stderr)["error"]["code"] == "NOT_FOUND"
        assert len([one for one in api.requests if one.path == "/v1/jobs"]) == 1

    def test_several_are_told_line_by_line(self, api: ApiServer, shell: Shell) -> None:
        first, second = api.add_job(name="one", nextRunAt=None), api.add_job(name="two", nextRunAt=None)
        result = shell("jobs", "pause", "one", "nobody", "two")
        assert result.stdout.splitlines() == [
            f"{first['id']}  one: Paused.",
            "nobody: failed.",
            f"{second['id']}  two: Paused.",
        ]
        assert "None of your jobs is named nobody" in result.stderr
        assert shell("jobs", "pause", "one", "two").exit_code == 0
        assert shell("jobs", "delete", "one", "two").stdout.splitlines() == [
            f"Deleted {first['id']}.",
            f"Deleted {second['id']}.",
        ]

    def test_what_concerns_all_is_not_tried_for_each(self, api: ApiServer, shell: Shell) -> None:
        jobs = [api.add_job()["id"] for _ in range(5)]
        api.refusals = [(401, {"message": "Unauthorized"})] * 9
        result = shell("jobs", "cancel", *jobs, "-o", "json")
        assert len(api.requests) == 1
        assert [one["error"]["code"] for one in json.loads(result.stdout)["data"]] == ["UNAUTHORIZED"] * 5


class TestTerminal:
    """What a person sees."""

    def test_rows_are_one_line_at_80_columns_and_their_ids_are_taken(
        self, api: ApiServer, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = {"outcome": "PERMANENTLY_FAILED", "scheduledFor": "2026-11-29T19:00:00Z"}
        jobs = [api.add_job(name="a job with a long name " * 5, lastRun=run, silentSince="2026-11-28T19:00:00Z")]
        jobs += [api.add_job(name="名前" * 30), api.add_job(name="b")]
        result = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80"}).invoke(app, ["jobs", "list"])
        lines = result.stdout.splitlines()
        assert len(lines) == 1 + len(jobs)
        assert all(cell_len(line) <= 80 for line in lines)
        for line, job in zip(lines[1:], jobs, strict=True):
            short = line.split()[0]
            assert len(short) == 8
            assert job["id"].startswith(short)
            assert shell("jobs", "get", short).exit_code == 0

    def test_short_ids_are_as_long_as_they_must_be(self) -> None:
        ids = ["7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f", "7d3f9c1e-2b4b-4c5d-8e6f-0a1b2c3d4e5f"]
        assert [short_ids(ids)[one] for one in ids] == ["7d3f9c1e-2b4a", "7d3f9c1e-2b4b"]
        assert short_ids([ids[0], ids[0]]) == {ids[0]: "7d3f9c1e"}
        assert short_ids([]) == {}

    @pytest.mark.parametrize(
        ("zone", "shown"),
        [("UTC", "19:00:00Z"), ("Europe/Berlin", "20:00:00+01:00"), ("Asia/Kathmandu", "00:45:00+05:45")],
    )
    def test_times_say_their_zone(self, zone: str, shown: str) -> None:
        now = datetime(2026, 11, 29, 19, 0, 3, tzinfo=UTC).astimezone(ZoneInfo(zone))
        assert moment("2026-11-29T19:00:00Z", now) == f"{shown} (3 s ago)"
        assert clock_time("2026-11-29T19:00:00.25Z", now, milliseconds=True) == shown.replace(
            ":00Z", ":00.250Z"
        ).replace(":00+", ":00.250+")
        assert clock_time("2026-11-20T19:00:00Z", now).startswith("2026-11-2")

    @pytest.mark.parametrize("arguments", [["--version"], ["--version", "jobs", "list"]])
    def test_the_version_is_the_project_s(self, shell: Shell, arguments: list[str]) -> None:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
        result = shell(*arguments)
        assert (result.exit_code, result.stdout) == (0, f"gnomon {project['version']}\n")

    @pytest.mark.parametrize("command", [["jobs", "watch"], ["workflow", "watch"]])
    def test_ctrl_c_is_no_success(self, api: ApiServer, shell: Shell, command: list[str]) -> None:
        """What a shell has after `&&` does not follow."""
        job = api.add_job(status="RUNNING")

        def interrupt(_: float) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.sleep", interrupt)
            api.jobs[job["id"]] |= {"jobs": [], "edges": [], "criticalPath": []}
            api.workflows[job["id"]] = api.jobs[job["id"]]
            result = shell(*command, job["id"])
        assert result.exit_code == 130
        assert "Stopped watching" in result.stdout

    def test_a_list_goes_on_at_a_cursor(self, api: ApiServer, shell: Shell) -> None:
        ids = [api.add_job()["id"] for _ in range(5)]
        first = json.loads(shell("jobs", "list", "--limit", "2", "-o", "json").stdout)
        cursor = first["pagination"]["cursor"]
        rest = json.loads(shell("jobs", "list", "--cursor", cursor, "-o", "json").stdout)
        assert [job["id"] for job in first["data"] + rest["data"]] == ids
        assert rest["pagination"] == {}


class TestWithoutAStack:
    """`gnomon preview` needs none in the project's folder: the functions' own calculation is beside it."""

    @pytest.fixture(autouse=True)
    def _no_stack(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in [name for name in os.environ if name.startswith("GNOMON_")]:
            monkeypatch.delenv(variable)
        monkeypatch.chdir(tmp_path)

    def test_a_preview_is_what_the_api_answers(self) -> None:
        given = ["0 2 * * *", "--timezone", "Europe/Berlin", "--after", "2027-03-26T12:00:00Z", "--count", "3"]
        result = CliRunner().invoke(app, ["preview", *given, "-o", "json"])
        query = "expression=0%202%20*%20*%20*&timezone=Europe%2FBerlin&after=2027-03-26T12%3A00%3A00Z&count=3"
        assert json.loads(result.stdout) == Api().get("/v1/schedule/preview", query=query).json

    def test_it_begins_now(self) -> None:
        before = datetime.now(UTC)
        slots = json.loads(CliRunner().invoke(app, ["preview", "* * * * *", "-o", "json"]).stdout)["slots"]
        first = datetime.fromisoformat(slots[0])
        assert 0 < (first - before).total_seconds() <= 61
        assert len(slots) == 10

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["61 * * * *"], 'minute "61"'),
            (["@daily", "--timezone", "Mars/Olympus"], "Mars/Olympus"),
            (["@daily", "--count", "101"], "count"),
            (["@daily", "--after", "soon"], "after"),
            (["H * * * *", "--job-id", "x"], "jobId"),
        ],
    )
    def test_it_refuses_as_the_api_does(self, arguments: list[str], complaint: str) -> None:
        result = CliRunner().invoke(app, ["preview", *arguments])
        assert result.exit_code == 1
        assert complaint in result.stderr
        assert "VALIDATION_ERROR, HTTP 400" in result.stderr

    def test_elsewhere_it_says_what_it_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gnomon.calculation.is_at_hand", lambda: False)
        result = CliRunner().invoke(app, ["preview", "@daily"])
        assert result.exit_code == 1
        assert "No stack" in result.stderr
        assert "project's folder" in result.stderr

    def test_without_the_functions_packages_it_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gnomon.calculation._MODULE", "functions.no_such_module")
        monkeypatch.setattr("gnomon.calculation.is_at_hand", lambda: True)
        result = CliRunner().invoke(app, ["preview", "@daily"])
        assert result.exit_code == 1
        assert "cannot be calculated here" in result.stderr
        assert "Traceback" not in result.stderr

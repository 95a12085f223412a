"""`make demo`: real jobs on the local stack, against a real receiver that fails twice.

Exit code 0 when the one-time job COMPLETED at its third attempt and the interval job ran; else 1, with what was seen.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from gnomon.client import Client
from gnomon.commands.session import make_console, tell
from gnomon.display import execution_line, executions_table, preview_table
from gnomon.errors import GnomonError, UsageError
from gnomon.follow import ChangeLog, Look, look
from gnomon.job_body import rfc3339
from gnomon.local.places import DEFAULT_PORT, ROOT, place
from gnomon.local.receiver import Receiver
from gnomon.local.report import LocalError
from gnomon.stack_file import Role, Stack, read_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gnomon.shapes import Job

ANSWERS = {"/flaky": (503, 503, 200)}
"""What the receiver answers to a job's first, second and third call."""
ATTEMPTS = 3
INTERVAL_RUNS = 2
DEADLINE_SECONDS = 90.0


class DemoError(GnomonError):
    """The jobs did not end as they should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the demo plays on."""

    client: Client
    receiver: Receiver
    console: Console
    now: Callable[[], datetime]
    """In the zone of this machine."""
    sleep: Callable[[float], None]
    monotonic: Callable[[], float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gnomon.local.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-up", action="store_true", help="the stack is up already: do not start it first")
    options = parser.parse_args(arguments)
    console = make_console()
    try:
        if not options.no_up:
            bring_up()
        stack = running_stack()
        with (
            Client(stack.api_url, stack.tokens[Role.SCHEDULER]) as client,
            Receiver(_secret(stack), ANSWERS) as receiver,
        ):
            stage = Stage(
                client=client,
                receiver=receiver,
                console=console,
                now=lambda: datetime.now().astimezone(),
                sleep=time.sleep,
                monotonic=time.monotonic,
            )
            job = play(stage)
        say_what_next(console, stack, job)
    except GnomonError as error:
        tell(error)
        return 1
    except LocalError as error:
        tell(GnomonError(str(error), advice=error.advice))
        return 1
    except KeyboardInterrupt:
        console.print("\nStopped. The stack is still up: `make down` stops it.", markup=False)
        return 130
    return 0


def bring_up() -> None:
    """What `make up` does once the tools are there: returns when the stack is ready."""
    try:
        subprocess.run([sys.executable, "-m", "gnomon.local.stack"], cwd=ROOT, check=True)
    except subprocess.CalledProcessError as error:
        raise DemoError("The local stack did not start.", advice="What was printed above says why.") from error


def running_stack() -> Stack:
    """What `make up` wrote; raises UsageError."""
    path = place().stack_file
    stack = read_stack(path)
    if Role.SCHEDULER not in stack.tokens:
        raise UsageError(f"{path} has no token for role scheduler.", advice="`make up` renews the tokens.")
    return stack


def play(stage: Stage) -> Job:
    """Preview a cron expression, then run both jobs to their end; returns the one-time job. Raises DemoError."""
    _show_preview(stage)
    once = stage.client.create_job(_one_time_job(stage))
    every = stage.client.create_job(_interval_job(stage))
    stage.console.print(
        f"\nA one-time job, due in 2 s, calls {stage.receiver.url}/flaky, which answers 503, 503, then 200;"
        f"\nan interval job calls {stage.receiver.url}/steady every 5 s. Each call's signature is checked.\n",
        markup=False,
    )
    try:
        seen = _follow(stage, once, every)
    except (GnomonError, KeyboardInterrupt):
        # What went wrong is worth telling, not that the API is gone for the clean-up too.
        with contextlib.suppress(GnomonError):
            stage.client.delete_job(every["id"])
        raise
    stage.client.delete_job(every["id"])
    _check(stage, *seen)
    stage.console.print(
        f"\n{ATTEMPTS} attempts, {ATTEMPTS - 1} failures, COMPLETED; {INTERVAL_RUNS} runs of the interval job, which "
        "is deleted now. All signatures were genuine.",
        style="green",
    )
    return seen[0].job


def _one_time_job(stage: Stage) -> dict[str, object]:
    return {
        "name": "demo-flaky-receiver",
        "schedule": {"type": "once", "at": rfc3339(stage.now() + timedelta(seconds=2))},
        "target": {"type": "http", "url": f"{stage.receiver.url}/flaky"},
        "payload": {"order": 4711},
        "retryConfig": {"maxRetries": 3, "backoffStrategy": "fixed", "initialDelaySeconds": 1, "jitter": 0},
        "timeoutSeconds": 10,
        "tags": ["demo"],
    }


def _interval_job(stage: Stage) -> dict[str, object]:
    return {
        "name": "demo-every-5-seconds",
        "schedule": {"type": "interval", "everySeconds": 5},
        "target": {"type": "http", "url": f"{stage.receiver.url}/steady"},
        "timeoutSeconds": 10,
        "tags": ["demo"],
    }


def _show_preview(stage: Stage) -> None:
    expression, zone = "0 9 * * MON-FRI", "Europe/Berlin"
    preview = stage.client.preview(expression, timezone=zone, count=3)
    stage.console.print(f"\n{expression} in {zone} is next due at", style="bold", markup=False)
    stage.console.print(preview_table(preview, stage.now()))


def _follow(stage: Stage, once: Job, every: Job) -> tuple[Look, Look]:
    """Show attempts as they happen, until both jobs did what they should; raises DemoError at the deadline."""
    ends = stage.monotonic() + DEADLINE_SECONDS
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stage.console,
    )
    attempts = progress.add_task("attempts of the one-time job", total=ATTEMPTS)
    runs = progress.add_task("runs of the interval job", total=INTERVAL_RUNS)
    log = ChangeLog()
    with Live(console=stage.console, refresh_per_second=8, auto_refresh=stage.console.is_terminal) as live:
        while True:
            seen = look(stage.client, once["id"]), look(stage.client, every["id"])
            progress.update(attempts, completed=_ended(seen[0]))
            progress.update(runs, completed=min(_completed(seen[1]), INTERVAL_RUNS))
            if stage.console.is_terminal:
                live.update(_picture(stage, progress, seen))
            else:
                _print_changes(stage, log, seen)
            if seen[0].at_rest and _completed(seen[1]) >= INTERVAL_RUNS:
                return seen
            if stage.monotonic() > ends:
                raise DemoError(f"The jobs did not end within {DEADLINE_SECONDS:.0f} s. {_evidence(stage, *seen)}")
            stage.sleep(0.7)


def _picture(stage: Stage, progress: Progress, seen: tuple[Look, Look]) -> Group:
    now = stage.now()
    tables = [_named(looked, now) for looked in seen]
    return Group(*tables, Text(""), progress)


def _named(looked: Look, now: datetime) -> Group:
    head = f"{looked.job['name']}  {looked.job.get('status', '')}"
    return Group(Text(head, style="bold"), executions_table(looked.executions, now), Text(""))


def _print_changes(stage: Stage, log: ChangeLog, seen: tuple[Look, Look]) -> None:
    for looked in seen:
        for execution in log.changes(looked.executions):
            line = execution_line(execution, stage.now(), among=looked.executions)
            stage.console.print(f"{looked.job['name']}  {line}", markup=False)


def _ended(looked: Look) -> int:
    return sum(execution.get("completedAt") is not None for execution in looked.executions)


def _completed(looked: Look) -> int:
    return sum(execution.get("status") == "COMPLETED" for execution in looked.executions)


def _check(stage: Stage, once: Look, every: Look) -> None:
    statuses = [execution.get("status") for execution in once.executions]
    forged = [delivery for delivery in stage.receiver.deliveries if delivery.refusal]
    if once.job.get("status") != "COMPLETED" or statuses != ["FAILED", "FAILED", "COMPLETED"] or forged:
        raise DemoError(
            f"The one-time job did not fail twice and then complete. {_evidence(stage, once, every)}",
            advice=f"What the functions said: {place().emulator_log}",
        )


def _evidence(stage: Stage, *seen: Look) -> str:
    """What the API and the receiver saw."""
    jobs = "; ".join(
        f"{looked.job['name']} ({looked.job['id']}) is {looked.job.get('status')}, its attempts: "
        + (", ".join(str(execution.get("status")) for execution in looked.executions) or "none")
        for looked in seen
    )
    calls = ", ".join(
        f"{delivery.path} {delivery.answered}" + (f" ({delivery.refusal})" if delivery.refusal else "")
        for delivery in stage.receiver.deliveries
    )
    return f"{jobs}. The receiver's calls: {calls or 'none'}."


def say_what_next(console: Console, stack: Stack, job: Job) -> None:
    """Where the API is, a request that works when pasted, and how to stop."""
    file = _seen_from_root(stack.path)
    read_token = f'import json; print(json.load(open("{file}"))["tokens"]["scheduler"])'
    here = place()
    port = "" if here.port == DEFAULT_PORT else f"GNOMON_PORT={here.port} "
    program = f"{port}{_seen_from_root(Path(sys.executable).with_name('gnomon'))}"
    console.print("\nThe stack is up. In this folder:\n", style="bold")
    for line in (
        f"  API        {stack.api_url}    its pages: {stack.api_url}/docs",
        f"  history    curl -sS -H \"Authorization: Bearer $(python3 -c '{read_token}')\" "
        f"'{stack.api_url}/v1/jobs/{job['id']}/history'",
        f"  the same   {program} jobs history {job['id']}",
        f"  your own   {program} jobs create --help",
        f"  stop       {port}make down",
    ):
        console.print(line, markup=False, soft_wrap=True)


def _seen_from_root(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _secret(stack: Stack) -> str:
    if not stack.webhook_secret:
        raise UsageError(f"{stack.path} lacks webhookSecret.", advice="`make up` writes it anew.")
    return stack.webhook_secret


if __name__ == "__main__":
    sys.exit(main())

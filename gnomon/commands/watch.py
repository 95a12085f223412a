"""`gnomon jobs watch`."""

import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from gnomon.commands.jobs import JobId
from gnomon.commands.session import Session, command
from gnomon.display import execution_line, executions_table, gate_line, moment, printable
from gnomon.follow import ChangeLog, Look, look


@command
def watch(
    session: Session,
    job_id: JobId,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="End with 1 for a job that is paused, too.")
    ] = False,
) -> None:
    """Follow a job's attempts until it is at rest. Ends with 0 if it COMPLETED or is paused, with 1 if it FAILED, was
    CANCELLED or SKIPPED. Ctrl-C stops watching, not the job, and ends with 130."""
    found = session.jobs.id_of(job_id)
    try:
        last = _live(session, found, interval) if _is_live(session) else _lines(session, found, interval)
    except KeyboardInterrupt:
        session.say("Stopped watching; the job goes on.")
        raise typer.Exit(STOPPED) from None
    status = last.job.get("status")
    session.say(f"{last.job.get('name', job_id)}: {status}")
    if status not in (("COMPLETED",) if exit_status else ("COMPLETED", "PAUSED")):
        raise typer.Exit(1)


STOPPED = 130
"""Exit code after Ctrl-C, as shells have it: what is to follow a success does not follow."""


def add_to(app: typer.Typer) -> None:
    app.command("watch", epilog="Example: `gnomon jobs watch nightly-report && echo done`")(watch)


def _is_live(session: Session) -> bool:
    return session.console.is_terminal and not session.is_json


def _live(session: Session, job_id: str, interval: float) -> Look:
    with Live(console=session.console, refresh_per_second=4) as live:
        while True:
            seen = look(session.client, job_id)
            live.update(_picture(session, seen))
            if seen.at_rest:
                return seen
            time.sleep(interval)


def _picture(session: Session, seen: Look) -> Group:
    now = session.now()
    following = moment(seen.job.get("nextRunAt"), now)
    head = printable(f"{seen.job.get('name', '')}  {seen.job.get('status', '')}")
    return Group(
        Text(f"{head}  next run {following}" if following else head, style="bold"),
        *(Text(f"waits: {gate_line(gate, now)}", style="yellow") for gate in seen.job.get("gates", [])),
        executions_table(seen.executions, now, width=session.width),
    )


def _lines(session: Session, job_id: str, interval: float) -> Look:
    """A line for each change; with `--output json` a JSON object a line."""
    log = ChangeLog()
    while True:
        seen = look(session.client, job_id)
        for gate in () if session.is_json else log.new_gates(seen.job):
            session.say(f"waits: {gate_line(gate, session.now())}")
        for execution in log.changes(seen.executions):
            if session.is_json:
                session.show_line(execution)
            else:
                session.say(execution_line(execution, session.now(), among=seen.executions))
        if seen.at_rest:
            return seen
        time.sleep(interval)

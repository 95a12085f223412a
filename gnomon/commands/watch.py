"""`gnomon jobs watch`."""

import json
import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from gnomon.commands.jobs import JobId
from gnomon.commands.session import Output, Session, command
from gnomon.display import execution_line, executions_table, gate_line, moment, printable
from gnomon.follow import ChangeLog, Look, look


@command
def watch(
    session: Session,
    job_id: JobId,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
    exit_status: Annotated[bool, typer.Option("--exit-status", help="End with 1 unless the job COMPLETED.")] = False,
) -> None:
    """Follow a job's attempts until it is at rest; Ctrl-C stops watching, not the job."""
    try:
        last = _live(session, job_id, interval) if _is_live(session) else _lines(session, job_id, interval)
    except KeyboardInterrupt:
        session.say("Stopped watching; the job goes on.")
        return
    session.say(f"{printable(last.job.get('name', job_id))}: {last.job.get('status')}")
    if exit_status and last.job.get("status") != "COMPLETED":
        raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    app.command("watch", epilog="Example: `gnomon jobs watch 5f2b… --exit-status && echo done`")(watch)


def _is_live(session: Session) -> bool:
    return session.console.is_terminal and session.output is Output.TABLE


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
    head = f"{printable(seen.job.get('name', ''))}  {seen.job.get('status', '')}"
    return Group(
        Text(f"{head}  next run {following}" if following else head, style="bold"),
        *(Text(f"waits: {gate_line(gate, now)}", style="yellow") for gate in seen.job.get("gates", [])),
        executions_table(seen.executions, now),
    )


def _lines(session: Session, job_id: str, interval: float) -> Look:
    """A line for each change; with `--output json` a JSON object a line."""
    log = ChangeLog()
    while True:
        seen = look(session.client, job_id)
        for gate in log.new_gates(seen.job) if session.output is Output.TABLE else ():
            session.say(f"waits: {gate_line(gate, session.now())}")
        for execution in log.changes(seen.executions):
            if session.output is Output.JSON:
                print(json.dumps(execution, ensure_ascii=False), flush=True)
            else:
                session.say(execution_line(execution, session.now(), among=seen.executions))
        if seen.at_rest:
            return seen
        time.sleep(interval)

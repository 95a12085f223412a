"""`gnomon workflow create|get|watch|list|cancel|retry`."""

import itertools
import json
import time
from typing import Annotated

import typer
from rich.live import Live

from gnomon.commands.session import Output, Session, command
from gnomon.display import printable
from gnomon.job_body import workflow_file
from gnomon.shapes import Workflow
from gnomon.workflow_display import ENDED, member_line, workflow_picture, workflows_table

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Jobs that depend on each other: register them together, watch them, steer them as one.",
)

WorkflowId = Annotated[
    str, typer.Argument(metavar="WORKFLOW_ID", help="The workflow's id, as `gnomon workflow list` shows it.")
]


@app.command(epilog="Example: `gnomon workflow create etl.json`")
@command
def create(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The body as JSON: name and jobs (docs/workflows.md).")],
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key within an hour makes no second workflow.")
    ] = None,
) -> None:
    """Register the jobs of a workflow, all of them or none."""
    workflow = session.client.create_workflow(workflow_file(file), idempotency_key=idempotency_key)
    _show(session, workflow)
    session.say(f"`gnomon workflow watch {workflow['id']}` follows it.")


@app.command(epilog="Example: `gnomon workflow get 5f2b… --mermaid > etl.mmd`")
@command
def get(
    session: Session,
    workflow_id: WorkflowId,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> None:
    """Show a workflow: states, who waits for whom, and what has taken the time."""
    if mermaid:
        print(session.client.workflow_mermaid(workflow_id), end="")
        return
    _show(session, session.client.get_workflow(workflow_id))


@app.command("list", epilog="Example: `gnomon workflow list --limit 10`")
@command
def list_workflows(
    session: Session,
    owner: Annotated[str | None, typer.Option(help="Another owner's workflows.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 50,
) -> None:
    """List your workflows, newest first."""
    found = list(itertools.islice(session.client.list_workflows(owner=owner, page_size=min(limit, 100)), limit))
    session.show({"data": found}, workflows_table(found, session.now()))
    if not found:
        session.say("No workflows. `gnomon workflow create --help` shows how to register one.")


@app.command(epilog="Example: `gnomon workflow cancel 5f2b…`")
@command
def cancel(session: Session, workflow_id: WorkflowId) -> None:
    """Cancel every job that has not ended. What has ended stays as it is."""
    _show(session, session.client.cancel_workflow(workflow_id))


@app.command(epilog="Example: `gnomon workflow retry 5f2b… && gnomon workflow watch 5f2b…`")
@command
def retry(session: Session, workflow_id: WorkflowId) -> None:
    """Retry every job that failed with attempts of its own; those after them run again."""
    _show(session, session.client.retry_workflow(workflow_id))


@app.command(epilog="Example: `gnomon workflow watch 5f2b… && echo done`")
@command
def watch(
    session: Session,
    workflow_id: WorkflowId,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Follow a workflow until it has ended; ends with 1 unless it COMPLETED. Ctrl-C stops watching, nothing else."""
    live = session.console.is_terminal and session.output is Output.TABLE
    try:
        last = _live(session, workflow_id, interval) if live else _lines(session, workflow_id, interval)
    except KeyboardInterrupt:
        session.say("Stopped watching; the workflow goes on.")
        return
    session.say(f"{printable(last.get('name', workflow_id))}: {last.get('status')}")
    if last.get("status") != "COMPLETED":
        raise typer.Exit(1)


def _live(session: Session, workflow_id: str, interval: float) -> Workflow:
    with Live(console=session.console, refresh_per_second=4) as live:
        while True:
            seen = session.client.get_workflow(workflow_id)
            live.update(workflow_picture(seen, session.now()))
            if seen.get("status") in ENDED:
                return seen
            time.sleep(interval)


def _lines(session: Session, workflow_id: str, interval: float) -> Workflow:
    """A line for each change of a job's state; with `--output json` a JSON object a line."""
    told: dict[str, tuple[object, ...]] = {}
    while True:
        seen = session.client.get_workflow(workflow_id)
        for member in seen.get("jobs", []):
            state = (member.get("status"), member.get("waitsFor"), member.get("readyAt"))
            if told.get(member["name"]) == state:
                continue
            told[member["name"]] = state
            if session.output is Output.JSON:
                print(json.dumps(member, ensure_ascii=False), flush=True)
            else:
                session.say(member_line(member, session.now()))
        if seen.get("status") in ENDED:
            return seen
        time.sleep(interval)


def _show(session: Session, workflow: Workflow) -> None:
    session.show(workflow, workflow_picture(workflow, session.now()))
    session.say(printable(workflow.get("id", "")))

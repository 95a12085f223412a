"""`gnomon workflow create|get|watch|list|cancel|retry`."""

import sys
import time
from typing import Annotated

import typer
from rich.live import Live

from gnomon.commands.each import for_each, show_one
from gnomon.commands.jobs import NAMES, Cursor, Limit
from gnomon.commands.session import Session, command
from gnomon.commands.watch import STOPPED
from gnomon.job_body import workflow_file
from gnomon.safe_text import printable
from gnomon.workflow_display import ENDED, member_line, workflow_picture, workflows_table
from gnomon.workflow_shapes import Workflow

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Jobs that depend on each other: register them together, watch them, steer them as one.",
)

_NAMES = NAMES.replace("jobs", "workflows")
WorkflowId = Annotated[str, typer.Argument(metavar="WORKFLOW", help=_NAMES)]
WorkflowIds = Annotated[list[str], typer.Argument(metavar="WORKFLOW...", help=_NAMES)]


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
    show_one(session, workflow, lambda workflow: _show(session, workflow))
    session.say(f"`gnomon workflow watch {workflow['id']}` follows it.")


@app.command(epilog="Example: `gnomon workflow get 5f2b9c1e --mermaid > etl.mmd`")
@command
def get(
    session: Session,
    workflow_ids: WorkflowIds,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> None:
    """Show workflows: states, which job waits for which, and what has taken the time."""
    if mermaid:

        def chart(workflow_id: str) -> dict[str, str]:
            return {"id": workflow_id, "mermaid": session.client.workflow_mermaid(workflow_id)}

        for_each(session, workflow_ids, session.workflows, chart, _show_chart)
        return
    for_each(session, workflow_ids, session.workflows, session.client.get_workflow, lambda one: _show(session, one))


def _show_chart(found: dict[str, str]) -> None:
    sys.stdout.write(printable(found["mermaid"], keep="\n\t"))


@app.command("list", epilog="Example: `gnomon workflow list --limit 10`")
@command
def list_workflows(
    session: Session,
    owner: Annotated[str | None, typer.Option(help="Another owner's workflows.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List your workflows, newest first. A narrow terminal shows short ids, which every command takes."""
    found = session.client.list_workflows(owner=owner, cursor=cursor).take(limit)
    session.show(found, workflows_table(found["data"], session.now(), width=session.width))
    if not found["data"]:
        session.say("No workflows. `gnomon workflow create --help` shows how to register one.")
    elif found["pagination"].get("cursor"):
        session.say(f"The newest {len(found['data'])}; --limit shows more.")


@app.command(epilog="Example: `gnomon workflow cancel 5f2b9c1e`")
@command
def cancel(session: Session, workflow_ids: WorkflowIds) -> None:
    """Cancel every job that has not ended. What has ended stays as it is."""
    for_each(session, workflow_ids, session.workflows, session.client.cancel_workflow, lambda one: _show(session, one))


@app.command(epilog="Example: `gnomon workflow retry nightly-etl && gnomon workflow watch nightly-etl`")
@command
def retry(session: Session, workflow_ids: WorkflowIds) -> None:
    """Retry every job that failed with attempts of its own; those after them run again."""
    for_each(session, workflow_ids, session.workflows, session.client.retry_workflow, lambda one: _show(session, one))


@app.command(epilog="Example: `gnomon workflow watch nightly-etl && echo done`")
@command
def watch(
    session: Session,
    workflow_id: WorkflowId,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Follow a workflow until it has ended. Ends with 1 unless it COMPLETED. Ctrl-C stops watching, not the workflow,
    and ends with 130."""
    found = session.workflows.id_of(workflow_id)
    live = session.console.is_terminal and not session.is_json
    try:
        last = _live(session, found, interval) if live else _lines(session, found, interval)
    except KeyboardInterrupt:
        session.say("Stopped watching; the workflow goes on.")
        raise typer.Exit(STOPPED) from None
    session.say(f"{last.get('name', workflow_id)}: {last.get('status')}")
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
            if session.is_json:
                session.show_line(member)
            else:
                session.say(member_line(member, session.now()))
        if seen.get("status") in ENDED:
            return seen
        time.sleep(interval)


def _show(session: Session, workflow: Workflow) -> None:
    session.show(workflow, workflow_picture(workflow, session.now()))
    session.say(workflow.get("id", ""))

"""`gnomon jobs list|get|history|pause|resume|run|retry|approve|reject|cancel|delete`."""

import itertools
from typing import Annotated

import typer

from gnomon.commands.session import Output, Session, command
from gnomon.display import executions_table, job_details, jobs_table, next_run
from gnomon.job_body import seconds
from gnomon.shapes import Job

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Register jobs, look at them, steer them.")

JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="The job's id, as `gnomon jobs list` shows it.")]
RunId = Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="The run, as `gnomon jobs get` names it.")]
Comment = Annotated[str | None, typer.Option("--comment", help="Why; kept with the decision.")]
Revision = Annotated[
    int | None,
    typer.Option("--revision", min=1, help="Only while the job is what it was then, as `gnomon jobs get` shows it."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]


@app.command("list", epilog="Example: `gnomon jobs list --status RETRYING --output json`")
@command
def list_jobs(
    session: Session,
    status: Annotated[str | None, typer.Option(help="Only these: SCHEDULED, BLOCKED, RUNNING, …")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    owner: Annotated[str | None, typer.Option(help="Another owner's jobs; `*` for all your role may see.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    silent: Annotated[bool, typer.Option("--silent", help="Only jobs whose silence alarm was raised.")] = False,
    limit: Limit = 50,
) -> None:
    """List your jobs, newest first."""
    found = session.client.list_jobs(
        status=status and status.upper(),
        type_=type_,
        owner=owner,
        tag=tag,
        silent=silent or None,
        page_size=min(limit, 100),
    )
    jobs = list(itertools.islice(found, limit))
    session.show({"data": jobs}, jobs_table(jobs, session.now()))
    if not jobs:
        session.say("No jobs. `gnomon jobs create --help` shows how to register one.")
    elif len(jobs) == limit:
        session.say(f"The newest {limit}; --limit shows more.")


@app.command(epilog="Example: `gnomon jobs get 5f2b…`")
@command
def get(session: Session, job_id: JobId) -> None:
    """Show a job: its definition with `--output json`, its state in both."""
    _show(session, session.client.get_job(job_id))


@app.command(epilog="Example: `gnomon jobs history 5f2b… --limit 20`")
@command
def history(session: Session, job_id: JobId, limit: Limit = 50) -> None:
    """Show a job's attempts, newest first, the active one included."""
    executions = list(itertools.islice(session.client.history(job_id, page_size=min(limit, 100)), limit))
    session.show({"data": executions}, executions_table(executions, session.now()))
    if not executions:
        session.say("No attempt yet.")


@app.command(epilog="Example: `gnomon jobs pause 5f2b…`")
@command
def pause(session: Session, job_id: JobId) -> None:
    """Let no slot start a run until `resume`; what runs goes on."""
    _show(session, session.client.pause_job(job_id), "Paused.")


@app.command(epilog="Example: `gnomon jobs resume 5f2b…`")
@command
def resume(session: Session, job_id: JobId) -> None:
    """Go on after a pause. Slots of the pause are passed over; an overdue one-time job runs now."""
    _show(session, session.client.resume_job(job_id), "Resumed.")


@app.command(epilog="Example: `gnomon jobs run 5f2b… && gnomon jobs watch 5f2b…`")
@command
def run(session: Session, job_id: JobId) -> None:
    """Run a job now, beside its schedule."""
    _show(session, session.client.execute_job(job_id), "Runs now.")


@app.command(epilog="Example: `gnomon jobs retry 5f2b… --delay 30s`")
@command
def retry(
    session: Session,
    job_id: JobId,
    delay: Annotated[str | None, typer.Option(metavar="SECONDS", help="Wait first: 90, 15m, 2h.")] = None,
) -> None:
    """Repeat the last run, which failed or waits for its retry."""
    wait = None if delay is None else seconds(delay, flag="--delay")
    _show(session, session.client.retry_job(job_id, delay_seconds=wait), "Will be retried.")


@app.command(epilog="Example: `gnomon jobs approve 5f2b… --comment 'checked the amounts'`")
@command
def approve(
    session: Session, job_id: JobId, run_id: RunId = None, comment: Comment = None, revision: Revision = None
) -> None:
    """Let a run pass that waits at its approval gate. Runs of recurring jobs are named with --run."""
    etag = _etag(session, job_id, revision)
    _show(session, session.client.approve_job(job_id, run_id=run_id, comment=comment, etag=etag), "Approved.")


@app.command(epilog="Example: `gnomon jobs reject 5f2b… --run 5f2b…-1801407582`")
@command
def reject(
    session: Session, job_id: JobId, run_id: RunId = None, comment: Comment = None, revision: Revision = None
) -> None:
    """End a run that waits at its approval gate, without an attempt."""
    etag = _etag(session, job_id, revision)
    _show(session, session.client.reject_job(job_id, run_id=run_id, comment=comment, etag=etag), "Rejected.")


def _etag(session: Session, job_id: str, revision: int | None) -> str:
    """Of the job decided about, as somebody looked at it or else as it is now. Its first number alone counts."""
    return f'"{revision or session.client.get_job(job_id)["revision"]}.0"'


@app.command(epilog="Example: `gnomon jobs cancel 5f2b…`")
@command
def cancel(session: Session, job_id: JobId) -> None:
    """End a job for good, its active run too. Its history stays."""
    _show(session, session.client.cancel_job(job_id), "Cancelled.")


@app.command(epilog="Example: `gnomon jobs delete 5f2b…`")
@command
def delete(session: Session, job_id: JobId) -> None:
    """Cancel a job and take it out of the lists."""
    session.client.delete_job(job_id)
    if session.output is Output.JSON:
        session.show({"id": job_id, "deleted": True}, "")
    session.say(f"Deleted {job_id}.")


def _show(session: Session, job: Job, done: str = "") -> None:
    now = session.now()
    session.show(job, job_details(job, now))
    if done:
        following = next_run(job, now)
        session.say(f"{done} Next run {following}." if following else done)

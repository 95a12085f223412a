"""`gnomon jobs list|get|history|pause|resume|run|retry|approve|reject|cancel|delete`."""

from collections.abc import Callable
from typing import Annotated

import typer

from gnomon.commands.each import for_each, show_one
from gnomon.commands.session import Session, command
from gnomon.display import executions_table, job_details, jobs_table, next_run
from gnomon.job_body import seconds
from gnomon.lookup import SHORTEST
from gnomon.shapes import Job

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Register jobs, look at them, steer them.")

NAMES = (
    f"Its id, the first {SHORTEST} or more characters of the id, or its name. The last two read your list: one request "
    "for each 100 of your jobs, at most 10."
)
JobId = Annotated[str, typer.Argument(metavar="JOB", help=NAMES)]
JobIds = Annotated[list[str], typer.Argument(metavar="JOB...", help=NAMES)]
RunId = Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="The run, as `gnomon jobs get` names it.")]
Comment = Annotated[str | None, typer.Option("--comment", help="Why; kept with the decision.")]
Revision = Annotated[
    int | None,
    typer.Option("--revision", min=1, help="Only while the job is what it was then, as `gnomon jobs get` shows it."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Begin there: `pagination.cursor` of the JSON of the list before.")
]


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
    cursor: Cursor = None,
) -> None:
    """List your jobs, newest first. A narrow terminal shows short ids, which every command takes."""
    found = session.client.list_jobs(
        status=status and status.upper(), type_=type_, owner=owner, tag=tag, silent=silent or None, cursor=cursor
    ).take(limit)
    jobs = found["data"]
    session.show(found, jobs_table(jobs, session.now(), width=session.width))
    if not jobs:
        session.say("No jobs. `gnomon jobs create --help` shows how to register one.")
    elif found["pagination"].get("cursor"):
        session.say(f"The newest {len(jobs)}; --limit shows more.")


@app.command(epilog="Example: `gnomon jobs get 5f2b9c1e nightly-report`")
@command
def get(session: Session, job_ids: JobIds) -> None:
    """Show jobs: their definition with `--output json`, their state in both."""

    def show(job: Job) -> None:
        _show(session, job)
        if len(job_ids) > 1:
            session.say("")

    for_each(session, job_ids, session.jobs, session.client.get_job, show)


@app.command(epilog="Example: `gnomon jobs history 5f2b9c1e --limit 20`")
@command
def history(session: Session, job_id: JobId, limit: Limit = 50, cursor: Cursor = None) -> None:
    """Show a job's attempts, newest first, the active one included."""
    found = session.client.history(session.jobs.id_of(job_id), cursor=cursor).take(limit)
    session.show(found, executions_table(found["data"], session.now(), width=session.width))
    if not found["data"]:
        session.say("No attempt yet.")
    elif found["pagination"].get("cursor"):
        session.say(f"The newest {len(found['data'])}; --limit shows more.")


@app.command(epilog="Example: `gnomon jobs pause nightly-report`")
@command
def pause(session: Session, job_ids: JobIds) -> None:
    """Pause schedules until `resume`. Running attempts continue."""
    _act(session, job_ids, session.client.pause_job, "Paused")


@app.command(epilog="Example: `gnomon jobs resume nightly-report`")
@command
def resume(session: Session, job_ids: JobIds) -> None:
    """Go on after a pause. Slots of the pause are passed over; an overdue one-time job runs now."""
    _act(session, job_ids, session.client.resume_job, "Resumed")


@app.command(epilog="Example: `gnomon jobs transfer nightly-report --to team-billing`")
@command
def transfer(
    session: Session,
    job_ids: JobIds,
    to: Annotated[str, typer.Option(metavar="OWNER", help="A team such as `team-billing`, or a caller's id.")],
) -> None:
    """Give jobs to another owner, which decides what they may use. For admins; not while a run is active."""
    _act(session, job_ids, lambda job_id: session.client.transfer_job(job_id, to), f"Transferred to {to}")


@app.command(epilog="Example: `gnomon jobs run nightly-report && gnomon jobs watch nightly-report`")
@command
def run(session: Session, job_ids: JobIds) -> None:
    """Run jobs now, beside their schedules."""
    _act(session, job_ids, session.client.execute_job, "Runs now")


app.command("execute", hidden=True, help="The same as `run`.")(run)


@app.command(epilog="Example: `gnomon jobs retry 5f2b9c1e --delay 30s`")
@command
def retry(
    session: Session,
    job_ids: JobIds,
    delay: Annotated[str | None, typer.Option(metavar="SECONDS", help="Wait first: 90, 15m, 2h.")] = None,
) -> None:
    """Repeat the last run of jobs, which failed or waits for its retry."""
    wait = None if delay is None else seconds(delay, flag="--delay")
    _act(session, job_ids, lambda job_id: session.client.retry_job(job_id, delay_seconds=wait), "Will be retried")


@app.command(epilog="Example: `gnomon jobs approve 5f2b9c1e --comment 'checked the amounts'`")
@command
def approve(
    session: Session, job_id: JobId, run_id: RunId = None, comment: Comment = None, revision: Revision = None
) -> None:
    """Let a run pass that waits at its approval gate. Runs of recurring jobs are named with --run."""
    found = session.jobs.id_of(job_id)
    etag = _etag(session, found, revision)
    job = session.client.approve_job(found, run_id=run_id, comment=comment, etag=etag)
    show_one(session, job, lambda job: _show(session, job, "Approved"))


@app.command(epilog="Example: `gnomon jobs reject 5f2b9c1e --run 5f2b…-1801407582`")
@command
def reject(
    session: Session, job_id: JobId, run_id: RunId = None, comment: Comment = None, revision: Revision = None
) -> None:
    """End a run that waits at its approval gate, without an attempt."""
    found = session.jobs.id_of(job_id)
    etag = _etag(session, found, revision)
    job = session.client.reject_job(found, run_id=run_id, comment=comment, etag=etag)
    show_one(session, job, lambda job: _show(session, job, "Rejected"))


def _etag(session: Session, job_id: str, revision: int | None) -> str:
    """Of the job decided about, as somebody looked at it or else as it is now. Its first number alone counts."""
    return f'"{revision or session.client.get_job(job_id)["revision"]}.0"'


@app.command(epilog="Example: `gnomon jobs cancel 5f2b9c1e`")
@command
def cancel(session: Session, job_ids: JobIds) -> None:
    """End jobs for good, their active runs too. Their history stays."""
    _act(session, job_ids, session.client.cancel_job, "Cancelled")


@app.command(epilog="Example: `gnomon jobs delete 5f2b9c1e`")
@command
def delete(session: Session, job_ids: JobIds) -> None:
    """Cancel jobs and take them out of the lists."""

    def delete_one(job_id: str) -> dict[str, object]:
        session.client.delete_job(job_id)
        return {"id": job_id, "deleted": True}

    for_each(session, job_ids, session.jobs, delete_one, lambda done: session.say(f"Deleted {done['id']}."))


def _act(session: Session, job_ids: list[str], act: Callable[[str], Job], done: str) -> None:
    is_one = len(job_ids) == 1

    def show(job: Job) -> None:
        if is_one:
            _show(session, job, done)
        else:
            session.say(f"{job['id']}  {job.get('name', '')}: {_done(session, job, done)}")

    for_each(session, job_ids, session.jobs, act, show)


def _show(session: Session, job: Job, done: str = "") -> None:
    session.show(job, job_details(job, session.now()))
    if done:
        session.say(_done(session, job, done))


def _done(session: Session, job: Job, done: str) -> str:
    following = next_run(job, session.now())
    return f"{done}. Next run {following}." if following else f"{done}."

"""`gnomon jobs create`."""

import enum
from typing import Annotated, Any

import typer

from gnomon import job_body
from gnomon.commands.session import Session, command
from gnomon.display import job_details
from gnomon.errors import UsageError

_AFTER = "When others have run"
_GATE = "Who lets its runs pass"
_WHEN, _WHAT, _HOW = "When it runs (one of these)", "What it calls (one of these)", "How it runs"


class Backoff(enum.StrEnum):
    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class Priority(enum.StrEnum):
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Overlap(enum.StrEnum):
    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"


class Misfire(enum.StrEnum):
    RUN_ONCE = "run_once"
    SKIP = "skip"
    RUN_ALL = "run_all"


class Join(enum.StrEnum):
    ALL = "all"
    ANY = "any"


class UpstreamFailure(enum.StrEnum):
    SKIP = "skip"
    FAIL = "fail"
    RUN = "run"


class OnTimeout(enum.StrEnum):
    REJECT = "reject"
    APPROVE = "approve"


_EXAMPLES = """\
Examples:

`gnomon jobs create --name report --cron '0 9 * * MON-FRI' --timezone Europe/Berlin --handler echo`

`gnomon jobs create --name ping --every 15m --http https://example.com/ping --max-retries 5`

`gnomon jobs create --name remind --in 90 --handler echo --payload @mail.json --tag mail`

`gnomon jobs create --name render --cron '@hourly' --worker reports --timeout 30m`

`gnomon jobs create --name publish --depends-on 7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f --handler echo`

`gnomon jobs create --name pay --cron '0 9 1 * *' --handler echo --approval-role finance --approval-timeout 8h`

`gnomon jobs create --file job.json`
"""


@command
def create(  # noqa: PLR0913 - each is a flag of the command
    session: Session,
    *,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    cron: Annotated[str | None, typer.Option(metavar="EXPR", help="Five cron fields.", rich_help_panel=_WHEN)] = None,
    every: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Interval: 90, 15m, 2h, 1d.", rich_help_panel=_WHEN)
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Once: 2027-01-31T16:00:00+01:00.", rich_help_panel=_WHEN),
    ] = None,
    in_: Annotated[
        str | None, typer.Option("--in", metavar="SECONDS", help="Once, from now: 90, 15m.", rich_help_panel=_WHEN)
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(metavar="TZ", help="IANA zone of --cron, or of --at without offset.", rich_help_panel=_WHEN),
    ] = None,
    depends_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[:ON]",
            help="Runs when this job has; ON is success (default), failure or completion. Repeat for more.",
            rich_help_panel=_AFTER,
        ),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(
            metavar="JMESPATH",
            help="And only if this is true of its result; with one parent.",
            rich_help_panel=_AFTER,
        ),
    ] = None,
    join: Annotated[Join | None, typer.Option(help="All of them, or any.", rich_help_panel=_AFTER)] = None,
    on_upstream_failure: Annotated[
        UpstreamFailure | None, typer.Option(help="When one did not end so.", rich_help_panel=_AFTER)
    ] = None,
    upstream_timeout: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Longest wait for them: 15m, 7d.", rich_help_panel=_AFTER)
    ] = None,
    approval_role: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="A member approves or rejects each run.", rich_help_panel=_GATE),
    ] = None,
    approver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHO", help="One of these: id, username or e-mail. Repeat for more.", rich_help_panel=_GATE
        ),
    ] = None,
    approval_timeout: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Longest wait for them: 4h, 7d.", rich_help_panel=_GATE)
    ] = None,
    approval_on_timeout: Annotated[
        OnTimeout | None, typer.Option(help="When nobody decided in time; reject if left out.", rich_help_panel=_GATE)
    ] = None,
    four_eyes: Annotated[
        bool | None,
        typer.Option(
            "--four-eyes/--no-four-eyes", help="Not who made or changed the job; so if left out.", rich_help_panel=_GATE
        ),
    ] = None,
    http: Annotated[str | None, typer.Option(metavar="URL", help="An HTTP endpoint.", rich_help_panel=_WHAT)] = None,
    method: Annotated[str | None, typer.Option(help="Of the call; POST if left out.", rich_help_panel=_WHAT)] = None,
    handler: Annotated[
        str | None, typer.Option(metavar="NAME", help="A function of functions/jobs/.", rich_help_panel=_WHAT)
    ] = None,
    lambda_: Annotated[
        str | None, typer.Option("--lambda", metavar="NAME", help="A Lambda function.", rich_help_panel=_WHAT)
    ] = None,
    sqs: Annotated[str | None, typer.Option(metavar="URL", help="An SQS queue.", rich_help_panel=_WHAT)] = None,
    worker: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Whichever worker polls this queue.", rich_help_panel=_WHAT)
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="JSON|@file", help="What the target receives.", rich_help_panel=_HOW)
    ] = None,
    max_retries: Annotated[int | None, typer.Option(help="Attempts after the first.", rich_help_panel=_HOW)] = None,
    backoff: Annotated[Backoff | None, typer.Option(help="How delays grow.", rich_help_panel=_HOW)] = None,
    initial_delay: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Before the first retry.", rich_help_panel=_HOW)
    ] = None,
    max_delay: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Longest delay.", rich_help_panel=_HOW)
    ] = None,
    jitter: Annotated[float | None, typer.Option(help="Share of a delay that is random.", rich_help_panel=_HOW)] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Longest time an attempt may take.", rich_help_panel=_HOW)
    ] = None,
    callback: Annotated[
        bool, typer.Option("--callback", help="The outcome comes by a later call.", rich_help_panel=_HOW)
    ] = False,
    orchestrated: Annotated[
        bool, typer.Option("--orchestrated", help="Each attempt in a state machine.", rich_help_panel=_HOW)
    ] = False,
    circuit_breaker: Annotated[
        bool | None,
        typer.Option(
            "--circuit-breaker/--no-circuit-breaker",
            help="Leave the target alone for a while when it keeps failing, as the job's type or the stage sets it; "
            "or never.",
            show_default="as the type says",
            rich_help_panel=_HOW,
        ),
    ] = None,
    concurrency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Shares --max-concurrency with its jobs.", rich_help_panel=_HOW)
    ] = None,
    max_concurrency: Annotated[
        int | None, typer.Option(help="Executions of the key at a time.", rich_help_panel=_HOW)
    ] = None,
    priority: Annotated[Priority | None, typer.Option(help="Which queue it takes.", rich_help_panel=_HOW)] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="One of your teams, or you.", show_default="your only team, else you", rich_help_panel=_HOW),
    ] = None,
    overlap: Annotated[
        Overlap | None, typer.Option(help="When the run before still goes on.", rich_help_panel=_HOW)
    ] = None,
    misfire: Annotated[Misfire | None, typer.Option(help="When slots were missed.", rich_help_panel=_HOW)] = None,
    max_runs: Annotated[int | None, typer.Option(help="End after this many runs.", rich_help_panel=_HOW)] = None,
    alert_after: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Say so when it has not succeeded for: 25h, 2d.", rich_help_panel=_HOW),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A label; repeat for more.", rich_help_panel=_HOW)] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="The whole body as JSON, instead of the flags above.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key within an hour makes no second job.")
    ] = None,
) -> None:
    """Register a job. What you leave out takes the stage's default."""
    retry = job_body.without_absent(
        {
            "maxRetries": max_retries,
            "backoffStrategy": backoff,
            "initialDelaySeconds": _seconds(initial_delay, "--initial-delay"),
            "maxDelaySeconds": _seconds(max_delay, "--max-delay"),
            "jitter": jitter,
        }
    )
    policies = job_body.without_absent(
        {
            "name": name,
            "description": description,
            "retryConfig": retry,
            "timeoutSeconds": _seconds(timeout, "--timeout"),
            "completion": "callback" if callback else None,
            "orchestrated": orchestrated or None,
            "circuitBreaker": None if circuit_breaker is None else {"enabled": circuit_breaker},
            "concurrencyKey": concurrency_key,
            "maxConcurrency": max_concurrency,
            "priority": priority,
            "owner": owner,
            "overlapPolicy": overlap,
            "misfirePolicy": misfire,
            "maxRuns": max_runs,
            "alertAfterSeconds": _seconds(alert_after, "--alert-after"),
            "dependsOn": job_body.dependencies(depends_on or [], when=when),
            "join": join,
            "onUpstreamFailure": on_upstream_failure,
            "upstreamTimeoutSeconds": _seconds(upstream_timeout, "--upstream-timeout"),
            "approval": job_body.gate(
                role=approval_role,
                approvers=approver or [],
                timeout=approval_timeout,
                on_timeout=approval_on_timeout,
                four_eyes=four_eyes,
            ),
            "tags": tag,
        }
    )
    others = (cron, every, at, in_, timezone, http, method, handler, lambda_, sqs, worker, payload)
    if file is not None:
        if policies or any(value is not None for value in others):
            raise UsageError("--file is the whole job.", advice="Write the other flags' values into the file.")
        body = job_body.job_file(file)
    elif name is None:
        raise UsageError("The job needs --name.", advice="For example --name nightly-report; or give --file job.json.")
    else:
        schedule = _schedule(session, depends_on, cron=cron, every=every, at=at, in_=in_, timezone=timezone)
        what = job_body.target(http=http, method=method, handler=handler, lambda_=lambda_, sqs=sqs, worker=worker)
        body = {**policies, **job_body.without_absent({"schedule": schedule}), "target": what}
        if payload is not None:
            body["payload"] = job_body.payload(payload)
    job = session.client.create_job(body, idempotency_key=idempotency_key)
    session.show(job, job_details(job, session.now()))
    session.say(f"`gnomon jobs watch {job['id']}` follows it.")


def _schedule(session: Session, depends_on: list[str] | None, **given: str | None) -> dict[str, Any] | None:
    """None for a job that runs when others have, and says nothing of an earliest start."""
    if depends_on and not any(given.values()):
        return None
    return job_body.schedule(**given, now=session.now())


def _seconds(text: str | None, flag: str) -> int | None:
    return None if text is None else job_body.seconds(text, flag=flag)


def add_to(app: typer.Typer) -> None:
    app.command("create", epilog=_EXAMPLES)(create)

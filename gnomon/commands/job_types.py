"""`gnomon types list|get|set|delete`: what holds for the jobs of a type where they say nothing themselves."""

from typing import Annotated

import typer

from gnomon import job_body
from gnomon.commands.create import Backoff
from gnomon.commands.jobs import Cursor, Limit
from gnomon.commands.session import Session, command
from gnomon.display import retry_config_details, retry_configs_table
from gnomon.errors import UsageError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Configure retries, circuits and limits for all jobs of a type. Changes take the role admin.",
)

JobType = Annotated[str, typer.Argument(metavar="TYPE", help="What jobs have as `type`.")]

_EXAMPLES = """\
Examples:

`gnomon types set billing --max-retries 8 --max-delay 1h --poison --role admin`

`gnomon types set billing --file billing.json --role admin`
"""


@app.command("list", epilog="Example: `gnomon types list`")
@command
def list_types(session: Session, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List the types that are configured."""
    found = session.client.list_retry_configs(cursor=cursor).take(limit)
    session.show(found, retry_configs_table(found["data"], session.now(), width=session.width))
    if not found["data"]:
        session.say("No type is configured: all jobs follow what they say themselves, and the stage.")


@app.command(epilog="Example: `gnomon types get billing`")
@command
def get(session: Session, job_type: JobType) -> None:
    """Show what is configured for a type."""
    config = session.client.get_retry_config(job_type)
    session.show(config, retry_config_details(config, session.now()))


@app.command("set", epilog=_EXAMPLES)
@command
def set_(  # noqa: PLR0913 - each is a flag of the command
    session: Session,
    job_type: JobType,
    *,
    max_retries: Annotated[int | None, typer.Option(help="Attempts after the first.")] = None,
    backoff: Annotated[Backoff | None, typer.Option(help="How delays grow.")] = None,
    initial_delay: Annotated[str | None, typer.Option(metavar="SECONDS", help="Before the first retry.")] = None,
    max_delay: Annotated[str | None, typer.Option(metavar="SECONDS", help="Longest delay.")] = None,
    jitter: Annotated[float | None, typer.Option(help="Share of a delay that is random.")] = None,
    retry_window: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="No retry starts later after its slot.")
    ] = None,
    poison: Annotated[
        bool | None, typer.Option("--poison/--no-poison", help="Give up at the third same error in a row.")
    ] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="Attempts of the type at the same time.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="The whole configuration as JSON, instead of the flags above.")
    ] = None,
) -> None:
    """Configure a type, in the place of what was configured before. What you leave out follows the stage."""
    given = job_body.without_absent(
        {
            "maxRetries": max_retries,
            "backoffStrategy": backoff,
            "initialDelaySeconds": _seconds(initial_delay, "--initial-delay"),
            "maxDelaySeconds": _seconds(max_delay, "--max-delay"),
            "jitter": jitter,
            "retryWindowSeconds": _seconds(retry_window, "--retry-window"),
            "poisonDetection": poison,
            "maxConcurrency": max_concurrency,
        }
    )
    if file is not None:
        if given:
            raise UsageError("--file is the whole configuration.", advice="Write the flags' values into the file.")
        given = job_body.job_file(file)
    elif not given:
        raise UsageError("There is nothing to configure.", advice="For example --max-retries 8; or give --file.")
    config = session.client.put_retry_config(job_type, given)
    session.show(config, retry_config_details(config, session.now()))
    session.say("Functions follow it within 15 seconds.")


@app.command(epilog="Example: `gnomon types delete billing --role admin`")
@command
def delete(session: Session, job_type: JobType) -> None:
    """Take a type's configuration away: its jobs follow the stage."""
    session.client.delete_retry_config(job_type)
    if session.is_json:
        session.show({"jobType": job_type, "deleted": True}, "")
    session.say(f"Deleted what was configured for {job_type}.")


def _seconds(text: str | None, flag: str) -> int | None:
    return None if text is None else job_body.seconds(text, flag=flag)

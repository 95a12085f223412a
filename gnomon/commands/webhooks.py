"""`gnomon webhooks secret|rotate`: the key by which receivers verify the http calls of your jobs."""

from typing import Annotated

import typer
from rich.text import Text

from gnomon import job_body
from gnomon.commands.session import Session, command
from gnomon.display import webhook_key_details
from gnomon.safe_text import printable

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Read and rotate the key by which receivers verify the http calls of your jobs.",
)

Owner = Annotated[str, typer.Option(help="Another owner, for admins.", show_default="you")]


@app.command(epilog="Example: `export GNOMON_WEBHOOK_SECRET=$(gnomon webhooks secret)`")
@command
def secret(session: Session, owner: Owner = "me") -> None:
    """Print the secret, for your receivers. It is made where there is none yet."""
    key = session.client.get_webhook_key(owner)
    session.show(key, Text(printable(key["secret"]), no_wrap=True))


@app.command(epilog="Examples: `gnomon webhooks rotate`, and after a leak `gnomon webhooks rotate --keep-previous 0`")
@command
def rotate(
    session: Session,
    owner: Owner = "me",
    keep_previous: Annotated[
        str, typer.Option(metavar="TIME", help="How long the key before still signs, at most `24h`; `0` ends it.")
    ] = "24h",
) -> None:
    """Make a new key. The one before signs beside it, so that you can change your receivers one by one."""
    seconds = 0 if keep_previous == "0" else job_body.seconds(keep_previous, flag="--keep-previous")
    key = session.client.rotate_webhook_key(owner, keep_previous_seconds=seconds)
    session.show(key, webhook_key_details(key, session.now()))

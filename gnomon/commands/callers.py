"""`gnomon callers revoke|restore`: who may call the API at all."""

from typing import Annotated

import typer
from rich.text import Text

from gnomon.commands.session import Session, command
from gnomon.safe_text import printable

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Refuse a caller from now on, whatever tokens it holds, and let it in again. For admins.",
)

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A user's `sub`, or a machine's client id.")]


@app.command(epilog="Example: `gnomon callers revoke 0e4e5a64-9f0c-4c35-8d0b-3a1f6f1b2a77`")
@command
def revoke(session: Session, subject: Subject) -> None:
    """Refuse every request of a caller from now on. Its jobs go on running: pause or transfer them."""
    revoked = session.client.revoke_caller(subject)
    line = f"{revoked['subject']} is refused since {revoked['revokedAt']}."
    session.show(revoked, Text(printable(line), no_wrap=True))


@app.command(epilog="Example: `gnomon callers restore 0e4e5a64-9f0c-4c35-8d0b-3a1f6f1b2a77`")
@command
def restore(session: Session, subject: Subject) -> None:
    """Let a revoked caller in again."""
    session.client.restore_caller(subject)
    session.show({"subject": subject, "restored": True}, Text(printable(f"{subject} may call again."), no_wrap=True))

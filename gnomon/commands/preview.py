"""`gnomon preview`."""

from typing import Annotated

import typer

from gnomon.commands.session import Session, command
from gnomon.display import preview_table


@command
def preview(
    session: Session,
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="Cron expression, in quotes.")],
    timezone: Annotated[str | None, typer.Option(metavar="TZ", help="IANA zone; UTC if left out.")] = None,
    after: Annotated[str | None, typer.Option(metavar="INSTANT", help="Slots after this one; now if left out.")] = None,
    count: Annotated[int | None, typer.Option(help="How many slots.")] = None,
    job_id: Annotated[str | None, typer.Option(help="The job whose `H` fields are meant.")] = None,
) -> None:
    """Show when a cron expression is due next, daylight saving included."""
    found = session.client.preview(expression, timezone=timezone, after=after, count=count, job_id=job_id)
    session.show(found, preview_table(found, session.now()))


def add_to(app: typer.Typer) -> None:
    app.command("preview", epilog="Example: `gnomon preview '0 9 * * MON-FRI' --timezone Europe/Berlin`")(preview)

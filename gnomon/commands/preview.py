"""`gnomon preview`."""

from typing import Annotated, Any

import typer

from gnomon import calculation
from gnomon.commands.session import Screen, make_console, session_of, with_flags
from gnomon.display import preview_table
from gnomon.errors import NoStackError
from gnomon.shapes import Preview


@with_flags
def preview(
    flags: dict[str, Any],
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="Cron expression, in quotes.")],
    timezone: Annotated[str | None, typer.Option(metavar="TZ", help="IANA zone; UTC if left out.")] = None,
    after: Annotated[str | None, typer.Option(metavar="INSTANT", help="Slots after this one; now if left out.")] = None,
    count: Annotated[int | None, typer.Option(help="How many slots.")] = None,
    job_id: Annotated[str | None, typer.Option(help="The job whose `H` fields are meant.")] = None,
) -> None:
    """Show when a cron expression is due next, daylight saving included.

    The stack is asked. Where there is none, in the project's folder, it is calculated here.
    """
    try:
        with session_of(flags) as session:
            found = session.client.preview(expression, timezone=timezone, after=after, count=count, job_id=job_id)
            _show(session, found)
    except NoStackError as error:
        if not calculation.is_at_hand():
            advice = "Name a stack with --api-url, or run it in the project's folder, where it needs none."
            raise NoStackError(str(error), advice=advice) from error
        screen = Screen(console=make_console(), output=flags["output"])
        query = {"expression": expression, "timezone": timezone, "count": count, "jobId": job_id}
        _show(screen, calculation.preview({**query, "after": after or screen.now().isoformat(timespec="seconds")}))


def _show(screen: Screen, found: Preview) -> None:
    screen.show(found, preview_table(found, screen.now()))


def add_to(app: typer.Typer) -> None:
    app.command("preview", epilog="Example: `gnomon preview '0 9 * * MON-FRI' --timezone Europe/Berlin`")(preview)

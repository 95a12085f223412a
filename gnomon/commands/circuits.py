"""`gnomon circuits list|reset`: which targets are left alone because they keep failing."""

from typing import Annotated

import typer

from gnomon.commands.jobs import Cursor, Limit
from gnomon.commands.session import Session, command
from gnomon.display import circuits_table

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look at your circuits, and reset them: targets that keep failing are left alone for a while.",
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="As the list shows it, such as `handler:echo@team-billing`.")]


@app.command("list", epilog="Example: `gnomon circuits list`")
@command
def list_circuits(
    session: Session,
    owner: Annotated[str | None, typer.Option(help="Another owner's circuits; `*` for all your role may see.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List the circuits of targets that your jobs with a circuit breaker call."""
    found = session.client.list_circuits(owner=owner, cursor=cursor).take(limit)
    session.show(found, circuits_table(found["data"], session.now(), width=session.width))
    if not found["data"]:
        session.say("No circuit has counted anything yet.")


@app.command(epilog="Example: `gnomon circuits reset http:api.example.com:443@team-billing`")
@command
def reset(session: Session, key: Key) -> None:
    """Close a circuit: its target is called again at once. Runs that wait come back at the time they were given.

    You may reset your own circuits. Others, and those that all owners share, take the role admin.
    """
    circuit = session.client.reset_circuit(key)
    session.show(circuit, circuits_table([circuit], session.now(), width=session.width))

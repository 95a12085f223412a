"""`gnomon circuits list|reset`: which targets are left alone because they keep failing."""

from typing import Annotated

import typer

from gnomon.commands.jobs import Cursor, Limit
from gnomon.commands.session import Session, command
from gnomon.display import circuits_table

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look at circuits: targets that keep failing are left alone for a while. Resetting takes the role admin.",
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="As the list shows it, `http:api.example.com:443` say.")]


@app.command("list", epilog="Example: `gnomon circuits list`")
@command
def list_circuits(session: Session, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List the circuits of targets that jobs with a circuit breaker call."""
    found = session.client.list_circuits(cursor=cursor).take(limit)
    session.show(found, circuits_table(found["data"], session.now(), width=session.width))
    if not found["data"]:
        session.say("No circuit has counted anything yet.")


@app.command(epilog="Example: `gnomon circuits reset http:api.example.com:443 --role admin`")
@command
def reset(session: Session, key: Key) -> None:
    """Close a circuit: its target is called again at once. Runs that wait come back at the time they were given."""
    circuit = session.client.reset_circuit(key)
    session.show(circuit, circuits_table([circuit], session.now(), width=session.width))

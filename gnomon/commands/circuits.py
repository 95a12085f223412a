"""`gnomon circuits list|reset`: which targets are left alone because they keep failing."""

import itertools
from typing import Annotated

import typer

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
def list_circuits(
    session: Session, limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 50
) -> None:
    """List the circuits of targets that jobs with a circuit breaker call."""
    found = list(itertools.islice(session.client.list_circuits(page_size=min(limit, 100)), limit))
    session.show({"data": found}, circuits_table(found, session.now()))
    if not found:
        session.say("No circuit has counted anything yet.")


@app.command(epilog="Example: `gnomon circuits reset http:api.example.com:443 --role admin`")
@command
def reset(session: Session, key: Key) -> None:
    """Close a circuit: its target is called again at once. Runs that wait come back at the time they were given."""
    circuit = session.client.reset_circuit(key)
    session.show(circuit, circuits_table([circuit], session.now()))

"""What every command shares: the flags for connection and output, and how expected failures are shown."""

import enum
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from gnomon.display import printable
from gnomon.errors import GnomonApiError, GnomonError
from gnomon.stack_file import Connection, Role, connect
from gnomon.workflow_client import WorkflowClient

_PANEL = "Connection and output"


class Output(enum.StrEnum):
    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One call of the program."""

    client: WorkflowClient
    console: Console
    output: Output
    reconnect: Callable[[], Connection]
    """The connection once more, for those who outlive a token: the stack file may have a new one."""

    def now(self) -> datetime:
        """In the zone of this machine."""
        return datetime.now().astimezone()

    def show(self, document: Any, table: RenderableType) -> None:
        """The document with `--output json`, else the table."""
        if self.output is Output.JSON:
            print(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            self.console.print(table)

    def say(self, text: str) -> None:
        """A remark for people; never part of the JSON."""
        if self.output is Output.TABLE:
            self.console.print(text, markup=False, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flag:
    annotation: Any
    default: Any


_FLAGS = {
    "output": _Flag(
        annotation=Annotated[Output, typer.Option("--output", "-o", help="What is printed.", rich_help_panel=_PANEL)],
        default=Output.TABLE,
    ),
    "role": _Flag(
        annotation=Annotated[
            Role, typer.Option("--role", help="Whose token of the stack file is used.", rich_help_panel=_PANEL)
        ],
        default=Role.SCHEDULER,
    ),
    "stack": _Flag(
        annotation=Annotated[
            Path | None,
            typer.Option(
                "--stack",
                metavar="FILE",
                help="Stack file; else $GNOMON_STACK, else .local/stack.json here or above.",
                rich_help_panel=_PANEL,
            ),
        ],
        default=None,
    ),
    "api_url": _Flag(
        annotation=Annotated[
            str | None, typer.Option("--api-url", help="The API; else $GNOMON_API_URL.", rich_help_panel=_PANEL)
        ],
        default=None,
    ),
    "token": _Flag(
        annotation=Annotated[
            str | None,
            typer.Option(
                "--token",
                help="Access token; better in $GNOMON_TOKEN, where no process list shows it.",
                rich_help_panel=_PANEL,
            ),
        ],
        default=None,
    ),
}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose first parameter is its Session, the shared flags.

    What goes wrong as expected (GnomonError) is told on stderr without a traceback, and the program ends with 1.
    """
    own = list(inspect.signature(function).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=flag.default, annotation=flag.annotation)
        for name, flag in _FLAGS.items()
    ]

    @functools.wraps(function)
    def wrapper(**arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in _FLAGS}
        console = make_console()
        try:
            reconnect = functools.partial(
                connect,
                api_url=flags["api_url"],
                token=flags["token"],
                stack_file=flags["stack"],
                role=flags["role"],
                environment=os.environ,
                directory=Path.cwd(),
            )
            connection = reconnect()
            with WorkflowClient(connection.api_url, connection.token) as client:
                session = Session(client=client, console=console, output=flags["output"], reconnect=reconnect)
                function(session, **arguments)
        except GnomonError as error:
            tell(error)
            raise typer.Exit(1) from error

    parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *shared]
    # Typer reads both: the order and defaults from the one, the types from the other.
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # mypy knows no signature there
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def make_console(*, stderr: bool = False) -> Console:
    """Honours NO_COLOR and COLUMNS; a pipe gets wide lines, so that ids are never cut."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 200
    return Console(stderr=stderr, width=width, highlight=False)


def tell(error: GnomonError) -> None:
    """Say on stderr what went wrong, where, and what to do next."""
    console = make_console(stderr=True)
    say = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
    if isinstance(error, GnomonApiError):
        say(f"error: {printable(error.message)} ({error.code}, HTTP {error.status})", style="red")
        for problem in error.details:
            # With one problem the message names it already.
            if problem.message not in error.message:
                say(f"  {printable(problem.field)}: {printable(problem.message)}")
    else:
        say(f"error: {printable(error)}", style="red")
    if error.advice:
        say(error.advice)
    if isinstance(error, GnomonApiError) and error.request_id:
        say(f"request id: {printable(error.request_id)}", style="dim")

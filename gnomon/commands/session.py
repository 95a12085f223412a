"""What every command shares: the flags for connection and output, and how expected failures are shown."""

import contextlib
import enum
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from gnomon.display import fitted
from gnomon.errors import GnomonApiError, GnomonError, advice_for
from gnomon.lookup import Finder
from gnomon.safe_text import json_text, printable
from gnomon.stack_file import Connection, Role, connect
from gnomon.tokens import Tokens
from gnomon.workflow_client import WorkflowClient

_PANEL = "Connection and output"


class Output(enum.StrEnum):
    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where a command shows what it has."""

    console: Console
    output: Output

    @property
    def is_json(self) -> bool:
        return self.output is Output.JSON

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self.console.width

    def now(self) -> datetime:
        """In the zone of this machine."""
        return datetime.now().astimezone()

    def show(self, document: Any, table: RenderableType) -> None:
        """The document with `--output json`, else the table, which is as wide as the terminal only if it has to be."""
        if self.is_json:
            print(json_text(document, indent=2, encoding=sys.stdout.encoding))
            return
        self.console.print(fitted(table, self.console) if isinstance(table, Table) else table)

    def show_line(self, document: Any) -> None:
        """One JSON document of several, on a line of its own."""
        print(json_text(document, encoding=sys.stdout.encoding), flush=True)

    def say(self, text: str) -> None:
        """A remark for people; never part of the JSON."""
        if not self.is_json:
            self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Screen):
    """One call of the program, with the API."""

    client: WorkflowClient
    reconnect: Callable[[], Connection]
    """The connection once more, for those who outlive a stack: its file may name another."""
    tokens: Tokens
    jobs: Finder
    workflows: Finder


@contextlib.contextmanager
def session_of(flags: dict[str, Any]) -> Iterator[Session]:
    """A session with the stack that the flags, the environment or the folder name; raises UsageError."""
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
    tokens = connection.tokens(reconnect)
    with WorkflowClient(connection.api_url, tokens) as client:
        yield Session(
            console=make_console(),
            output=flags["output"],
            client=client,
            reconnect=reconnect,
            tokens=tokens,
            jobs=Finder(what="job", read=client.list_jobs, advice=advice_for(404, "jobs")),
            workflows=Finder(what="workflow", read=client.list_workflows, advice=advice_for(404, "workflows")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flag:
    annotation: Any
    default: Any


_FLAGS = {
    "output": _Flag(
        annotation=Annotated[
            Output,
            typer.Option("--output", "-o", help="What is printed; errors too are JSON then.", rich_help_panel=_PANEL),
        ],
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
    """Give a command, whose first parameter is its Session, the shared flags."""

    @functools.wraps(function)
    def run(flags: dict[str, Any], **arguments: Any) -> None:
        with session_of(flags) as session:
            function(session, **arguments)

    return with_flags(run)


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags that all share; its first parameter takes them.

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
        try:
            function(flags, **arguments)
        except GnomonError as error:
            tell(error, flags["output"])
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


def tell(error: GnomonError, output: Output = Output.TABLE) -> None:
    """Say on stderr what went wrong, where, and what to do next: in lines for people, or as one line of JSON."""
    if output is Output.JSON:
        print(json_text({"error": error_document(error)}, encoding=sys.stderr.encoding), file=sys.stderr)
        return
    say = functools.partial(make_console(stderr=True).print, markup=False, highlight=False, soft_wrap=True)
    if isinstance(error, GnomonApiError):
        say(f"error: {printable(error.message)} ({printable(error.code)}, HTTP {error.status})", style="red")
    else:
        say(f"error: {printable(error)}", style="red")
    for problem in error.details:
        # With one problem the message names it already.
        if problem.message not in str(error.args[0]):
            say(f"  {printable(problem.field)}: {printable(problem.message)}")
    if error.advice:
        say(printable(error.advice))
    if isinstance(error, GnomonApiError) and error.request_id:
        say(f"request id: {printable(error.request_id)}", style="dim")


def error_document(error: GnomonError) -> dict[str, Any]:
    """The error as the API writes errors, with its HTTP status, where it has one, and what to do next."""
    document: dict[str, Any] = {
        "code": error.code,
        "message": str(error.args[0]),
        "details": [detail._asdict() for detail in error.details],
    }
    if isinstance(error, GnomonApiError):
        document |= {"status": error.status, "requestId": error.request_id}
    return document | {"advice": error.advice}

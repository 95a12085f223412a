"""The program around its commands: its version, and what is told of a command line that makes no sense."""

import itertools
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer import rich_utils
from typer.core import TyperGroup

from gnomon import __version__
from gnomon.commands.session import Output, tell
from gnomon.errors import UsageError
from gnomon.safe_text import printable


class Program(TyperGroup):
    """Tells errors of usage as it tells all others: as JSON where that was asked for, and nothing raw."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **more: Any) -> Any:  # type: ignore[override]  # called with keywords only
        given = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(given, standalone_mode=False, **more)
        try:
            ended = super().main(given, standalone_mode=False, **more)
        except Exception as error:
            code = getattr(error, "exit_code", None)
            if code is None or not hasattr(error, "format_message"):
                raise
            _tell_usage(error, given)
            sys.exit(code)
        sys.exit(ended if isinstance(ended, int) else 0)


def _tell_usage(error: Any, given: Sequence[str]) -> None:
    if asks_for_json(given):
        tell(UsageError(error.format_message(), advice="`--help` shows what the command takes."), Output.JSON)
        return
    if isinstance(getattr(error, "message", None), str):
        error.message = printable(error.message)
    rich_utils.rich_format_error(error)


def asks_for_json(given: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, though it cannot be read as a whole."""
    pairs = itertools.pairwise([*given, ""])
    return any(
        word in ("-ojson", "-o=json", "--output=json") or (word in ("-o", "--output") and value == "json")
        for word, value in pairs
    )


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"gnomon {__version__}")
        raise typer.Exit


def program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Schedule jobs on a Gnomon stack: cron, interval or one-time; retried, recorded, never lost."""

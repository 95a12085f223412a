"""`gnomon worker`."""

import importlib
import inspect
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from gnomon.commands.session import Session, command
from gnomon.errors import UsageError
from gnomon.safe_text import printable
from gnomon.work_client import WorkClient
from gnomon.worker import Run, Worker


@command
def worker(
    session: Session,
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Called as function(payload, run).")],
    queue: Annotated[list[str], typer.Option("--queue", "-q", help="Take from this queue; repeat it for more.")],
    concurrency: Annotated[int, typer.Option(min=1, max=100, help="Executions at the same time.")] = 1,
    name: Annotated[str, typer.Option(help="What the worker is called in lists.")] = "",
) -> None:
    """Run a Python function for executions of `worker` targets, until SIGTERM or Ctrl-C: then finish what runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)

    def connect() -> WorkClient:
        return WorkClient(session.reconnect().api_url, session.tokens)

    work = Worker(connect, loaded(function), queues=queue, name=name, concurrency=concurrency)

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        work.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        work.run()
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)
    session.say("Done: nothing runs any more.")


class SafeFormatter(logging.Formatter):
    """Lines of a log on a terminal: what others wrote is in them, and does not steer it."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")


def loaded(path: str) -> Callable[[Any, Run], Any]:
    """The function named `module:function`, looked for in the current folder too; raises UsageError."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise UsageError(f"{path!r} is no MODULE:FUNCTION.", advice="For example: reports.build:build")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{path} cannot be imported: {error}.") from error
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise UsageError(f"{path} is no plain function.", advice="It is called as function(payload, run).")
    return function  # type: ignore[no-any-return]  # whatever the module has there


def add_to(app: typer.Typer) -> None:
    app.command("worker", epilog="Example: `gnomon worker --queue reports reports:build --concurrency 4`")(worker)

"""The `gnomon` program: composes the commands.

Exit codes: 0 done; 1 refused, failed or unusable input (stderr says what and what to do next); 2 unknown flags; 130
ended by Ctrl-C.
"""

from __future__ import annotations

import io
import sys

import typer

from gnomon.commands import (
    callers,
    circuits,
    create,
    job_types,
    jobs,
    preview,
    program,
    watch,
    webhooks,
    worker,
    workflow,
)

app = typer.Typer(
    name="gnomon",
    cls=program.Program,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog="The stack is taken from `.local/stack.json` (`make up` writes it), or GNOMON_API_URL with GNOMON_TOKEN, or "
    "with GNOMON_CLIENT_ID, GNOMON_CLIENT_SECRET and GNOMON_TOKEN_URL.",
)
app.callback()(program.program)
create.add_to(jobs.app)
watch.add_to(jobs.app)
app.add_typer(jobs.app, name="jobs")
app.add_typer(workflow.app, name="workflow")
app.add_typer(job_types.app, name="types")
app.add_typer(circuits.app, name="circuits")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(callers.app, name="callers")
preview.add_to(app)
worker.add_to(app)


def main() -> None:
    """Entry point of the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()

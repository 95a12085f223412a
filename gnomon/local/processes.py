"""Runs the tools: output goes to a log, and is shown where a tool fails. Standard library only."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.local.report import LocalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHOWN_LINES = 40


def run(
    command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str], directory: Path, advice: str = ""
) -> None:
    """Run to the end; raises LocalError with the end of the output when it fails or cannot start."""
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(part) for part in command]
    with log.open("wb") as output:
        try:
            # An end of this process by Ctrl-C reaches the tool too: it stays in the same process group.
            ended = subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=directory,
                check=False,
            )
        except OSError as error:
            raise LocalError(f"{arguments[0]} could not be started: {error}", advice) from error
    if ended.returncode != 0:
        name = " ".join(Path(arguments[0]).name if index == 0 else part for index, part in enumerate(arguments[:3]))
        raise LocalError(f"`{name} …` ended with {ended.returncode}:\n{tail(log)}\n(all of it: {log})", advice)


def tail(log: Path, lines: int = SHOWN_LINES) -> str:
    """The last lines of a log, indented."""
    if not log.exists():
        return "  (no output)"
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in text[-lines:]) or "  (no output)"

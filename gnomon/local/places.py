"""Where everything of the local run lives: all of it under `.local/`, apart for each port. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.local.report import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".local"
DEFAULT_PORT = 4566


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One local stack: its port on loopback and its files."""

    port: int
    directory: Path
    """State, logs and passwords of this stack: all that is removed with it."""
    stack_file: Path
    """What tests, CLI and scripts read: address, tokens, outputs. Mode 0600."""

    @property
    def endpoint(self) -> str:
        """The emulator's address, where AWS's would be."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def emulator_log(self) -> Path:
        return self.directory / "emulator.log"


def place(environment: Mapping[str, str] | None = None) -> Place:
    """The stack that GNOMON_PORT and GNOMON_STACK name; raises LocalError for a port that is none."""
    source = os.environ if environment is None else environment
    text = source.get("GNOMON_PORT") or str(DEFAULT_PORT)
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65535:
        raise LocalError(f"GNOMON_PORT is {text!r}; a port between 1024 and 65535 is needed")
    return at(int(text), stack_file=source.get("GNOMON_STACK"))


def at(port: int, *, stack_file: str | None = None) -> Place:
    """The place of a port, its stack file where everybody looks for it or elsewhere."""
    directory = LOCAL / str(port)
    usual = LOCAL / "stack.json" if port == DEFAULT_PORT else directory / "stack.json"
    return Place(port=port, directory=directory, stack_file=Path(stack_file).absolute() if stack_file else usual)


def all_places() -> list[Place]:
    """Every place of this folder that something was started at."""
    return [at(int(folder.name)) for folder in sorted(LOCAL.glob("*")) if folder.name.isdigit() and folder.is_dir()]


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Wait until nobody else of this folder does the same."""
    locks = LOCAL / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""Finds the process of a function by the connection it holds. Needs /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from gnomon.local import emulator
from gnomon.local.places import Place

_PROC = Path("/proc")


def kill_process_at(port: int, *, of: Place) -> None:
    """SIGKILL for the child of this place's emulator whose connection to 127.0.0.1 comes from `port`; no other."""
    if not (_PROC / "net/tcp").exists():
        pytest.skip("a process is found by its connection in /proc, which this system does not have")
    running = emulator.find(of)
    assert running is not None, "the emulator is not one of this folder"
    inode = _inode(port)
    holders = [pid for pid in _children(running.pid) if _holds(pid, inode)]
    assert len(holders) == 1, f"processes with the connection from port {port}: {holders}"
    os.kill(holders[0], signal.SIGKILL)


def _inode(port: int) -> str:
    local = f"0100007F:{port:04X}"
    for line in (_PROC / "net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == local:
            return fields[9]
    raise AssertionError(f"there is no connection from port {port}")


def _children(parent: int) -> list[int]:
    found = []
    for folder in _PROC.iterdir():
        # Processes end while they are read.
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(int(folder.name))
    return found


def _holds(pid: int, inode: str) -> bool:
    with contextlib.suppress(OSError):
        return any(str(fd.readlink()) == f"socket:[{inode}]" for fd in (_PROC / str(pid) / "fd").iterdir())
    return False

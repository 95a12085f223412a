"""Finds the processes of a function by the connection one holds, or by the function's name. Needs /proc."""

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
    children = _functions(of)
    inode = _inode(port)
    holders = [pid for pid in children if _holds(pid, inode)]
    assert len(holders) == 1, f"processes with the connection from port {port}: {holders}"
    os.kill(holders[0], signal.SIGKILL)


def processes_of(function: str, *, of: Place) -> list[int]:
    """The processes that run this function at this place: busy ones and idle ones."""
    name = f"AWS_LAMBDA_FUNCTION_NAME={function}".encode()
    return [pid for pid in _functions(of) if name in _environment(pid)]


def kill(pids: list[int]) -> None:
    """SIGKILL for each of them, at once; one that has ended by itself is none to end."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _functions(of: Place) -> list[int]:
    if not (_PROC / "net/tcp").exists():
        pytest.skip("a function's process is found in /proc, which this system does not have")
    running = emulator.find(of)
    assert running is not None, "the emulator is not one of this folder"
    return _children(running.pid)


def _environment(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return []


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

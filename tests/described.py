"""Schemathesis, asking an API that runs whether it answers as its own description promises.

running = begin(url, tmp_path, token, phases=("examples", "coverage"), examples=5)
must_find_nothing({"admin": running}, seconds=120)
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
WAITS = "pollWorker"
"""Its answers wait up to 20 s for work, which no example brings: tests/e2e/test_workers.py asks it."""
SEED = 20_270_115
CONFIG = """
headers = { Authorization = "Bearer ${TOKEN}" }
"""
"""The token is in the environment alone: a command line is shown where a process fails or takes too long."""
NO_BODIES = """
[[operations]]
include-method = ["POST", "PUT", "PATCH"]
phases.coverage.enabled = false
"""
"""Of a thousand variations of each body (the phase `coverage`)."""


def begin(
    url: str,
    directory: Path,
    token: str,
    *,
    phases: Sequence[str],
    examples: int,
    checks: Sequence[str] = CHECKS,
    bodies: bool = True,
) -> subprocess.Popen[str]:
    """A process of one thread: with several, CPython 3.11 may fail in `ast.parse`."""
    directory.mkdir()
    config = directory / "schemathesis.toml"
    config.write_text(CONFIG + NO_BODIES * (not bodies), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        f"--config-file={config}",
        "run",
        f"{url}/openapi.json",
        f"--url={url}",
        f"--checks={','.join(checks)}",
        f"--max-examples={examples}",
        f"--seed={SEED}",
        f"--exclude-operation-id={WAITS}",
        f"--phases={','.join(phases)}",
        "--no-shrink",
        "--generation-database=none",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "NO_PROXY": "127.0.0.1", "LANG": "C.UTF-8"}
    return subprocess.Popen(
        command,
        cwd=directory,
        env=environment | {"TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def must_find_nothing(running: Mapping[str, subprocess.Popen[str]], tokens: Mapping[str, str], *, seconds: int) -> None:
    """Wait for all of them; what one has found, or has said until its time was over, is shown without its token."""
    ends, bad = time.monotonic() + seconds, []
    try:
        for role, process in running.items():
            try:
                said, problem = process.communicate(timeout=max(0.1, ends - time.monotonic()))[0], "found something"
            except subprocess.TimeoutExpired:
                process.kill()
                said, problem = process.communicate()[0], f"took more than {seconds} s"
            said = said.replace(tokens[role], "<token>")
            print(f"{role}: {said.rstrip().splitlines()[-1]}")
            if process.returncode != 0:
                bad.append(f"{role} {problem}:\n{said[-8000:]}")
    finally:
        for process in running.values():
            process.kill()
    assert not bad, "\n".join(bad)

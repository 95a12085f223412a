"""What the API answers is what its own description promises, whatever is asked: schemathesis with each role."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
EXAMPLES = 15
WAITS = "pollWorker"
"""Its answers wait up to 20 s for work, which no example brings: tests/e2e/test_workers.py asks it."""
SEED = 20_270_115
LONGEST = 420
"""Seconds."""


@pytest.mark.timeout(LONGEST + 20)
def test_schemathesis_finds_nothing(stack: Stack, tmp_path: Path) -> None:
    """The roles side by side, each in a process of one thread: with several, CPython 3.11 may fail in `ast.parse`."""
    running = {role: begin(stack, role, tmp_path / role) for role in stack.tokens}
    try:
        found = {role: process.communicate(timeout=LONGEST)[0] for role, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    for role, said in found.items():
        print(f"{role}: {said.rstrip().splitlines()[-1]}")
    bad = {role: said for role, said in found.items() if running[role].returncode != 0}
    assert not bad, "\n".join(f"{role}:\n{said[-8000:]}" for role, said in bad.items())


def begin(stack: Stack, role: str, directory: Path) -> subprocess.Popen[str]:
    directory.mkdir()
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{stack.api_url}/openapi.json",
        f"--url={stack.api_url}",
        f"--header=Authorization: Bearer {stack.tokens[role]}",
        f"--checks={','.join(CHECKS)}",
        f"--max-examples={EXAMPLES}",
        f"--seed={SEED}",
        f"--exclude-operation-id={WAITS}",
        "--phases=examples,coverage,fuzzing,stateful",
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
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

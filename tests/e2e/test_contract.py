"""What the API answers is what its own description promises, whatever is asked: schemathesis with each role."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
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
EXAMPLES = 25
SEED = 20_270_115
LONGEST = 100
"""Seconds for each role: five minutes in all."""


@pytest.mark.timeout(LONGEST + 20)
@pytest.mark.parametrize("role", ["admin", "scheduler", "viewer"])
def test_schemathesis_finds_nothing(
    stack: Stack, role: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{stack.api_url}/openapi.json",
        f"--header=Authorization: Bearer {stack.tokens[role]}",
        f"--checks={','.join(CHECKS)}",
        f"--max-examples={EXAMPLES}",
        f"--seed={SEED}",
        "--phases=examples,coverage,fuzzing",
        "--no-shrink",
        "--generation-database=none",
        "--continue-on-failure",
        "--workers=2",
        "--no-color",
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_PROXY": "127.0.0.1", "LANG": "C.UTF-8"}
    started = time.monotonic()
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
    )
    record_property("seconds", round(time.monotonic() - started, 1))
    print(ran.stdout[-3000:])
    assert ran.returncode == 0, f"{ran.stdout[-8000:]}\n{ran.stderr[-2000:]}"

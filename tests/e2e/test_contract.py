"""What the API answers is what its own description promises, whatever is asked: schemathesis with each role.

The thousands of variations of bodies are asked in memory, by tests/unit/test_api_described.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.described import CHECKS, begin, must_find_nothing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e

EXAMPLES = 5
LONGEST = 360
"""Seconds, on a machine that is busy: it takes a third of that alone."""
THOROUGH = "scheduler"
"""The role that asks for variations of paths, queries, headers and methods, too: the gateway treats all alike."""


@pytest.mark.timeout(LONGEST + 20)
def test_schemathesis_finds_nothing(stack: Stack, tmp_path: Path) -> None:
    """The roles side by side."""
    running = {
        role: begin(
            stack.api_url,
            tmp_path / role,
            token,
            phases=("examples", *["coverage"] * (role == THOROUGH), "fuzzing", "stateful"),
            examples=EXAMPLES,
            checks=(*CHECKS, "ignored_auth"),
            bodies=False,
        )
        for role, token in stack.tokens.items()
    }
    must_find_nothing(running, stack.tokens, seconds=LONGEST)

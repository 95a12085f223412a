"""What the API answers is what its own description promises, whatever is asked: schemathesis on the API in memory.

tests/e2e/test_contract.py asks the gateway, and all behind it, with fewer examples.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.described import begin, must_find_nothing
from tests.driver import Driver
from tests.fakes import InMemoryRateLimits, World
from tests.gateway import CLAIMS, Gateway
from tests.served import served

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = 20
LONGEST = 900
"""Seconds, on a machine that is busy: it takes a minute alone."""
NO_LIMIT = 10**6
TOKEN = "no-token"
PHASES = ("examples", "coverage", "fuzzing", "stateful")


@pytest.mark.slow
@pytest.mark.timeout(LONGEST + 20)
@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("role", "bodies"),
    [pytest.param("admin", True, marks=pytest.mark.nightly), ("scheduler", False), ("viewer", False)],
)
def test_schemathesis_finds_nothing(tmp_path: Path, role: str, bodies: bool) -> None:
    world = World()
    world.limits = InMemoryRateLimits(
        reads_per_minute=NO_LIMIT, writes_per_minute=NO_LIMIT, work_per_minute=NO_LIMIT, creations_per_day=NO_LIMIT
    )
    with served(Gateway(Driver(world), CLAIMS | {"cognito:groups": f"[{role}]"})) as url:
        running = {role: begin(url, tmp_path / role, TOKEN, phases=PHASES, examples=EXAMPLES, bodies=bodies)}
        must_find_nothing(running, {role: TOKEN}, seconds=LONGEST)


def _saying(what: str, code: int = 0, *, seconds: float = 0) -> subprocess.Popen[str]:
    program = f"import sys, time; print({what!r}, flush=True); time.sleep({seconds}); sys.exit({code})"
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_a_finding_is_shown_without_the_token() -> None:
    running = {"admin": _saying("curl -H 'Bearer abc.def' is bad", 1), "viewer": _saying("well")}
    with pytest.raises(AssertionError, match="admin found something:\ncurl -H 'Bearer <token>' is bad"):
        must_find_nothing(running, {"admin": "abc.def", "viewer": "x"}, seconds=60)


def test_what_takes_too_long_is_shown_without_the_token() -> None:
    running = {"admin": _saying("with abc.def", seconds=60)}
    with pytest.raises(AssertionError, match="admin took more than 3 s:\nwith <token>"):
        must_find_nothing(running, {"admin": "abc.def"}, seconds=3)


def test_the_token_is_in_no_command_line(tmp_path: Path) -> None:
    process = begin("http://127.0.0.1:1", tmp_path / "viewer", "abc.def", phases=("examples",), examples=1)
    process.kill()
    process.communicate()
    assert not any("abc.def" in argument for argument in process.args)  # type: ignore[union-attr]

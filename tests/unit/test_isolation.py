"""Tests stand alone: what one of them leaves behind, and the order in which they run, changes no other."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from functions import telemetry
from functions.domain.ids import new_job_id, new_manual_slot_id, new_write_id
from tests.factories import NOW, new_id

ROOT = Path(__file__).parents[2]
SEED = "17"


def test_a_logger_made_in_a_test_that_is_over_still_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "isolation")  # the logger of no other test
    telemetry.logger.cache_clear()
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        telemetry.logger().warning("in the first")
    stream.close()
    telemetry.logger().warning("in the second")
    telemetry.logger().registered_handler.flush()
    telemetry.logger.cache_clear()
    shown = capsys.readouterr()
    assert "in the second" in shown.out
    assert "Logging error" not in shown.err


IDS_OF_A_RUN: list[str] = []


@pytest.mark.parametrize("time", ["first", "second"])
def test_ids_of_two_tests_differ(time: str) -> None:
    drawn = [new_id(), new_job_id(), new_write_id(), new_manual_slot_id(NOW), str(uuid.uuid4()), secrets.token_hex(8)]
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & set(IDS_OF_A_RUN)
    IDS_OF_A_RUN.extend(drawn)


def collected(*arguments: str) -> list[str]:
    """Names of the tests in the order in which they would run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_end_to_end_tests_keep_their_order() -> None:
    """They are ordered on purpose (tests/e2e/conftest.py); all others run as the printed seed has it."""
    modules = ("test_kills", "test_far_jobs", "test_hints", "test_jobs")
    paths = [*(f"tests/e2e/{name}.py" for name in modules), "tests/unit/test_step.py"]
    runs = [collected(*paths, "-p", "no:randomly"), collected(*paths, f"--randomly-seed={SEED}")]
    ours = [[name for name in names if "/e2e/" in name] for names in runs]
    others = [[name for name in names if "/e2e/" not in name] for names in runs]
    assert ours[0] == ours[1]
    assert "test_far_jobs" in ours[0][0]
    assert "test_kills" in ours[0][-1]
    assert others[0] != others[1]
    assert sorted(others[0]) == sorted(others[1])

"""Starts Locust in a process of its own on a list of requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.load.story import Answered, Request, save
from gnomon.local import aws
from gnomon.local.places import ROOT

_LOCUSTFILE = Path(__file__).with_name("locustfile.py")


def play(
    requests: Sequence[Request], *, users: int, token: str, folder: Path, name: str, seconds: float
) -> list[Answered]:
    """Every answer, in the order in which they came; requests that `seconds` leave unsent or unanswered are not in it.

    `users` requests are under way at a time.
    """
    asked, results = folder / f"{name}.json", folder / f"{name}.jsonl"
    save(requests, asked)
    results.write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "locust", "--headless", "--only-summary", "--skip-log-setup"]
    options = [f"--locustfile={_LOCUSTFILE}", f"--users={users}", f"--spawn-rate={users}"]
    told = aws.without_aws(dict(os.environ)) | {
        "PYTHONPATH": str(ROOT),
        "LOAD_TOKEN": token,
        "LOAD_REQUESTS": str(asked),
        "LOAD_RESULTS": str(results),
    }
    with (folder / f"{name}.log").open("wb") as log:
        # Locust ends with 1 when a request failed: the answers say more.
        subprocess.run(
            [*command, *options, f"--run-time={max(1, int(seconds))}s", "--stop-timeout=1"],
            env=told,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return [Answered(**json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]

"""`make load`: on the stack that is up, or else on one of its own, which is removed again."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

from bench.__main__ import show
from bench.load import story
from bench.load.echo import echo
from bench.load.run import Load, Outcome, Size
from bench.load.target import Target
from bench.machine import machine
from bench.tables import Table
from gnomon.errors import GnomonError
from gnomon.local import aws, emulator, stack
from gnomon.local.places import LOCAL, Place, at, place
from gnomon.local.report import LocalError, exit_code

MOST_JOBS, MOST_USERS = 3_000, 48
"""The emulator keeps a process of some 70 MB for each request that was ever under way at once, and one for its echo."""
SHOWN = 5
FOLDER = LOCAL / "load"
"""What was asked and answered, and what Locust said."""


def load(size: Size, console: Console) -> None:
    """Run it and show what came of it; raises LocalError when something was lost."""
    running = place()
    own = emulator.find(running) is None
    where = _place_of_its_own() if own else running
    signal.signal(signal.SIGTERM, _end)
    try:
        if own:
            stack.up(where)
        outcome = _on(where, size)
    except GnomonError as error:
        raise LocalError(f"the jobs could not be read: {error}", f"What was asked and answered: {FOLDER}") from error
    finally:
        if own:
            emulator.remove(where)
    console.print(machine(), highlight=False)
    show(console, latencies(outcome))
    show(console, verdicts(outcome))
    if not all(verdict.holds for verdict in outcome.verdicts):
        raise LocalError("the load lost something", f"What was asked and answered: {FOLDER}")


def _on(where: Place, size: Size) -> Outcome:
    content = json.loads(where.stack_file.read_text(encoding="utf-8"))
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Target().listening() as target, echo(content["awsEndpointUrl"], content["outputs"]) as address:
        return Load(stack=content, echo=address, target=target, size=size, folder=FOLDER).run()


def latencies(outcome: Outcome) -> Table:
    """Milliseconds of each request beside those of the bare function that got the same body in the same run."""
    rows = []
    for name in (story.BULK, story.SINGLE, story.RETRY):
        ours, floor = (_milliseconds(outcome, prefix + name) for prefix in ("", story.FLOOR))
        if not ours or not floor:
            continue
        rows.append((name, str(len(ours)), *(f"{value:.0f}" for value in (*ours_and(ours), *ours_and(floor)))))
        rows[-1] += tuple(f"{a / b:.1f}" for a, b in zip(ours_and(ours), ours_and(floor), strict=True))
    return Table(
        "Latencies under load, ms",
        ("request", "count", "median", "p99", "echo, median", "echo, p99", "ratio of medians", "ratio of p99"),
        rows,
        [
            f"creations under way at once, at most: {outcome.creations_at_once}",
            f"forced retries under way at once, at most: {outcome.retries_at_once}",
            *(
                f"{what}: {count} attempts within {spent:.0f} s after they were due"
                for what, count, spent in outcome.runs
            ),
            f"calls of an attempt that had been called: {outcome.repeated} (allowed: calls are at least once)",
        ],
    )


def ours_and(values: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile."""
    if len(values) == 1:
        return values[0], values[0]
    return statistics.median(values), statistics.quantiles(values, n=100, method="inclusive")[98]


def verdicts(outcome: Outcome) -> Table:
    return Table(
        "What must hold",
        ("what", "verdict"),
        [
            (verdict.what, "holds" if verdict.holds else f"{len(verdict.found)} against it")
            for verdict in outcome.verdicts
        ],
        [line for verdict in outcome.verdicts for line in verdict.found[:SHOWN]],
    )


def _milliseconds(outcome: Outcome, name: str) -> list[float]:
    return [(one.ended - one.sent) * 1000 for one in outcome.answers if one.name == name and 200 <= one.status < 300]


def _place_of_its_own() -> Place:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return at(port)


def _end(_signal: int, _frame: object) -> NoReturn:
    sys.exit(143)  # so that what was started is ended on the way out


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000, help="created at once; half as many retries are forced")
    parser.add_argument("--users", type=int, default=16, help="single requests under way at a time")
    parser.add_argument("--seconds", type=float, default=240, help="for all of it, without starting the stack")
    chosen = parser.parse_args()
    for name, value, least, most in (("jobs", chosen.jobs, 10, MOST_JOBS), ("users", chosen.users, 1, MOST_USERS)):
        if not least <= value <= most:
            parser.error(f"--{name} is {value}; {least} to {most} are possible")
    aws.forget_accounts(os.environ)
    size = Size(jobs=chosen.jobs, users=chosen.users, seconds=chosen.seconds)
    return exit_code(lambda: load(size, Console()))


if __name__ == "__main__":
    sys.exit(main())

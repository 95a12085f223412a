"""Stories in which consumers do not run, or fail at every hint, for hours; or fail at one job's hints, always."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from tests.factories import make_document
from tests.simulation.actors import Nature, Weather
from tests.simulation.plan import BASES, RETRIES, Action, Plan

SHARE = 0.15
"""Of the stories of jobs."""
LENGTH = 9 * 3_600
LONG_ENOUGH = 3 * 3_600
"""Seconds after which a job that consumers fail at is quarantined: an hour until it is due, ten wakes, their ticks."""
SCHEDULES: list[dict[str, Any]] = [
    {"type": "interval", "everySeconds": 300},
    {"type": "interval", "everySeconds": 900},
    {"type": "interval", "everySeconds": 3_600},
    {"type": "cron", "expression": "*/5 * * * *"},
    {"type": "cron", "expression": "0 * * * *"},
    {"type": "cron", "expression": "20 */2 * * *"},
]
OFTEN: dict[str, Any] = {"type": "interval", "everySeconds": 600}


def is_one(seed: int) -> bool:
    """Whether the story of this seed is of an outage."""
    return random.Random(f"{seed}/outages").random() < SHARE


def outage(seed: int) -> Plan:
    """The story of a seed."""
    choose = random.Random(f"{seed}/outage")
    base = BASES["winter"]
    nature = Nature(
        faults=choose.choice([0, 0, 0, 0.002]),
        messages=choose.choice([0, 0, 0.05]),
        fails=choose.choice([0, 0.2]),
        hangs=0,
        skewed=choose.random() < 0.8,
    )
    poison = choose.random() < 0.35
    documents = [_document(choose, base) for _ in range(choose.choice([1, 2, 3, 6]))]
    if poison:
        documents[0] |= {"schedule": choose.choice(SCHEDULES[:5]), "priority": "normal"}
        documents += [_document(choose, base) | {"schedule": OFTEN, "priority": "normal"} for _ in range(2)]
    actions = [
        # A poisonous row's is made first, so that its name is known.
        Action(f"a{number} create", "create", number, base + 1 + 2.0 * number, None, document, True)
        for number, document in enumerate(documents)
    ]
    if not poison:
        actions += _actions(choose, documents, base)
    weather = _poison(choose, base) if poison else _weather(choose, base)
    return Plan(seed, base, base + LENGTH, nature, weather, actions)


def _document(choose: random.Random, base: int) -> dict[str, Any]:
    schedule = choose.choice(SCHEDULES)
    if choose.random() < 0.25:
        at = base + choose.randrange(60, LENGTH)
        schedule = {"type": "once", "at": datetime.fromtimestamp(at, UTC).isoformat()}
    return make_document(
        schedule=schedule,
        overlapPolicy=choose.choice(["skip", "skip", "allow", "queue"]),
        misfirePolicy=choose.choice(["run_once", "skip", "run_all"]),
        retryConfig=choose.choice([*RETRIES, {"maxRetries": 3, "initialDelaySeconds": 900, "maxDelaySeconds": 3_600}]),
        timeoutSeconds=choose.choice([5, 60]),
        priority=choose.choice(["normal", "normal", "normal", "low"]),
    )


def _actions(choose: random.Random, documents: list[dict[str, Any]], base: int) -> list[Action]:
    found = []
    for number in range(choose.choice([0, 0, 2, 6])):
        kind = choose.choice(["pause", "resume", "resume", "execute", "retry", "retry", "touch", "change"])
        job, at = choose.randrange(len(documents)), base + 60 + choose.random() * LENGTH * 0.9
        document = _document(choose, base) if kind == "change" else None
        found.append(Action(f"a{100 + number} {kind}", kind, job, at, None, document))
        if kind == "pause":
            found.append(Action(f"a{200 + number} resume", "resume", job, at + choose.choice([100, 5_000])))
    return found


def _weather(choose: random.Random, base: int) -> list[Weather]:
    found, begins = [], base + choose.choice([10, 600, 3_700])
    for number in range(choose.choice([1, 1, 2, 3])):
        kind = choose.choice(["consumers", "release"]) + choose.choice(["", "", "", " low", " normal"])
        begins += choose.random() * 3_600
        ends = begins + choose.choice([1_200, 6_500, 9_000, 10_800, 18_000])
        found.append(Weather(f"weather{number} {kind}", kind, begins, min(ends, base + LENGTH)))
        begins = ends + choose.choice([5, 60, 600, 2_000])
        if begins > base + LENGTH - 600:
            break
    return found


def _poison(choose: random.Random, base: int) -> list[Weather]:
    begins = base + choose.choice([2, 1_000, 4_000])
    ends = begins + choose.choice([LONG_ENOUGH, LONG_ENOUGH + 3_600, 20_000])
    return [Weather("weather0 poison j0", "poison j0", begins, ends)]

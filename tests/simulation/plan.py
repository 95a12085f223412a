"""What is planned in a story, drawn from its seed: jobs, what callers do to them, the weather."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tests.factories import make_document
from tests.simulation.actors import Nature, Weather
from tests.simulation.kinds import type_of
from tests.simulation.slots import slots_between

BASES = {
    "winter": 1_800_000_000,
    "New York, spring": 1_804_993_200,
    "New York, autumn": 1_825_552_800,
    "Lord Howe, autumn": 1_806_750_000,
    "Lord Howe, spring": 1_822_476_600,
}
"""A few hours before clocks change (2027), and a day on which nothing changes."""

HOT_SCHEDULES: list[dict[str, Any]] = [
    {"type": "interval", "everySeconds": 10},
    {"type": "interval", "everySeconds": 25},
    {"type": "interval", "everySeconds": 60},
    {"type": "interval", "everySeconds": 120},
    {"type": "cron", "expression": "* * * * *"},
    {"type": "cron", "expression": "*/3 * * * *"},
]
DAY_SCHEDULES: list[dict[str, Any]] = [
    {"type": "interval", "everySeconds": 900},
    {"type": "interval", "everySeconds": 3600},
    {"type": "interval", "everySeconds": 5000},
    {"type": "cron", "expression": "*/20 * * * *", "timezone": "Europe/Berlin"},
    {"type": "cron", "expression": "30 2 * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "0,30 1,2,3 * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "15 * * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "*/30 1,2,3 * * *", "timezone": "America/New_York"},
    {"type": "cron", "expression": "10 2 * * *", "timezone": "Australia/Lord_Howe"},
    {"type": "cron", "expression": "0,40 1,2 * * *", "timezone": "Australia/Lord_Howe"},
    {"type": "cron", "expression": "*/15 * * * *", "timezone": "Australia/Lord_Howe"},
]
RETRIES: list[dict[str, Any]] = [
    {"maxRetries": 0},
    {"maxRetries": 1, "initialDelaySeconds": 1, "jitter": 0},
    {"maxRetries": 2, "initialDelaySeconds": 5},
    {"maxRetries": 3, "initialDelaySeconds": 10, "multiplier": 3, "maxDelaySeconds": 60, "jitter": 1},
    {"maxRetries": 3, "initialDelaySeconds": 20, "backoffStrategy": "linear", "retryWindowSeconds": 100},
    {"maxRetries": 2, "initialDelaySeconds": 30, "backoffStrategy": "fixed", "retryWindowSeconds": 200, "jitter": 0.5},
]


@dataclass(frozen=True)
class Action:
    """Something a caller does. `at` is an instant, or the number of a write of a row in whose middle it comes."""

    id: str
    kind: str
    job: int
    at: float | None
    write: int | None = None
    document: dict[str, Any] | None = None
    enabled: bool | None = None
    seconds: int = 0
    team: str = ""
    """Who asks, and owns what it creates; the administrator where it is empty."""


@dataclass
class Plan:
    seed: int
    base: int
    ends: float
    """When faults and callers end; the story goes on until all has settled."""
    nature: Nature
    weather: list[Weather]
    actions: list[Action]


def plan(seed: int) -> Plan:
    """The story of a seed."""
    other = random.Random(f"{seed}/short lives")
    if other.random() < 0.12:
        return _short_lives(seed, other)
    other = random.Random(f"{seed}/spread out")
    if other.random() < 0.1:
        return _spread_out(seed, other)
    other = random.Random(f"{seed}/crowded")
    if other.random() < 0.12:
        return _bursts(seed, other)
    choose = random.Random(f"{seed}/plan")
    hot = choose.random() < 0.55
    base = BASES["winter"] if hot else choose.choice(list(BASES.values()))
    length = choose.choice([600, 1200, 2400]) if hot else choose.choice([8, 24, 24, 48]) * 3600
    faults = choose.choice([0, 0, 0.004, 0.015, 0.05])
    nature = Nature(
        faults=faults,
        stalls=faults / 2,
        messages=choose.choice([0, 0, 0.05, 0.3]),
        fails=choose.choice([0, 0.2, 0.6]),
        hangs=choose.choice([0, 0, 0.05]),
        skewed=choose.random() < 0.8,
    )
    documents = [_document(choose, hot, base, length) for _ in range(choose.choice([1, 1, 2] if hot else [1, 2, 3, 4]))]
    actions = [
        Action(
            f"a{number} create",
            "create",
            number,
            base + 1 + choose.random() * 3,
            None,
            document,
            choose.random() > 0.05,
        )
        for number, document in enumerate(documents)
    ]
    for number in range(choose.choice([0, 3, 8, 16])):
        actions += _action(choose, len(documents) + 2 * number, documents, hot, base, length, actions)
    _listen(random.Random(f"{seed}/alarms"), actions, hot)
    _orchestrate(random.Random(f"{seed}/machine"), actions)
    _sort(random.Random(f"{seed}/types"), actions)
    return Plan(seed, base, base + length, nature, _weather(choose, base, length), actions)


def _short_lives(seed: int, choose: random.Random) -> Plan:
    """One-time jobs whose owners stall and die, and whose callers cancel: who ends an attempt that others end, too?"""
    base, length = BASES["winter"], 600
    actions = []
    for number in range(6):
        at = base + 5 + choose.randrange(100)
        document = _document(choose, True, base, length) | {
            "schedule": {"type": "once", "at": datetime.fromtimestamp(at, UTC).isoformat()},
            "timeoutSeconds": 5,
        }
        for recurring in ("maxRuns", "endAt", "spreadSeconds"):
            document.pop(recurring, None)
        actions.append(
            Action(f"a{number} create", "create", number, base + 1 + choose.random() * 3, None, document, True)
        )
        for other in range(choose.choice([0, 1, 2])):
            kind = choose.choice(["cancel", "cancel execution", "cancel execution", "execute", "delete"])
            when = at + choose.choice([0.1, 0.3, 0.5, 1.0, 3.0, 30.0]) + choose.random() * 0.3
            actions.append(Action(f"a{10 + 2 * number + other} {kind}", kind, number, when))
    nature = Nature(
        faults=choose.choice([0, 0.02]),
        stalls=choose.choice([0.1, 0.3]),
        fails=choose.choice([0, 0.2]),
        hangs=0,
        skewed=choose.random() < 0.8,
    )
    return Plan(seed, base, base + length, nature, [], actions)


def _spread_out(seed: int, choose: random.Random) -> Plan:
    """Jobs that start minutes after their slots, and callers who change that, pause, run and cancel them between
    a slot and its start."""
    base, length = BASES["winter"], choose.choice([2_400, 7_200])
    made = []
    for number in range(choose.choice([1, 2])):
        once = choose.random() < 0.3
        at = base + choose.randrange(60, length // 2)
        document = _document(choose, True, base, length) | {
            "schedule": {"type": "once", "at": datetime.fromtimestamp(at, UTC).isoformat()}
            if once
            else choose.choice(
                [{"type": "interval", "everySeconds": 600}, {"type": "cron", "expression": "*/10 * * * *"}]
            ),
            "spreadSeconds": choose.choice([60, 300, 590]),
        }
        if once:
            document.pop("maxRuns", None)
            document.pop("endAt", None)
        made.append(Action(f"a{number} create", "create", number, base + 1 + choose.random(), None, document, True))
        slots = [at] if once else slots_between(document, base + 1, base, base + length)
        for count in range(choose.choice([2, 5, 10])):
            kinds = ["respread"] * 4 + ["pause", "resume", "change", "execute", "touch", "cancel"]
            kind = choose.choice(kinds if count > 2 else kinds[:-1])
            when = choose.choice(slots) + choose.random() * document["spreadSeconds"] + choose.choice([-1.0, 0.0, 0.0])
            other = _document(choose, True, base, length) if kind == "change" else None
            seconds = choose.choice([0, 2, 60, 300, 600])
            made.append(Action(f"a{number}.{count} {kind}", kind, number, when, None, other, None, seconds))
            if kind == "pause":
                later = when + choose.choice([0.5, 30, 300])
                made.append(Action(f"a{number}.{count} resume", "resume", number, later))
    nature = Nature(
        faults=choose.choice([0, 0, 0.01]), messages=choose.choice([0, 0, 0.1]), fails=choose.choice([0, 0.3]), hangs=0
    )
    return Plan(seed, base, base + length, nature, [], made)


RETRIED = ("retry", "retry", "cancel execution")
"""What callers do about an attempt of a job."""


def _bursts(seed: int, choose: random.Random) -> Plan:
    """A job that is due every few seconds, and many callers who change it at once: all alike, or each otherwise.

    In half of these stories little else goes wrong, so nothing else explains a start that is late. In the others
    attempts fail, messages are lost, no consumer runs for a while, and callers retry and cancel attempts, too.
    """
    base, length = BASES["winter"], 180
    document = make_document(
        schedule={"type": "interval", "everySeconds": choose.choice([1, 2, 3, 10])},
        overlapPolicy=choose.choice(["skip", "skip", "allow", "queue"]),
        misfirePolicy=choose.choice(["run_once", "skip", "run_all"]),
        retryConfig=choose.choice(RETRIES[:2]),
        timeoutSeconds=5,
        description=choose.choice([None, None, "x" * 900]),
    )
    if choose.random() < 0.3:
        document["spreadSeconds"] = 1
    made = [Action("a0 create", "create", 0, base + 1.0, None, document, True)]
    kinds = choose.choice([["same"], ["touch"], ["same", "touch"], ["touch", "same", "pause", "resume", "execute"]])
    all_kinds = random.Random(f"{seed}/bursts of all kinds")
    everything = all_kinds.random() < 0.5
    for burst in range(choose.choice([1, 2, 3])):
        begins, lasts = base + 5 + choose.random() * 100, choose.choice([0.2, 1.0, 3.0])
        for number in range(choose.choice([10, 48, 100])):
            kind, at = choose.choice(kinds), begins + choose.random() * lasts
            if everything:
                kind = all_kinds.choice(["touch", "same", "change", "pause", "resume", "execute", *RETRIED])
            changed = {**document, "overlapPolicy": all_kinds.choice(["skip", "allow", "queue"])}
            to = changed if kind == "change" else None
            made.append(Action(f"b{burst}.{number} {kind}", kind, 0, at, None, to, None, all_kinds.choice([0, 0, 5])))
    made.append(Action("z resume", "resume", 0, float(base + length)))
    if choose.random() < 0.3:
        kind, at = choose.choice(["cancel", "delete"]), base + 10 + choose.random() * 100
        made.append(Action(f"z {kind}", kind, 0, at))
    faults = choose.choice([0, 0, 0, 0.002])
    nature = Nature(faults=faults, fails=choose.choice([0, 0.1]), hangs=0, skewed=choose.random() < 0.5)
    weather = []
    if everything:  # starts, retries and the sweep meet in the bursts
        nature = replace(nature, fails=0.6, messages=all_kinds.choice([0, 0.1, 0.3]))
        begins = base + all_kinds.random() * length
        weather = [Weather("weather0 consumers", "consumers", begins, begins + 40)] * all_kinds.choice([0, 1])
    return Plan(seed, base, base + length, nature, weather, made)


def _listen(choose: random.Random, actions: list[Action], hot: bool) -> None:
    """Half of what is registered asks for a silence alarm."""
    for action in actions:
        if action.document is not None and choose.random() < 0.5:
            action.document["alertAfterSeconds"] = choose.choice([60, 90, 200, 600] if hot else [600, 5400, 30_000])


def _sort(choose: random.Random, actions: list[Action]) -> None:
    for action in actions:
        if action.document is not None:
            type_of(choose, action.document)


def _orchestrate(choose: random.Random, actions: list[Action]) -> None:
    """A fifth of what is registered asks for the state machine."""
    for action in actions:
        if action.document is not None and choose.random() < 0.2:
            action.document["orchestrated"] = True


def _document(choose: random.Random, hot: bool, base: int, length: int) -> dict[str, Any]:
    if choose.random() < 0.25:
        at = base + choose.randrange(2, length)
        schedule = {"type": "once", "at": datetime.fromtimestamp(at, UTC).isoformat()}
    else:
        schedule = choose.choice(HOT_SCHEDULES if hot else DAY_SCHEDULES)
    document = make_document(
        schedule=schedule,
        overlapPolicy=choose.choice(["skip", "skip", "allow", "queue"]),
        misfirePolicy=choose.choice(["run_once", "skip", "run_all"]),
        retryConfig=choose.choice(RETRIES),
        timeoutSeconds=choose.choice([5, 30, 60]),
        description=choose.choice([None, None, "x" * 900]),
    )
    if schedule["type"] != "once":
        if choose.random() < 0.15:
            document["maxRuns"] = choose.choice([1, 3, 8])
        if choose.random() < 0.15:
            document["endAt"] = datetime.fromtimestamp(base + length // 2, UTC).isoformat()
    if choose.random() < 0.15:
        document["spreadSeconds"] = choose.choice([5, 10])
    return document


def _action(
    choose: random.Random,
    number: int,
    documents: list[dict[str, Any]],
    hot: bool,
    base: int,
    length: int,
    before: list[Action],
) -> list[Action]:
    kinds = ["pause"] * 3 + ["resume"] * 2 + ["change"] * 3 + ["touch", "execute", "execute", "retry", "retry"]
    kinds += ["cancel execution", "cancel execution", "again"] + ["cancel"] * (choose.random() < 0.5)
    kinds += ["delete"] * (choose.random() < 0.3)
    kind, job = choose.choice(kinds), choose.randrange(len(documents))
    at: float | None = base + 5 + choose.random() * (length - 10)
    write = None
    how = choose.random()
    if how < 0.45:
        slots = slots_between(documents[job], base + 2, base, base + length)
        at = (choose.choice(slots) if slots else base + 30) + choose.choice([-0.4, -0.1, 0.0, 0.1, 0.3, 1.0, 4.0])
    elif how < 0.6 and len(before) > len(documents):
        at = choose.choice(before).at
    elif how < 0.8:
        write, at = choose.randrange(2, 60), None
    document = _document(choose, hot, base, length) if kind == "change" else None
    enabled = choose.choice([None, None, True, False]) if kind == "change" else None
    made = [Action(f"a{number} {kind}", kind, job, at, write, document, enabled, choose.choice([0, 0, 30]))]
    if kind == "pause" and choose.random() < 0.8 and at is not None:
        later = at + choose.choice([0.3, 0.7, 1, 20, 65, 200])
        made.append(Action(f"a{number + 1} resume", "resume", job, later))
    return made


def _weather(choose: random.Random, base: int, length: int) -> list[Weather]:
    found = []
    for number in range(choose.choice([0, 0, 0, 1, 1, 3])):
        kind = choose.choice(["sqs", "eventbridge", "consumers", "sweep", "flood", "lag", "dynamodb"])
        begins = base + choose.random() * length
        lasts = choose.choice([5, 60, 150, 400, 1200])
        found.append(Weather(f"weather{number} {kind}", kind, begins, min(begins + lasts, base + length)))
    return found

"""A story of many jobs of some teams that share targets and keys: circuits under load, limits of keys and types."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.factories import make_document
from tests.simulation.actors import Nature, Weather
from tests.simulation.plan import BASES, Action, Plan

LENGTH = 900
TARGETS = ("https://one.example.com/hook", "https://two.example.com/hook")
TYPE = "report"
TYPE_LIMIT = 2
BREAKERS: list[dict[str, Any]] = [
    {"failureThreshold": 2, "openSeconds": 5},
    {"failureThreshold": 3, "openSeconds": 30},
    {"failureThreshold": 2, "openSeconds": 10, "successThreshold": 2},
]
ASKS: list[dict[str, Any] | None] = [None, {}, {"enabled": True}, {}]
"""What jobs say of circuits; some of the type's say that they have none (`_without`)."""
TEAMS = ("team-one", "team-two", "team-three")
RETRY = {"maxRetries": 3, "initialDelaySeconds": 3, "backoffStrategy": "fixed", "jitter": 0.3}


class StageRules(NamedTuple):
    """What the stage and the type of this story say."""

    thresholds: dict[str, Any]
    shared: tuple[str, ...]
    """Targets whose circuit all teams share."""
    type_breaker: dict[str, Any] | None
    """Thresholds of the type, whose jobs then all ask for a circuit."""

    @property
    def type_document(self) -> dict[str, Any]:
        limit = {"maxConcurrency": TYPE_LIMIT}
        return limit if self.type_breaker is None else limit | {"circuitBreaker": self.type_breaker}


def stage_of(seed: int) -> StageRules:
    choose = random.Random(f"{seed}/crowd's stage")
    hosts = [f"http:{urlsplit(url).hostname}:443" for url in TARGETS]
    return StageRules(
        choose.choice(BREAKERS), choose.choice([(), (), (hosts[0],)]), choose.choice([None, None, *BREAKERS])
    )


def crowd(seed: int) -> Plan:
    """The story of a seed."""
    choose = random.Random(f"{seed}/crowd")
    base = BASES["winter"]
    faults = choose.choice([0, 0, 0.004, 0.015, 0.04])
    nature = Nature(
        faults=faults,
        stalls=choose.choice([faults / 2, 0.03]),
        messages=choose.choice([0, 0, 0.05, 0.2]),
        fails=choose.choice([0, 0.1, 0.4]),
        hangs=choose.choice([0, 0, 0.05]),
        skewed=choose.random() < 0.8,
    )
    actions = [
        Action(
            f"a{number} create", "create", number, base + 1 + choose.random() * 20, None, _document(choose, base), True
        )
        for number in range(choose.choice([4, 6, 10]))
    ]
    jobs = len(actions)
    for number in range(choose.choice([0, 2, 5])):
        kind = choose.choice(["cancel", "pause", "execute", "cancel execution", "cancel execution", "reset", "retry"])
        job, at = choose.randrange(jobs), base + 10 + choose.random() * LENGTH * 0.8
        actions.append(Action(f"a{jobs + 2 * number} {kind}", kind, job, at))
        if kind == "pause":
            later = at + choose.choice([1, 20, 100])
            actions.append(Action(f"a{jobs + 2 * number + 1} resume", "resume", job, later))
    _orchestrate(random.Random(f"{seed}/crowd's machine"), actions)
    actions += _changes(random.Random(f"{seed}/crowd's changes"), actions, base)
    _divide(random.Random(f"{seed}/crowd's teams"), actions, base)
    return Plan(seed, base, base + LENGTH, nature, _weather(choose, base), actions)


def _orchestrate(choose: random.Random, actions: list[Action]) -> None:
    """Some attempts are run by the state machine, some of them for long; some jobs are not retried."""
    for action in actions:
        if action.document is None:
            continue
        if choose.random() < 0.25:
            action.document.update({"orchestrated": True, "timeoutSeconds": choose.choice([5, 60, 300])})
        if choose.random() < 0.25:
            action.document["retryConfig"] = {"maxRetries": 0}


def _divide(choose: random.Random, actions: list[Action], base: int) -> None:
    """Who owns each job, and who resets circuits: its owner, a foreigner or the administrator."""
    teams = TEAMS[: choose.choice([1, 1, 2, 3])]
    for place, action in enumerate(actions):
        if action.kind == "create":
            actions[place] = dataclasses.replace(action, team=choose.choice(teams))
            if action.document is not None and choose.random() < 0.1:
                action.document["circuitBreaker"] = {"enabled": False}
    for number in range(choose.choice([0, 2, 4])):
        at = base + 10 + choose.random() * LENGTH * 0.8
        team = choose.choice(["", *TEAMS])
        actions.append(Action(f"r{number} reset", "reset", choose.randrange(100), at, team=team))


def _changes(choose: random.Random, actions: list[Action], base: int) -> list[Action]:
    """Callers give jobs other keys, limits, targets and circuits, pause them by the way, and cancel and delete some."""
    made = []
    created = [action for action in actions if action.kind == "create"]
    for number in range(choose.choice([0, 0, 3, 6])):
        one = choose.choice(created)
        at = base + 25 + choose.choice([choose.random() * 60, choose.random() * LENGTH * 0.8])
        kind = choose.choice(["change", "change", "change", "cancel", "cancel execution", "delete", "resume"])
        document, enabled = None, None
        if kind == "change":
            document, enabled = _changed(choose, one.document or {}), choose.choice([None, None, True, False])
        made.append(Action(f"c{number} {kind}", kind, one.job, at, None, document, enabled))
    return made


def _changed(choose: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """The document with another key, limit, target, circuit or type; the schedule stays."""
    changed = {**document}
    limit = choose.choice([None, 1, 2, 3])
    for name in ("concurrencyKey", "maxConcurrency", "circuitBreaker", "type"):
        changed.pop(name, None)
    if limit is not None:
        changed |= {"concurrencyKey": choose.choice(["database", "database", "other"]), "maxConcurrency": limit}
    if (breaker := choose.choice(ASKS)) is not None:
        changed["circuitBreaker"] = breaker
    if choose.random() < 0.4:
        changed["type"] = TYPE
    return changed | {"target": {"type": "http", "url": choose.choice(TARGETS)}}


def _document(choose: random.Random, base: int) -> dict[str, Any]:
    if choose.random() < 0.6:
        at = base + choose.choice([30, 30, 60, choose.randrange(20, 300)])
        schedule: dict[str, Any] = {"type": "once", "at": datetime.fromtimestamp(at, UTC).isoformat()}
    else:
        schedule = {"type": "interval", "everySeconds": choose.choice([20, 45, 120])}
    limit = choose.choice([None, 1, 1, 2, 3])
    return make_document(
        schedule=schedule,
        overlapPolicy=choose.choice(["skip", "allow", "queue"]),
        retryConfig=RETRY,
        timeoutSeconds=choose.choice([5, 20, 60]),
        target={"type": "http", "url": choose.choice(TARGETS)},
        circuitBreaker=choose.choice(ASKS),
        concurrencyKey=None if limit is None else "database",
        maxConcurrency=limit,
        type=choose.choice([None, None, TYPE]),
        priority=choose.choice(["normal", "normal", "high", "low"]),
    )


def _weather(choose: random.Random, base: int) -> list[Weather]:
    found = []
    for number in range(choose.choice([0, 1, 2, 3])):
        kind = choose.choice(["one down", "two down", "one down", "sqs", "consumers", "sweep", "lag", "dynamodb"])
        begins = base + choose.random() * LENGTH * 0.7
        lasts = choose.choice([5, 30, 90, 300])
        found.append(Weather(f"weather{number} {kind}", kind, begins, min(begins + lasts, base + LENGTH)))
    return found

"""Whether two definitions say the same, however they are spelled (docs/http-api.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from functions.domain.definition import Definition
from functions.domain.dependence import UPSTREAM_TIMEOUT

_DEFAULTS: Mapping[str, Any] = {
    "description": "",
    "join": "all",
    "onUpstreamFailure": "skip",
    "upstreamTimeoutSeconds": UPSTREAM_TIMEOUT,
    "retryConfig": {},
    "overlapPolicy": "skip",
    "misfirePolicy": "run_once",
    "misfireGraceSeconds": 60,
    "priority": "normal",
    "timeoutSeconds": 60,
    "completion": "response",
    "orchestrated": False,
    "spreadSeconds": 0,
    "tags": [],
}
"""What holds for a field that is left out. Not what a job's type or stage says of retries and circuits: a job that says
the same keeps its word when they change theirs."""
_SCHEDULE_DEFAULTS: Mapping[str, Any] = {"timezone": "UTC"}
_HTTP_DEFAULTS: Mapping[str, Any] = {"method": "POST", "headers": {}}
_DEPENDENCY_DEFAULTS: Mapping[str, Any] = {"on": "success"}
_APPROVAL_DEFAULTS: Mapping[str, Any] = {"onTimeout": "reject", "fourEyes": True, "protected": False}


def says_the_same(one: Definition, other: Definition) -> bool:
    """Whether a job under the one is the same job as under the other: defaults that are written out or left out, the
    order of keys, the spelling of numbers and instants make no difference."""
    if one.payload != other.payload and _kept_kinds(one.payload) != _kept_kinds(other.payload):
        return False
    return _canonical(one) == _canonical(other)


def _kept_kinds(payload: str) -> str:
    """Equal for values that are equal in value and kind of each number (1 and 1.0 are two, as are 0.0 and -0.0)."""
    try:
        return json.dumps(json.loads(payload), sort_keys=True)
    except (ValueError, RecursionError):
        return payload


def _canonical(definition: Definition) -> dict[str, Any]:
    """Numbers compare by value: each field takes those of one kind only."""
    document = {**_DEFAULTS, **definition.document}
    schedule, target = document.get("schedule"), document["target"]
    instants = {"startAt": definition.schedule.start_at, "endAt": definition.schedule.end_at}
    if schedule is not None:
        document["schedule"] = {**_SCHEDULE_DEFAULTS, **schedule, "at": definition.schedule.at}
    if target.get("type") == "http":
        document["target"] = {**_HTTP_DEFAULTS, **target}
    if "dependsOn" in document:
        document["dependsOn"] = [{**_DEPENDENCY_DEFAULTS, **one} for one in document["dependsOn"]]
    if "circuitBreaker" in document:
        document["circuitBreaker"] = {"enabled": True, **document["circuitBreaker"]}
    if "approval" in document:
        document["approval"] = {**_APPROVAL_DEFAULTS, **document["approval"]}
    return document | instants

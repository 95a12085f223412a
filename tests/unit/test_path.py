"""Which way an attempt goes, and why."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.path import Path, PathKind, path_of
from tests.factories import make_definition

HTTP = {"type": "http", "url": "https://example.org/"}
WORKER = {"type": "worker", "queue": "reports"}
DIRECT, MACHINE, PULLED = PathKind.DIRECT, PathKind.STATE_MACHINE, PathKind.PULLED


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, Path(DIRECT, "SHORT")),
        ({"timeoutSeconds": 1}, Path(DIRECT, "SHORT")),
        ({"timeoutSeconds": 60}, Path(DIRECT, "SHORT")),
        ({"timeoutSeconds": 61}, Path(MACHINE, "LONG_TIMEOUT")),
        ({"timeoutSeconds": 840}, Path(MACHINE, "LONG_TIMEOUT")),
        ({"orchestrated": True}, Path(MACHINE, "ASKED_FOR")),
        ({"orchestrated": True, "timeoutSeconds": 840}, Path(MACHINE, "ASKED_FOR")),
        ({"orchestrated": False, "timeoutSeconds": 60}, Path(DIRECT, "SHORT")),
        ({"completion": "callback"}, Path(DIRECT, "CALLBACK")),
        ({"completion": "callback", "timeoutSeconds": 86_400}, Path(DIRECT, "CALLBACK")),
        ({"completion": "response", "timeoutSeconds": 61}, Path(MACHINE, "LONG_TIMEOUT")),
        ({"target": WORKER}, Path(PULLED, "WORKER_TARGET")),
        ({"target": WORKER, "timeoutSeconds": 86_400}, Path(PULLED, "WORKER_TARGET")),
        ({"circuitBreaker": {"enabled": True}}, Path(DIRECT, "SHORT")),
    ],
)
def test_the_way_and_its_reason(document: dict[str, Any], path: Path) -> None:
    assert path_of(make_definition(**{"target": HTTP} | document)) == path

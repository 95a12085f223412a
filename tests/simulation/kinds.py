"""Types of the jobs in a story, and what is configured for them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

TYPES: dict[str, dict[str, Any]] = {
    "touchy": {"maxRetries": 6, "initialDelaySeconds": 2, "backoffStrategy": "fixed", "poisonDetection": True},
    "short": {"maxRetries": 1, "initialDelaySeconds": 3, "jitter": 0, "nonRetryableErrors": ["HTTP_400"]},
}


def type_of(choose: random.Random, document: dict[str, Any]) -> None:
    """Half of what is registered is of a type, and half of that leaves its retries to it."""
    if choose.random() < 0.5:
        document["type"] = choose.choice([*TYPES, "never configured"])
        if choose.random() < 0.5:
            del document["retryConfig"]


def rules_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `retryConfig` that counts: the job's word, field by field, else its type's."""
    return {**TYPES.get(document.get("type", ""), {}), **document.get("retryConfig", {})}

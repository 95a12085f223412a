"""How far a running execution is, in its own words."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_CHARACTERS = 256
"""Longest message."""
MIN_INTERVAL = 1.0
"""Seconds between two reports of one execution that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    percent: float
    """0 to 100."""
    message: str = ""
    """At most 256 characters."""


def checked(percent: object, message: object) -> Progress:
    """The report; raises ValueError unless percent is a number from 0 to 100 and message text of 256 characters."""
    if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
        raise ValueError(f"percent {percent!r:.64} is no number from 0 to 100")
    if not isinstance(message, str) or len(message) > MESSAGE_CHARACTERS:
        raise ValueError(f"message is no text of at most {MESSAGE_CHARACTERS} characters")
    return Progress(percent=percent, message=message.encode("utf-8", "replace").decode())

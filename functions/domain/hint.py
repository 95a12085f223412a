"""A delayed message "look at this job now". Never the truth."""

from __future__ import annotations

from typing import NamedTuple


class Hint(NamedTuple):
    """Names what is due, never a counter: a changed revision must not void a waiting retry."""

    job_id: str
    slot_id: str
    attempt: int
    """The attempt that would start, from 1."""

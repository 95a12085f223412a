"""Who acts in a story, and what may go wrong with it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.faults import TroubleError

if TYPE_CHECKING:
    from functions.domain.hint import Hint


__all__ = ["Actor", "Message", "Nature", "TroubleError", "Weather"]


@dataclass(eq=False)
class Actor:
    """One invocation of a function."""

    key: str
    kind: str
    """consumer, sweep, machine or caller."""
    choose: random.Random
    skew: float
    began: float
    job: str | None = None
    """Label of the job it is about."""
    hint: Hint | None = None
    action: str = ""
    steps: int = 0
    disturbed: bool = False
    """Whether a fault met it."""
    credits: set[tuple[str, int, int]] = field(default_factory=set)
    """Hints that its applied writes entitle it to send."""
    sent: set[tuple[str, str, int, int]] = field(default_factory=set)
    wrote: int = 0
    resent: int = 0
    started: set[tuple[str, str, int]] = field(default_factory=set)
    team: str = ""
    """Of a caller: who asks."""
    failure: Exception | None = None
    """Why it could not do its work."""


@dataclass(eq=False)
class Message:
    key: str
    hint: Hint
    receives: int = 0
    waits: bool = False
    """It could be taken and nobody does, or it failed and comes again."""


@dataclass(frozen=True)
class Weather:
    """A time in which something does not work."""

    id: str
    kind: str
    """sqs, eventbridge: sends are refused · consumers, sweep: do not run · release: consumers fail at every hint ·
    `consumers low`, `release low`: those of one queue alone · `poison j0`: consumers fail at every hint of this job ·
    flood: other jobs fill the queues · lag: the indexes stand still · dynamodb: half of the calls fail."""
    begins: float
    ends: float


@dataclass(frozen=True)
class Nature:
    """How this story's world is. Probabilities, a call or a message."""

    faults: float = 0.0
    """Of each step of an actor."""
    messages: float = 0.0
    """Of each message: lost, late, or twice."""
    stalls: float = 0.0
    """Of each step of an actor: it stands still for seconds or minutes."""
    fails: float = 0.2
    hangs: float = 0.02
    skewed: bool = True

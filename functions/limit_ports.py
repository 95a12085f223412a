"""Ports of what limits calls and runs: rates, circuits, permits, shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.domain.circuit import Circuit
    from functions.domain.concurrency import Slot
    from functions.domain.definition import Priority
    from functions.domain.shares import Refusal, Share
    from functions.ports import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of a caller's limit, for the `RateLimit-*` headers."""

    limit: int
    remaining: int
    reset_seconds: int


class RateLimits(Protocol):
    def take(self, caller: str, kind: str, *, now: float, creations: int = 0) -> Allowance:
        """Count one request of `kind` ("read" or "write") and `creations` created jobs in one conditional write.

        Raises RateLimitedError or RevokedError; then nothing was counted.
        """
        ...

    def revoke(self, subject: str, *, now: float) -> float:
        """Refuse every request of the caller from now on; returns since when, which a repeat does not change."""
        ...

    def restore(self, subject: str, *, now: float) -> None:
        """Let the caller in again; nothing for one that was not revoked."""
        ...

    def create(self, caller: str, creations: int, *, now: float) -> None:
        """Count jobs that a request may create. Raises RateLimitedError; then none is counted."""
        ...

    def give_back(self, caller: str, *, creations: int) -> None:
        """Uncount jobs that were not created after all, best effort; never raises."""
        ...


class Circuits(Protocol):
    """Rows of targets' circuits. Reads are strongly consistent."""

    def get(self, key: str) -> Circuit:
        """The stored circuit, or a closed one with `seq` 0."""
        ...

    def save(self, read: Circuit, new: Circuit, *, now: float) -> Circuit:
        """Replace `read` by `new` in one write on condition of `read.seq`; returns the row that is stored.

        That is `new` with its `seq` where its `write_id`, a fresh mark, is in it; else the row of the first call.
        A repeat of an own write whose answer was lost is a success.
        """
        ...

    def list(self, owner: str | None, *, limit: int, cursor: str | None) -> Page[Circuit]:
        """An owner's, in the order of their keys; None: those that all owners share.

        Raises InvalidFieldError("cursor", …) for a cursor this method did not hand out.
        """
        ...


class Slots(Protocol):
    """The slots of concurrency keys that are taken."""

    def held(self, key: str) -> Sequence[Slot]:
        """All of the key's, by index, strongly consistent."""
        ...

    def take(self, key: str, slot: Slot, *, instead_of: Slot | None) -> bool:
        """Put the slot where its index is free, or still has holder and mark of `instead_of`; whether it is ours.

        A repeat of an own write whose answer was lost is a success: each `slot.mark` is fresh.
        """
        ...

    def free(self, key: str, index: int, *, holder: str, mark: str | None = None) -> None:
        """Delete the slot if this holder has it, and by this mark where one is given; anything else is no error."""
        ...


class Entry(Protocol):
    """The leave to run an attempt within its owner's share."""

    def leave(self) -> None:
        """The attempt does not run any more, or not in this process."""
        ...


class Shares(Protocol):
    """What each owner uses of its share of the executor."""

    def enter(self, owner: str, priority: Priority, *, lasts: float) -> Refusal | Entry:
        """Count an attempt of the owner that runs in this process for `lasts` seconds at most, or until it leaves.

        Refused where it would be more than the owner's share. One that cannot be asked refuses nothing.
        """
        ...


class ShareRows(Protocol):
    """Rows that all executor processes share: who is at work for an owner, and what it has started in this minute."""

    def enter(
        self, owner: str, priority: Priority, share: Share, process: str, *, starts: int, until: float, now: float
    ) -> Refusal | None:
        """Note that the process is at work until then and has made so many starts since it was last heard of.

        Refused, and nothing is noted, where as many others are at work, or the minute's starts are used up.
        """
        ...

    def at_work(self, owner: str, priority: Priority, *, now: float) -> int:
        """Processes at work for the owner, as the row was last seen: no call."""
        ...

    def stay(self, owner: str, priority: Priority, process: str, *, until: float, now: float) -> None:
        """Note that the process is at work for the owner until then, whatever the limit."""
        ...

    def leave(self, owner: str, priority: Priority, process: str, *, now: float) -> None:
        """Note that the process is at work for the owner no more."""
        ...

"""What a job says of who lets its runs pass: the words of its definition. What comes of them is in approval.py."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class OnTimeout(enum.StrEnum):
    """What an approval gate does when nobody has decided in time."""

    REJECT = "reject"
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Who lets a run pass, and what happens where nobody does."""

    role: str
    approvers: tuple[str, ...] = ()
    """Ids of callers, one of whom it must be; () for anybody with the role."""
    timeout_seconds: int
    on_timeout: OnTimeout = OnTimeout.REJECT
    four_eyes: bool = True
    """Whoever created the job, or changed last what it calls, does not approve its runs."""
    protected: bool = False
    """Only a second person who may decide removes the gate or changes it."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ApprovalPolicy:
        """Raises KeyError, ValueError or TypeError for what cannot be read."""
        return cls(
            role=str(document["role"]),
            approvers=tuple(document.get("approvers", ())),
            timeout_seconds=int(document["timeoutSeconds"]),
            on_timeout=OnTimeout(document.get("onTimeout", "reject")),
            four_eyes=bool(document.get("fourEyes", True)),
            protected=bool(document.get("protected", False)),
        )

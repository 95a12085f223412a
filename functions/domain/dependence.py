"""What a job says of the jobs it depends on, and of who has to approve its runs: the words of its definition."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_PARENTS = 1_000
"""Dependencies of one job."""
UPSTREAM_TIMEOUT = 7 * 86_400
"""Default of `upstreamTimeoutSeconds`."""


class On(enum.StrEnum):
    """Which ends of a parent's runs meet a dependency. One that was cancelled or skipped meets none."""

    SUCCESS = "success"
    FAILURE = "failure"
    COMPLETION = "completion"
    """Success or failure."""


class Join(enum.StrEnum):
    ALL = "all"
    ANY = "any"


class UpstreamFailure(enum.StrEnum):
    """What becomes of a run whose dependencies cannot be met."""

    SKIP = "skip"
    FAIL = "fail"
    RUN = "run"


class OnTimeout(enum.StrEnum):
    """What an approval gate does when nobody has decided in time."""

    REJECT = "reject"
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    job_id: str
    on: On = On.SUCCESS
    when: str | None = None
    """JMESPath over the result of the parent's run; met only where it is true."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Dependency:
        """Raises KeyError, ValueError or TypeError for what cannot be read."""
        return cls(job_id=str(document["jobId"]), on=On(document.get("on", "success")), when=document.get("when"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Who lets a run pass, and what happens where nobody does."""

    role: str
    approvers: tuple[str, ...] = ()
    """Ids of callers, one of whom it must be; () for anybody with the role."""
    timeout_seconds: int
    on_timeout: OnTimeout = OnTimeout.REJECT
    four_eyes: bool = True
    """Whoever created the job, or changed it last, does not approve its runs."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ApprovalPolicy:
        """Raises KeyError, ValueError or TypeError for what cannot be read."""
        return cls(
            role=str(document["role"]),
            approvers=tuple(document.get("approvers", ())),
            timeout_seconds=int(document["timeoutSeconds"]),
            on_timeout=OnTimeout(document.get("onTimeout", "reject")),
            four_eyes=bool(document.get("fourEyes", True)),
        )

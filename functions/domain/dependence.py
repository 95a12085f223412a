"""What a job says of the jobs it depends on: the words of its definition, and what is refused of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from functions.domain.errors import InvalidFieldError
from functions.domain.expression import check

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


_ONLY_WITH_PARENTS = ("join", "onUpstreamFailure", "upstreamTimeoutSeconds")
_ONLY_WITH_SCHEDULE = ("startAt", "endAt", "maxRuns", "spreadSeconds", "misfirePolicy", "misfireGraceSeconds")


def check_dependencies(document: Mapping[str, Any], stored: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Check what the fields about dependencies say, and of the schedule, as far as no row of another job is needed.

    `stored`: the job's document before the change; conditions that are in it keep their meaning.
    Raises InvalidFieldError naming field, value and what is allowed.
    """
    dependencies = document.get("dependsOn")
    if not dependencies:
        _check_without(document)
        return
    kind = (document.get("schedule") or {}).get("type")
    if kind not in (None, "once"):
        raise InvalidFieldError(
            "schedule",
            f"schedule of type {kind}: a job with dependsOn runs when those that it depends on have; leave schedule "
            "out, or give type once as the earliest start.",
        )
    for field in _ONLY_WITH_SCHEDULE:
        if document.get(field) is not None:
            raise InvalidFieldError(
                field, f"{field} is for a job that runs by a schedule of its own: leave it out beside dependsOn."
            )
    known = {one.get("when") for one in stored.get("dependsOn") or ()}
    seen: dict[str, int] = {}
    for index, one in enumerate(dependencies):
        first = seen.setdefault(one["jobId"], index)
        if first != index:
            raise InvalidFieldError(
                f"dependsOn[{index}].jobId", f"{one['jobId']} is in dependsOn[{first}] already: name each job once."
            )
        if one.get("when") is not None:
            check(one["when"], f"dependsOn[{index}].when", is_stored=one["when"] in known)


def _check_without(document: Mapping[str, Any]) -> None:
    if document.get("schedule") is None:
        raise InvalidFieldError("schedule", "schedule is required; only a job with dependsOn may leave it out.")
    for field in _ONLY_WITH_PARENTS:
        if document.get(field) is not None:
            raise InvalidFieldError(field, f"{field} is for a job with dependsOn: leave it out.")

"""From a job's JSON to the draft of it that the use cases take: every check that needs no stored state."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functions.api.body import payload_text
from functions.api.merge_patch import merge
from functions.api.schemas import JobBody
from functions.api.validation import validated
from functions.domain.definition import check_execution
from functions.domain.dependence import check_dependencies
from functions.domain.errors import InvalidFieldError
from functions.domain.handler_names import check_handler
from functions.domain.masking import masked_target, unmasked
from functions.domain.schedule import Schedule
from functions.domain.stored_json import read_stored
from functions.domain.target import check_target
from functions.domain.target_access import check_access
from functions.domain.upstream_values import check_taken
from functions.usecases.jobs import JobDraft

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.domain.handler_names import KnownHandlers
    from functions.domain.job import Job
    from functions.domain.target_access import TargetRules
    from functions.ports import Clock

_ANY_JOB = "00000000-0000-4000-8000-000000000000"
"""Stands for the id that is not drawn yet: a schedule is valid for every id or for none."""
APART = ("payload", "enabled", "owner")
"""Fields of a body that are kept beside the document."""
_TIMING = ("schedule", "startAt", "endAt", "maxRuns", "spreadSeconds")
"""Fields whose change makes the schedule another one; unchanged, a one-time job's past instant is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftReader:
    """Reads the bodies of create, replace and patch."""

    rules: TargetRules
    check_address: Callable[[str], None]
    """Raises InvalidFieldError for a URL that does not lead to public addresses; asks the DNS."""
    handlers: Callable[[], KnownHandlers | None]
    """The handlers of this release; asked only for targets that name one."""
    clock: Clock
    shortest_interval_seconds: int = 1
    """Of the stage, for jobs with an interval schedule."""

    def new(self, body: Any) -> JobDraft:
        """The draft of a new job, by its shape. Raises InvalidRequestError, InvalidFieldError, PayloadTooLargeError."""
        return self._shaped(body, before=None)

    def check_new(self, draft: JobDraft, *, owner: str) -> None:
        """What the shape does not say: times, zones, what jobs of this owner may call. Raises InvalidFieldError."""
        self._check(draft.document, None, owner)

    def check_access(self, job: Job) -> None:
        """Raise InvalidFieldError where the job's owner may not use what its stored target names."""
        if job.definition is not None:
            check_access(job.definition.target, self.rules, job.owner)

    def replaced(self, body: Any) -> Callable[[Job], JobDraft]:
        """What PUT makes of a job: the body; `***` of a masked value keeps the stored one."""
        return lambda job: self._draft(body, before=job)

    def patched(self, patch: Any) -> Callable[[Job], JobDraft]:
        """What PATCH makes of a job: its document as a client sees it, changed as RFC 7386 says."""

        def change(job: Job) -> JobDraft:
            definition = job.defined
            shown: dict[str, Any] = {**definition.document, "target": masked_target(definition.target)}
            if isinstance(patch, dict):
                if "payload" in patch:
                    with contextlib.suppress(ValueError):  # one that cannot be read is replaced by the patch's
                        shown["payload"] = read_stored(definition.payload)
                kept = None if "payload" in patch else definition.checked_payload
                return self._draft(merge(shown, patch), before=job, kept_payload=kept)
            return self._draft(patch, before=job)

        return change

    def _draft(self, body: Any, *, before: Job, kept_payload: str | None = None) -> JobDraft:
        draft = self._shaped(body, before=before, kept_payload=kept_payload)
        self._check(draft.document, before, before.owner)
        return draft

    def _shaped(self, body: Any, *, before: Job | None, kept_payload: str | None = None) -> JobDraft:
        validated(JobBody, body)
        payload = payload_text(body.get("payload")) if kept_payload is None else kept_payload
        document = {name: value for name, value in body.items() if name not in APART}
        stored = None if before is None or before.definition is None else before.definition
        document["target"] = unmasked(document["target"], None if stored is None else stored.target)
        parents = [one["jobId"] for one in document.get("dependsOn") or ()]
        check_taken(payload, parents, is_stored=stored is not None and payload == stored.payload)
        owner = body.get("owner")
        if before is not None and owner not in (None, before.owner):
            raise InvalidFieldError("owner", "owner changes by POST /v1/jobs/{jobId}/transfer only.")
        return JobDraft(document=document, payload=payload, enabled=body.get("enabled"), owner=owner)

    def _check(self, document: Mapping[str, Any], before: Job | None, owner: str) -> None:
        now = self.clock.now()
        unchanged: Mapping[str, Any] = before.definition.document if before and before.definition else {}
        check_dependencies(document, unchanged)
        if before is None or _timed(document) != _timed(unchanged):
            job_id, created_at = (_ANY_JOB, int(now)) if before is None else (before.id, before.created_at)
            Schedule.read(document, job_id=job_id, created_at=created_at).check(now=now)
            self._check_interval(document.get("schedule"), unchanged.get("schedule"))
        check_execution(document)
        target = document["target"]
        if target != unchanged.get("target"):
            check_target(target, self.rules, owner)
            if target["type"] == "http":
                self.check_address(target["url"])
            elif target["type"] == "handler":
                check_handler(target["name"], self.handlers())

    def _check_interval(self, schedule: Any, before: Any) -> None:
        """Raises InvalidFieldError for an interval that is shorter than the stage allows, unless the job had it."""
        if schedule is None or schedule["type"] != "interval" or schedule == before:
            return
        seconds, least = schedule["everySeconds"], self.shortest_interval_seconds
        if seconds < least:
            raise InvalidFieldError(
                "schedule.everySeconds", f"must be an integer of at least {least} on this stage, got {seconds}"
            )


def _timed(document: Mapping[str, Any]) -> tuple[object, ...]:
    """What makes the schedule: its fields, and whether the job has one of its own at all."""
    return ("dependsOn" in document, *(document.get(name) for name in _TIMING))

"""Conditional requests: `ETag`, `If-Match`, `If-None-Match` (RFC 9110, section 13)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from functions.api.body import invalid
from functions.domain.errors import PreconditionFailedError

if TYPE_CHECKING:
    from functions.domain.job import Job

_OURS = re.compile(r'"([0-9]{1,15})\.([0-9]{1,15})"')
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')


def etag(job: Job) -> str:
    """`"<revision>.<seq>"`: changes by callers, and all writes."""
    return f'"{job.revision}.{job.seq}"'


def if_match(header: str | None) -> int | None:
    """The revision the caller read; None when it sets no condition.

    Only the revision part counts: a run in between is no change of the caller's. Raises InvalidRequestError, or
    PreconditionFailedError for a tag no job can have.
    """
    if header is None or header.strip() == "*":
        return None
    ours = _OURS.fullmatch(header.strip())
    if ours:
        return int(ours[1])
    if _ENTITY_TAG.fullmatch(header.strip()):
        raise PreconditionFailedError
    raise invalid("If-Match", 'takes the ETag of one answer, as in "3.17", or *')


def is_unchanged(header: str | None, job: Job) -> bool:
    """Whether `If-None-Match` names the job as it is now."""
    if header is None:
        return False
    if header.strip() == "*":
        return True
    return etag(job) in (tag.removeprefix("W/") for tag in _ENTITY_TAG.findall(header))

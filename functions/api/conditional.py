"""Conditional requests: `ETag`, `If-Match`, `If-None-Match` (RFC 9110, section 13)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from functions.api.body import invalid
from functions.domain.errors import PreconditionFailedError

if TYPE_CHECKING:
    from functions.domain.job import Job

_OURS = re.compile(r'"([0-9]{1,15})(?:\.[0-9]{1,15})?"')
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')
_LIST = re.compile(rf"{_ENTITY_TAG.pattern}(?:[ \t]*,[ \t]*{_ENTITY_TAG.pattern})*")
_UNQUOTED = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_SHOWN = 64


def etag(job: Job) -> str:
    """`"<revision>.<seq>"`: changes by callers, and all writes."""
    return f'"{job.revision}.{job.seq}"'


def if_match(header: str | None) -> int | None:
    """The revision the caller read; None when it sets no condition.

    Only the revision part counts, and is enough: a run in between is no change of the caller's. Raises
    InvalidRequestError for what is not a tag or names several revisions, PreconditionFailedError for tags that no job
    can have.
    """
    if header is None or header.strip() == "*":
        return None
    text = header.strip()
    if not _LIST.fullmatch(text):
        raise invalid("If-Match", _why_not(text))
    tags = _ENTITY_TAG.findall(text)
    revisions = {int(ours[1]) for tag in tags if (ours := _OURS.fullmatch(tag))}
    if not revisions:
        raise PreconditionFailedError(_never_matches(tags[0]))
    if len(revisions) > 1:
        raise invalid("If-Match", f"takes the ETag of one answer, got {len(tags)}: send the one you read last")
    return revisions.pop()


def _why_not(text: str) -> str:
    if _UNQUOTED.fullmatch(text):
        return f'{text} needs double quotes: "{text}"'
    shown = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    return f'takes an ETag in double quotes, as in "3.17", or * alone, got {shown or "nothing"}'


def _never_matches(tag: str) -> str:
    if tag.startswith("W/"):
        return f"If-Match compares strong tags only, and {tag[:_SHOWN]} is weak: send it without W/."
    return f'If-Match: {tag[:_SHOWN]} is not the ETag of a job. Read the job and send its ETag, as in "3.17".'


def is_unchanged(header: str | None, job: Job) -> bool:
    """Whether `If-None-Match` names the job as it is now."""
    if header is None:
        return False
    if header.strip() == "*":
        return True
    return etag(job) in (tag.removeprefix("W/") for tag in _ENTITY_TAG.findall(header))

"""Puts into the fakes what an earlier release, or a hand, has stored: the API would refuse it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from functions.domain.definition import Definition

if TYPE_CHECKING:
    from tests.fakes import InMemoryJobs


def redefine(jobs: InMemoryJobs, job_id: str, *, payload: str | None = None, **changes: Any) -> None:
    """Replace fields of the stored document, and the payload's JSON text where it is given."""
    row = jobs.get(job_id)
    assert row is not None
    old = row.defined
    text = old.payload if payload is None else payload
    new = Definition.read({**old.document, **changes}, text, job_id=job_id, created_at=row.created_at)
    jobs.put(dataclasses.replace(row, definition=new))

"""Read workflows: rows of the jobs they are made of, as they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from functions.domain.caller import Caller
from functions.domain.errors import CorruptDefinitionError, NotFoundError
from functions.domain.job import Job
from functions.domain.workflow import Member, members_of
from functions.graph_ports import Workflow
from functions.parallel import for_all
from functions.ports import Page
from functions.usecases.services import Services

_OUTSIDERS = 100
"""Parents outside the workflow that are read to say who blocks whom: one request's worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A workflow as it stands."""

    workflow: Workflow
    members: tuple[Member, ...]
    """In the order of the request that made it."""
    rows: Mapping[str, Job]
    """By id: of its jobs, and of those outside that block one of them."""


def read_workflow(services: Services, caller: Caller, workflow_id: str) -> Seen:
    """Raises NotFoundError for what does not exist, is not whole yet, or the caller may not see."""
    workflow = services.workflows.get(workflow_id)
    if workflow is None:
        raise _not_found(workflow_id)
    try:
        caller.must_read(workflow.owner)
    except NotFoundError:
        raise _not_found(workflow_id) from None
    rows = rows_of(services, workflow)
    if not rows:
        raise _not_found(workflow_id)
    return seen_of(services, workflow, rows)


def list_workflows(
    services: Services, caller: Caller, *, owner: str | None = None, limit: int, cursor: str | None
) -> Page[Workflow]:
    """A page of an owner's workflows, newest first; without an owner, of all owners that the caller acts for.

    It may be empty and still have a cursor.
    """
    wanted = caller.must_list(owner, "workflows")
    page = services.workflows.list_by_owners(wanted, limit=limit, cursor=cursor)
    exist = for_all(lambda one: _exists(services, one), page.items)
    items = [workflow for workflow, there in zip(page.items, exist, strict=True) if there]
    return Page(items=items, cursor=page.cursor)


def rows_of(services: Services, workflow: Workflow) -> dict[str, Job]:
    """The rows of its jobs by id: all, those that were not deleted long ago, or none where it is not whole. A job that
    was transferred to another owner is not part of it any more.

    A read of many rows may fall into the transaction that makes them, and see some (DynamoDB: BatchGetItem is
    isolated row by row). Whoever saw one reads the others once more, and then sees them.
    """
    ids = [job_id for _, job_id in workflow.jobs]
    rows = {row.id: row for row in services.jobs.get_many(ids)}
    missing = [job_id for job_id in ids if job_id not in rows]
    if rows and missing:
        rows |= {row.id: row for row in for_all(services.jobs.get, missing) if row is not None}
    return {job_id: row for job_id, row in rows.items() if row.owner == workflow.owner}


def seen_of(services: Services, workflow: Workflow, rows: Mapping[str, Job]) -> Seen:
    """The workflow of these rows; what blocks from outside is read, as far as one request does."""
    members = members_of(workflow.jobs, rows)
    outsiders = [
        dependency.job_id for member in members for _, dependency in member.blocking() if dependency.job_id not in rows
    ]
    wanted = list(dict.fromkeys(outsiders))[:_OUTSIDERS]
    return Seen(workflow=workflow, members=members, rows={**rows, **_readable(services, wanted)})


def _readable(services: Services, ids: Sequence[str]) -> Mapping[str, Job]:
    if not ids:
        return {}
    try:
        return services.jobs.get_rows(ids)
    except CorruptDefinitionError:
        return {}  # who blocks whom is left open; the engine says what is wrong with that row


def _exists(services: Services, workflow: Workflow) -> bool:
    return any(services.jobs.get(job_id, with_definition=False) is not None for _, job_id in workflow.jobs)


def _not_found(workflow_id: str) -> NotFoundError:
    return NotFoundError(f"There is no workflow {workflow_id}.")

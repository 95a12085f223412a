"""From a workflow's JSON to the draft of it: local names, cycles, and each job's body with ids instead of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from functions.api.body import MAX_BULK_BODY_BYTES, invalid
from functions.api.schemas import MAX_NAME_LENGTH, Name, Owner
from functions.api.strict import Strict, absent, at_most
from functions.api.validation import shown, validated
from functions.domain.errors import FieldProblem, InvalidRequestError
from functions.domain.instants import rfc3339
from functions.domain.workflow import LOCAL_NAME, MAX_EDGES, MAX_JOBS, MAX_OUTSIDERS, cycle_of
from functions.usecases.workflows import WorkflowDraft, field_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from functions.api.drafts import DraftReader
    from functions.api.request import Request
    from functions.usecases.jobs import JobDraft

LocalName = Annotated[str, StringConstraints(pattern=LOCAL_NAME)]


class WorkflowBody(Strict):
    """What `POST /v1/workflows` takes: jobs by local names, each checked as `POST /v1/jobs` checks it."""

    name: Annotated[Name, Field(description="What people call the workflow.")]
    owner: Owner = absent(description="Who owns the workflow and its jobs, as for `POST /v1/jobs`.")
    jobs: Annotated[
        dict[LocalName, Any],
        Field(
            min_length=1,
            max_length=MAX_JOBS,
            description="Each as `POST /v1/jobs` takes it; `name` may be left out, and `schedule`, for one that runs "
            "at once or when those in its `dependsOn` have.",
        ),
        at_most(MAX_JOBS),
    ]


def body_of(request: Request) -> dict[str, Any]:
    """The body; raises InvalidRequestError unless it has a name and 1 to 100 jobs."""
    body: dict[str, Any] = request.json(limit=MAX_BULK_BODY_BYTES)
    validated(WorkflowBody, body)
    return body


def draft_of(body: Mapping[str, Any], reader: DraftReader) -> WorkflowDraft:
    """Raises InvalidRequestError for what is wrong between the jobs: unknown names, edges to itself, cycles."""
    jobs: Mapping[str, Any] = body["jobs"]
    problems = list(_wrong_edges(jobs))
    if problems:
        raise InvalidRequestError(tuple(problems[:20]))
    _must_not_be_too_many(jobs)
    _must_have_no_cycle(jobs)
    draft = _Reading(body["name"], jobs, reader)
    return WorkflowDraft(name=body["name"], owner=body.get("owner"), jobs=tuple(jobs), read=draft.read)


@dataclass(frozen=True, slots=True)
class _Reading:
    workflow: str
    jobs: Mapping[str, Any]
    reader: DraftReader

    def read(self, ids: Mapping[str, str], created_at: int) -> dict[str, JobDraft]:
        """The jobs' drafts, with ids in the place of local names."""
        drafts = {}
        for name, job in self.jobs.items():
            if not isinstance(job, dict):
                raise invalid(f"jobs.{name}", f"{shown(job)} is not an object")
            if "owner" in job:
                raise invalid(f"jobs.{name}.owner", "is the workflow's: name it there")
            with field_of(name):
                drafts[name] = self.reader.new(self._body(name, job, ids, created_at))
        return drafts

    def _body(self, name: str, job: Mapping[str, Any], ids: Mapping[str, str], created_at: int) -> dict[str, Any]:
        body = {"name": f"{self.workflow[: MAX_NAME_LENGTH - 1 - len(name)]}/{name}", **job}
        if job.get("dependsOn"):
            body["dependsOn"] = [_with_id(entry, ids) for entry in _entries(job)] or job["dependsOn"]
            body |= {"payload": _with_sources(job["payload"], ids)} if "payload" in job else {}
        elif "schedule" not in job:
            body["schedule"] = {"type": "once", "at": rfc3339(created_at)}
        return body


def _entries(job: Any) -> list[Any]:
    """What a job says of those it depends on; what is no list is left to the check of its shape."""
    entries = job.get("dependsOn") if isinstance(job, dict) else None
    return entries if isinstance(entries, list) else []


def _with_id(entry: Any, ids: Mapping[str, str]) -> Any:
    if not isinstance(entry, dict) or "job" not in entry:
        return entry
    return {"jobId": ids[entry["job"]], **{field: value for field, value in entry.items() if field != "job"}}


def _with_sources(value: Any, ids: Mapping[str, str]) -> Any:
    """The payload with ids where `$from` names a job of this workflow."""
    if isinstance(value, list):
        return [_with_sources(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: ids[item] if key == "$from" and isinstance(item, str) and item in ids else _with_sources(item, ids)
        for key, item in value.items()
    }


def _local_edges(jobs: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """(job, index, local name of the parent) of each dependency by a local name."""
    for name, job in jobs.items():
        for index, entry in enumerate(_entries(job)):
            if isinstance(entry, dict) and "job" in entry:
                yield name, index, entry["job"]


def _wrong_edges(jobs: Mapping[str, Any]) -> Iterator[FieldProblem]:
    seen = set()
    for name, index, parent in _local_edges(jobs):
        field = f"jobs.{name}.dependsOn[{index}].job"
        if "jobId" in jobs[name]["dependsOn"][index]:
            yield FieldProblem(field, "is given beside jobId: a dependency names one job")
        elif not isinstance(parent, str) or parent not in jobs:
            yield FieldProblem(field, f"{shown(parent)} is none of the {len(jobs)} jobs of this workflow")
        elif parent == name:
            yield FieldProblem(field, f"{shown(parent)} is the job itself: no job can depend on itself")
        elif (name, parent) in seen:
            yield FieldProblem(field, f"{shown(parent)} is there already: name each job once")
        else:
            seen.add((name, parent))


def _must_not_be_too_many(jobs: Mapping[str, Any]) -> None:
    entries = [entry for job in jobs.values() for entry in _entries(job)]
    if len(entries) > MAX_EDGES:
        raise invalid("jobs", f"have {len(entries)} dependencies in all, over the limit of {MAX_EDGES}")
    outside = {str(entry["jobId"]) for entry in entries if isinstance(entry, dict) and "jobId" in entry}
    if len(outside) > MAX_OUTSIDERS:
        raise invalid("jobs", f"depend on {len(outside)} jobs outside, over the limit of {MAX_OUTSIDERS}")


def _must_have_no_cycle(jobs: Mapping[str, Any]) -> None:
    parents: dict[str, list[str]] = {name: [] for name in jobs}
    for name, _, parent in _local_edges(jobs):
        parents[name].append(parent)
    cycle = cycle_of(parents)
    if cycle is None:
        return
    child, parent = cycle[1], cycle[0]
    index = next(index for name, index, of in _local_edges(jobs) if (name, of) == (child, parent))
    raise invalid(f"jobs.{child}.dependsOn[{index}].job", f"{shown(parent)} closes the cycle {' → '.join(cycle)}")

"""Create a workflow: many jobs with their edges, all or nothing as a reader sees it.

    the ids, under the key → edges, and flags of parents that exist → the workflow's row → definitions
    → all state rows in one transaction → hints

A workflow's row without its jobs is not seen. Whatever dies in between, the same request with its key draws nothing
anew and goes through all of it again; nothing of it is harmed by being done twice (docs/workflows.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from functions.domain.caller import Caller
from functions.domain.commands import new_job
from functions.domain.decision import Due, waiting_hints
from functions.domain.definition import Definition
from functions.domain.errors import (
    ConflictError,
    FieldProblem,
    ForbiddenError,
    InvalidFieldError,
    InvalidRequestError,
    JobExistsError,
    PayloadTooLargeError,
)
from functions.domain.following import look_hint
from functions.domain.idempotency import IdempotencyKey
from functions.domain.job import Followed, Job, Upstream
from functions.domain.looks import LOOK_EVERY
from functions.domain.upstream import Parent, initial_marks
from functions.domain.workflow import generations
from functions.graph_ports import Workflow
from functions.parallel import for_all
from functions.usecases.dependencies import followed_parents, runs_once
from functions.usecases.jobs import JobDraft
from functions.usecases.quotas import add_recurring
from functions.usecases.services import Services
from functions.usecases.workflow_reading import Seen, rows_of, seen_of
from functions.usecases.writing import send_all

_CHILDREN = 4
"""Jobs whose edges are put at the same time; each child's are put side by side as it is."""
_REFUSALS = (InvalidFieldError, InvalidRequestError, PayloadTooLargeError, ForbiddenError, ConflictError)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDraft:
    """A workflow as a caller wants it, checked as far as that takes no stored state."""

    name: str
    jobs: tuple[str, ...]
    """Local names, in the order of the request."""
    owner: str | None = None
    """None for the caller's default."""
    read: Callable[[Mapping[str, str], int], Mapping[str, JobDraft]]
    """The jobs by local name, from their ids and the second of the workflow's creation. Raises InvalidRequestError,
    InvalidFieldError, PayloadTooLargeError."""


@dataclass(frozen=True, slots=True)
class WorkflowCreated:
    seen: Seen
    replayed: bool


@contextmanager
def field_of(name: str) -> Iterator[None]:
    """Errors of fields inside get the job before the field: `jobs.load.schedule`."""
    try:
        yield
    except InvalidFieldError as error:
        raise InvalidFieldError(f"jobs.{name}.{error.field}", error.message) from error
    except InvalidRequestError as error:
        details = tuple(FieldProblem(f"jobs.{name}.{one.field}", one.message) for one in error.details)
        raise InvalidRequestError(details) from error
    except PayloadTooLargeError as error:
        raise PayloadTooLargeError(f"jobs.{name}.{error.message}") from error


def create_workflow(
    services: Services,
    caller: Caller,
    draft: WorkflowDraft,
    *,
    check: Callable[[JobDraft], None],
    key: IdempotencyKey | None = None,
) -> WorkflowCreated:
    """Create the jobs with their edges; with a key, the same request again finds them, or makes them.

    Raises ForbiddenError, InvalidFieldError, InvalidRequestError, PayloadTooLargeError, IdempotencyKeyReusedError.
    """
    caller.must_write()
    caller.owner_of_new(draft.owner)
    now, names = services.clock.now(), sorted(draft.jobs)
    drawn: tuple[str, ...] = tuple(services.new_job_id() for _ in range(1 + len(names)))
    stored, replayed = None, False
    drafts = draft.read(dict(zip(names, drawn[1:], strict=True)), int(now))
    if key is not None:
        claim = services.idempotency.claim(key.scope, key.key, body_hash=key.body_hash, ids=drawn, now=now)
        drawn, replayed = claim.ids, claim.replayed
    ids = dict(zip(names, drawn[1:], strict=True))
    if replayed:
        stored = services.workflows.get(drawn[0])
        if stored is not None and (rows := rows_of(services, stored)):
            return WorkflowCreated(seen_of(services, stored, rows), replayed=True)
        drafts = draft.read(ids, int(now) if stored is None else stored.created_at)
    owner = caller.owner_of_new(draft.owner) if stored is None else stored.owner
    making = _Making(services, caller, draft, drawn[0], ids, owner)
    try:
        if stored is None:  # else it was allowed when the row was put
            making.check(drafts, check)
        return WorkflowCreated(making.make(drafts, int(now) if stored is None else stored.created_at), replayed)
    except _REFUSALS:
        if key is not None:
            services.idempotency.release(key.scope, key.key, claim)
        raise


@dataclass(frozen=True, slots=True)
class _Making:
    """One workflow that is being made. All of it may be repeated."""

    services: Services
    caller: Caller
    draft: WorkflowDraft
    workflow_id: str
    ids: Mapping[str, str]
    """Ids of the jobs by local name."""
    owner: str

    def make(self, drafts: Mapping[str, JobDraft], created_at: int) -> Seen:
        """`created_at`: the second that the drafts were read for."""
        definitions = self._definitions(drafts, created_at)
        once, upstreams = self._edges(definitions, created_at)
        workflow = self.services.workflows.put(
            Workflow(
                id=self.workflow_id,
                name=self.draft.name,
                owner=self.owner,
                created_by=self.caller.id,
                created_at=created_at,
                jobs=tuple((name, self.ids[name]) for name in self.draft.jobs),
            )
        )
        if workflow.created_at != created_at:  # the same request came twice at the same time
            drafts = self.draft.read(self.ids, workflow.created_at)
            definitions = self._definitions(drafts, workflow.created_at)
        self.services.owners.register(workflow.owner)
        jobs = self._jobs(workflow, drafts, definitions, once, upstreams)
        try:
            jobs = list(self.services.jobs.create_all(jobs))
        except JobExistsError:  # by the same request, which was not dead, or came twice
            return seen_of(self.services, workflow, rows_of(self.services, workflow))
        send_all(self.services, ((job, self._hints(job)) for job in jobs))
        return seen_of(self.services, workflow, {job.id: job for job in jobs})

    def check(self, drafts: Mapping[str, JobDraft], check: Callable[[JobDraft], None]) -> None:
        def one(name: str) -> None:
            with field_of(name):
                check(drafts[name])

        for_all(one, self.draft.jobs)
        definitions = self._definitions(drafts, int(self.services.clock.now()))
        recurring = sum(definition.schedule.recurring for definition in definitions.values())
        if recurring:
            add_recurring(self.services, self.owner, recurring)

    def _definitions(self, drafts: Mapping[str, JobDraft], created_at: int) -> dict[str, Definition]:
        definitions = {}
        for name, draft in drafts.items():
            with field_of(name):
                definitions[name] = Definition.read(
                    draft.document, draft.payload, job_id=self.ids[name], created_at=created_at
                )
        return definitions

    def _edges(
        self, definitions: Mapping[str, Definition], created_at: int
    ) -> tuple[dict[str, bool], dict[str, Upstream]]:
        """Put all edges, and follow the parents that exist; returns by local name which jobs run but once, and what
        those with parents know of them."""
        names = {job_id: name for name, job_id in self.ids.items()}
        local = {
            name: [names[one.job_id] for one in definition.depends_on if one.job_id in names]
            for name, definition in definitions.items()
        }
        known = {job_id: Parent(over=False) for job_id in names}
        upstreams: dict[str, Upstream] = {}

        def edges(name: str) -> None:
            definition, parents = definitions[name], list[Parent]()
            if definition.depends_on:
                with field_of(name):
                    parents = followed_parents(
                        self.services, self.owner, self.ids[name], definition.depends_on, known=known
                    )
                known_all = len(local[name]) == len(parents)
                upstreams[name] = Upstream(
                    marks=initial_marks(parents),
                    look_at=created_at + (min(LOOK_EVERY, definition.upstream_timeout) if known_all else 0),
                    since=created_at,
                )
            known[self.ids[name]] = Parent(over=False, once=runs_once(definition, parents))

        for generation in generations(local):
            for_all(edges, generation, at_once=_CHILDREN)
        return {name: known[job_id].once for name, job_id in self.ids.items()}, upstreams

    def _jobs(
        self,
        workflow: Workflow,
        drafts: Mapping[str, JobDraft],
        definitions: Mapping[str, Definition],
        once: Mapping[str, bool],
        upstreams: Mapping[str, Upstream],
    ) -> list[Job]:
        followed = {one.job_id for definition in definitions.values() for one in definition.depends_on}
        jobs = []
        for name in self.draft.jobs:
            with field_of(name):
                job = new_job(
                    self.ids[name],
                    definitions[name],
                    owner=workflow.owner,
                    created_by=workflow.created_by,
                    enabled=drafts[name].enabled is not False,
                    now=workflow.created_at,
                    write_id=self.services.new_write_id(),
                    upstream=upstreams.get(name),
                )
            job = replace(job, acted=self.caller.actor)
            if job.id in followed:
                job = replace(job, followed=Followed(ends=0, told=0, once=once[name]))
            jobs.append(job)
        return jobs

    def _hints(self, job: Job) -> tuple[Due, ...]:
        """Of those that run by their schedule, and of those with parents that were there before: only these may have
        something to tell by now."""
        now = int(self.services.clock.now())
        looks = job.upstream is not None and job.upstream.look_at is not None and job.upstream.look_at <= now
        return (*waiting_hints(job), *((look_hint(now),) if looks else ()))

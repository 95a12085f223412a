"""Routes of jobs and what callers do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.body import invalid
from functions.api.conditional import etag, is_unchanged
from functions.api.paging import paging_of
from functions.api.request import JSON_TYPE, MERGE_PATCH_TYPE, Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import DecisionBody, NoFields, RetryBody, TransferBody
from functions.api.validation import shown, validated
from functions.api.views import history_text, job_text, jobs_text
from functions.domain.caller import Caller
from functions.domain.job import JobStatus
from functions.domain.run import Decision
from functions.usecases import actions, approvals, cancelling, history, jobs

if TYPE_CHECKING:
    from functions.api.drafts import DraftReader
    from functions.domain.job import Job
    from functions.usecases.services import Services


class JobRoutes:
    def __init__(self, services: Services, drafts: DraftReader) -> None:
        self.services = services
        self.drafts = drafts

    def routes(self) -> tuple[Route, ...]:
        one = "/v1/jobs/{jobId}"
        return (
            Route("createJob", "POST", "/v1/jobs", Access.WRITE, self.create, creates=1, role=Caller.must_write),
            Route("listJobs", "GET", "/v1/jobs", Access.READ, self.list),
            Route("getJob", "GET", one, Access.READ, self.get),
            Route("replaceJob", "PUT", one, Access.WRITE, self.replace),
            Route("patchJob", "PATCH", one, Access.WRITE, self.patch),
            Route("deleteJob", "DELETE", one, Access.WRITE, self.delete),
            Route("pauseJob", "POST", f"{one}/pause", Access.WRITE, self.pause),
            Route("resumeJob", "POST", f"{one}/resume", Access.WRITE, self.resume),
            Route("transferJob", "POST", f"{one}/transfer", Access.WRITE, self.transfer),
            Route("executeJob", "POST", f"{one}/execute", Access.WRITE, self.execute),
            Route("retryJob", "POST", f"{one}/retry", Access.WRITE, self.retry),
            Route("cancelJob", "POST", f"{one}/cancel", Access.WRITE, self.cancel),
            Route("approveRun", "POST", f"{one}/approve", Access.WRITE, self.approve),
            Route("rejectRun", "POST", f"{one}/reject", Access.WRITE, self.reject),
            Route("listJobHistory", "GET", f"{one}/history", Access.READ, self.history),
        )

    def create(self, request: Request) -> Answer:
        request.query()
        body = request.json()
        key = request.idempotency_key(body)
        draft = self.drafts.new(body)
        caller = request.caller
        owner = draft.owner or caller.owner
        created = jobs.create_job(
            self.services, caller, draft, key=key, check=lambda: self.drafts.check_new(draft, owner=owner)
        )
        answer = _with_job(created.job, status=201)
        answer.headers["Location"] = f"/v1/jobs/{created.job.id}"
        if created.replayed:
            request.not_created = request.creations
            answer.headers["Idempotency-Replayed"] = "true"
        return answer

    def list(self, request: Request) -> Answer:
        query = request.query("owner", "status", "type", "tag", "silent", "limit", "cursor")
        paging = paging_of(query)
        status = query.get("status")
        if status is not None and status not in JobStatus.__members__:
            raise invalid("status", f"{shown(status)} is not one of {', '.join(JobStatus.__members__)}")
        silent = query.get("silent")
        if silent not in (None, "true", "false"):
            raise invalid("silent", f"{shown(silent)} is neither true nor false")
        filters = jobs.JobFilters(
            status=None if status is None else JobStatus(status),
            type=query.get("type"),
            tag=query.get("tag"),
            silent=None if silent is None else silent == "true",
        )
        page = jobs.list_jobs(
            self.services,
            request.caller,
            owner=query.get("owner"),
            filters=filters,
            limit=paging.limit,
            cursor=paging.cursor,
        )
        return Answer(200, jobs_text(page))

    def get(self, request: Request) -> Answer:
        request.query()
        job = jobs.read_job(self.services, request.caller, request.job_id)
        if is_unchanged(request.header("if-none-match"), job):
            return Answer(304, headers={"ETag": etag(job)})
        return _with_job(job)

    def replace(self, request: Request) -> Answer:
        request.query()
        self._must_write(request)
        change = self.drafts.replaced(request.json())
        return _with_job(
            jobs.change_job(self.services, request.caller, request.job_id, change=change, if_match=request.if_match)
        )

    def patch(self, request: Request) -> Answer:
        request.query()
        self._must_write(request)
        change = self.drafts.patched(request.json(MERGE_PATCH_TYPE, JSON_TYPE))
        return _with_job(
            jobs.change_job(self.services, request.caller, request.job_id, change=change, if_match=request.if_match)
        )

    def _must_write(self, request: Request) -> None:
        """Refuse callers who change nothing at all before their body is read, as everybody who may not: 404 for what
        they may not see, else 403."""
        if not request.caller.writes:
            jobs.read_job(self.services, request.caller, request.job_id)
            request.caller.must_write()

    def delete(self, request: Request) -> Answer:
        request.query()
        cancelling.delete_job(self.services, request.caller, request.job_id, if_match=request.if_match)
        return Answer(204)

    def pause(self, request: Request) -> Answer:
        _no_options(request)
        return _with_job(actions.pause_job(self.services, request.caller, request.job_id, if_match=request.if_match))

    def resume(self, request: Request) -> Answer:
        _no_options(request)
        return _with_job(actions.resume_job(self.services, request.caller, request.job_id, if_match=request.if_match))

    def cancel(self, request: Request) -> Answer:
        _no_options(request)
        job = cancelling.cancel_job(self.services, request.caller, request.job_id, if_match=request.if_match)
        return _with_job(job)

    def transfer(self, request: Request) -> Answer:
        request.query()
        self._must_write(request)
        options = validated(TransferBody, request.json())
        return _with_job(
            actions.transfer_job(
                self.services,
                request.caller,
                request.job_id,
                owner=options.owner,
                check=self.drafts.check_access,
                if_match=request.if_match,
            )
        )

    def execute(self, request: Request) -> Answer:
        key = request.idempotency_key(_no_options(request))
        return _with_job(
            actions.execute_job(
                self.services,
                request.caller,
                request.job_id,
                check=self.drafts.check_access,
                key=key,
                if_match=request.if_match,
            )
        )

    def retry(self, request: Request) -> Answer:
        request.query()
        body = request.json()
        options = validated(RetryBody, body)
        return _with_job(
            actions.retry_job(
                self.services,
                request.caller,
                request.job_id,
                check=self.drafts.check_access,
                delay_seconds=options.delay_seconds,
                key=request.idempotency_key(body),
                if_match=request.if_match,
            )
        )

    def approve(self, request: Request) -> Answer:
        return self._decide(request, Decision.APPROVED)

    def reject(self, request: Request) -> Answer:
        return self._decide(request, Decision.REJECTED)

    def _decide(self, request: Request, decision: Decision) -> Answer:
        request.query()
        body = request.json()
        options = validated(DecisionBody, body)
        wanted = approvals.GateDecision(decision=decision, run=options.run_id, comment=options.comment)
        return _with_job(
            approvals.decide_run(
                self.services,
                request.caller,
                request.job_id,
                wanted,
                key=request.idempotency_key(body),
                if_match=request.if_match,
            )
        )

    def history(self, request: Request) -> Answer:
        paging = paging_of(request.query("limit", "cursor"))
        page = history.job_history(
            self.services, request.caller, request.job_id, limit=paging.limit, cursor=paging.cursor
        )
        return Answer(200, history_text(page))


def _no_options(request: Request) -> object:
    """The body of an action that has no options; raises InvalidRequestError naming what it has."""
    request.query()
    body = request.json()
    validated(NoFields, body)
    return body


def _with_job(job: Job, *, status: int = 200) -> Answer:
    return Answer(status, job_text(job), {"ETag": etag(job), "Cache-Control": "private, no-cache"})

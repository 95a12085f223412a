"""Many jobs with one request: a result for each, whatever became of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.api.body import MAX_BULK_BODY_BYTES
from functions.api.problems import problem_of, problem_view
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import BulkBody
from functions.api.validation import validated
from functions.api.views import bulk_text
from functions.domain.caller import Caller
from functions.domain.errors import GnomonError
from functions.usecases.bulk import create_jobs

if TYPE_CHECKING:
    from functions.api.drafts import DraftReader
    from functions.domain.job import Job
    from functions.usecases.jobs import Created, JobDraft
    from functions.usecases.services import Services


class BulkRoutes:
    def __init__(self, services: Services, drafts: DraftReader) -> None:
        self.services = services
        self.drafts = drafts

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                "createJobs",
                "POST",
                "/v1/jobs/bulk",
                Access.WRITE,
                self.create,
                role=Caller.must_write,
            ),
        )

    def create(self, request: Request) -> Answer:
        request.query()
        items = items_of(request)
        request.create(len(items))
        drafts = [self._draft(item) for item in items]
        created = create_jobs(
            self.services,
            request.caller,
            drafts,
            check=lambda draft: self.drafts.check_new(draft, owner=draft.owner or request.caller.owner),
            key=request.idempotency_key(_body(request)),
        )
        request.not_created = sum(not _may_be_new(one) for one in created.results)
        headers = {"Cache-Control": "private, no-cache"}
        if created.replayed:
            headers["Idempotency-Replayed"] = "true"
        return Answer(200, bulk_text(_result(one, request.id) for one in created.results), headers)

    def _draft(self, item: Any) -> JobDraft | GnomonError:
        try:
            return self.drafts.new(item)
        except GnomonError as error:
            return error


def items_of(request: Request) -> list[Any]:
    """The items of the body; raises InvalidRequestError unless they are 1 to 100."""
    body = _body(request)
    validated(BulkBody, body)
    found: list[Any] = body["items"]
    return found


def _body(request: Request) -> Any:
    return request.json(limit=MAX_BULK_BODY_BYTES)


def _may_be_new(one: Created | GnomonError) -> bool:
    """Whether this request made the item's job, or may have."""
    return problem_of(one).status >= 500 if isinstance(one, GnomonError) else not one.replayed


def _result(one: Created | GnomonError, request_id: str) -> tuple[int, Job | dict[str, Any]]:
    if isinstance(one, GnomonError):
        return problem_of(one).status, problem_view(one, request_id)
    return 201, one.job

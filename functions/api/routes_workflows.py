"""Routes of workflows: jobs that are created together, looked at and steered as one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from functions.api.body import invalid
from functions.api.mermaid import mermaid_text
from functions.api.paging import paging_of
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import NoFields
from functions.api.validation import shown, validated
from functions.api.views_workflows import workflow_text, workflows_text
from functions.api.workflow_body import body_of, draft_of
from functions.domain.caller import Caller
from functions.domain.errors import NotFoundError
from functions.domain.ids import is_job_id
from functions.usecases.workflow_actions import cancel_workflow, retry_workflow
from functions.usecases.workflow_reading import list_workflows, read_workflow
from functions.usecases.workflows import create_workflow

if TYPE_CHECKING:
    from functions.api.drafts import DraftReader
    from functions.usecases.services import Services
    from functions.usecases.workflow_reading import Seen

FORMATS = ("json", "mermaid")
MERMAID_TYPE = "text/plain"


class WorkflowRoutes:
    def __init__(self, services: Services, drafts: DraftReader) -> None:
        self.services = services
        self.drafts = drafts

    def routes(self) -> tuple[Route, ...]:
        every, one = "/v1/workflows", "/v1/workflows/{workflowId}"
        return (
            Route(
                "createWorkflow",
                "POST",
                every,
                Access.WRITE,
                self.create,
                role=Caller.must_write,
            ),
            Route("listWorkflows", "GET", every, Access.READ, self.list),
            Route("getWorkflow", "GET", one, Access.READ, self.get, media=(MERMAID_TYPE, "text/*")),
            Route("cancelWorkflow", "POST", f"{one}/cancel", Access.WRITE, self.cancel),
            Route("retryWorkflow", "POST", f"{one}/retry", Access.WRITE, self.retry),
        )

    def create(self, request: Request) -> Answer:
        request.query()
        body = body_of(request)
        request.create(len(body["jobs"]))
        created = create_workflow(
            self.services,
            request.caller,
            draft_of(body, self.drafts),
            check=partial(self.drafts.check_new, owner=body.get("owner") or request.caller.owner),
            key=request.idempotency_key(body),
        )
        answer = self._answer(created.seen, status=201)
        answer.headers["Location"] = f"/v1/workflows/{created.seen.workflow.id}"
        if created.replayed:
            request.not_created = request.creations
            answer.headers["Idempotency-Replayed"] = "true"
        return answer

    def list(self, request: Request) -> Answer:
        query = request.query("owner", "limit", "cursor")
        paging = paging_of(query)
        page = list_workflows(
            self.services, request.caller, owner=query.get("owner"), limit=paging.limit, cursor=paging.cursor
        )
        return Answer(200, workflows_text(page))

    def get(self, request: Request) -> Answer:
        wanted = request.query("format").get("format", "json")
        if wanted not in FORMATS:
            raise invalid("format", f"{shown(wanted)} is none of {', '.join(FORMATS)}")
        seen = read_workflow(self.services, request.caller, workflow_id_of(request))
        if wanted == "json":
            return self._answer(seen)
        return Answer(200, mermaid_text(seen.members), content_type=f"{MERMAID_TYPE}; charset=utf-8")

    def cancel(self, request: Request) -> Answer:
        request.query()
        validated(NoFields, request.json())
        return self._answer(cancel_workflow(self.services, request.caller, workflow_id_of(request)))

    def retry(self, request: Request) -> Answer:
        request.query()
        body = request.json()
        validated(NoFields, body)
        key = request.idempotency_key(body)
        return self._answer(
            retry_workflow(
                self.services, request.caller, workflow_id_of(request), check=self.drafts.check_access, key=key
            )
        )

    def _answer(self, seen: Seen, *, status: int = 200) -> Answer:
        text = workflow_text(seen, self.services.clock.now())
        return Answer(status, text, {"Cache-Control": "private, no-cache"})


def workflow_id_of(request: Request) -> str:
    """The path's id; raises NotFoundError for what is none."""
    text = request.params["workflowId"]
    if not is_job_id(text):
        raise NotFoundError
    return text

"""Routes by which the holder of a running execution says how it goes, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.body import compact, invalid
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.routes_executions import execution_id_of
from functions.api.schemas_work import CompleteBody, FailBody, ProgressBody
from functions.api.validation import validated
from functions.api.views import execution_text, progress_view
from functions.domain.claims import Holder
from functions.domain.errors import PayloadTooLargeError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.outcome import TargetAnswer
from functions.domain.progress import Progress
from functions.domain.result import RESULT_BYTES, RESULT_LEVELS, ResultTooLargeError, json_text
from functions.usecases import reports

if TYPE_CHECKING:
    from functions.usecases.services import Services


class ReportRoutes:
    def __init__(self, services: Services) -> None:
        self.services = services

    def routes(self) -> tuple[Route, ...]:
        one = "/v1/executions/{executionId}"
        return (
            Route("reportProgress", "POST", f"{one}/progress", Access.WORK, self.progress, for_reporters=True),
            Route("completeExecution", "POST", f"{one}/complete", Access.WORK, self.complete, for_reporters=True),
            Route("failExecution", "POST", f"{one}/fail", Access.WORK, self.fail, for_reporters=True),
        )

    def progress(self, request: Request) -> Answer:
        request.query()
        body = validated(ProgressBody, request.json())
        holder = _holder(body.worker_id, body.fence, body.token)
        execution = execution_id_of(request)
        progress = Progress(percent=body.percent, message=body.message)
        kept = reports.report_progress(self.services, request.caller, execution, holder, progress)
        return Answer(200, compact({"id": execution, "recorded": kept, "progress": progress_view(progress)}))

    def complete(self, request: Request) -> Answer:
        request.query()
        body = validated(CompleteBody, request.json())
        holder = _holder(body.worker_id, body.fence, body.token)
        answer = TargetAnswer(status=ExecutionStatus.COMPLETED, result=_result(body.result))
        return self._end(request, holder, answer)

    def fail(self, request: Request) -> Answer:
        request.query()
        body = validated(FailBody, request.json())
        holder = _holder(body.worker_id, body.fence, body.token)
        answer = TargetAnswer(
            status=ExecutionStatus.FAILED,
            error=ExecutionError(code=body.error.code, message=body.error.message),
            retryable=body.error.retryable,
            retry_after=body.retry_after_seconds,
        )
        return self._end(request, holder, answer)

    def _end(self, request: Request, holder: Holder, answer: TargetAnswer) -> Answer:
        execution = execution_id_of(request)
        return Answer(
            200, execution_text(reports.end_execution(self.services, request.caller, execution, holder, answer))
        )


def _holder(worker_id: str | None, fence: int | None, token: str | None) -> Holder:
    """Raises InvalidRequestError unless it is a worker with its fence, or a token, and not both."""
    if token is not None:
        if worker_id is not None or fence is not None:
            raise invalid("token", "stands alone: `workerId` and `fence` are for what a poll has given")
        return Holder(token=token)
    if worker_id is None:
        raise invalid("workerId", "is required beside `fence`; a target that was sent a token sends `token` instead")
    if fence is None:
        raise invalid("fence", "is required beside `workerId`")
    return Holder(worker_id=worker_id, fence=fence)


def _result(value: object) -> str | None:
    """The result as JSON text; None for `null`. Raises PayloadTooLargeError or InvalidRequestError."""
    try:
        text = json_text(value)
    except ResultTooLargeError as error:
        raise PayloadTooLargeError(
            f"result has {error.size} bytes of JSON, over the limit of {RESULT_BYTES}: keep it elsewhere."
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise invalid("result", f"is no JSON of at most {RESULT_LEVELS} levels") from error
    return None if text == "null" else text

"""The one table from what went wrong to what the client is told, and the shape of every error answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from functions.domain.errors import (
    ConflictError,
    CorruptDefinitionError,
    FieldProblem,
    ForbiddenError,
    GnomonError,
    GraphChangedError,
    IdempotencyKeyReusedError,
    InvalidFieldError,
    InvalidRequestError,
    JobExistsError,
    LostRaceError,
    NotFoundError,
    NotStartedError,
    NotYoursError,
    PayloadTooLargeError,
    PreconditionFailedError,
    RateLimitedError,
    RevokedError,
    UnavailableError,
    UnreadablePayloadError,
    UnreadableRowError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnauthorizedError(GnomonError):
    """An access token of this stage's user pool is needed."""


class MethodNotAllowedError(GnomonError):
    """This path does not take this method."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"This path takes {', '.join(allowed)} only.")
        self.allowed = allowed


class NotAcceptableError(GnomonError):
    """This API answers application/json or application/vnd.gnomon.v1+json."""


class UnsupportedMediaTypeError(GnomonError):
    """The body's Content-Type is not one this operation reads."""


class Problem(NamedTuple):
    status: int
    code: str


PROBLEMS: Mapping[type[GnomonError], Problem] = {
    InvalidFieldError: Problem(400, "VALIDATION_ERROR"),
    InvalidRequestError: Problem(400, "VALIDATION_ERROR"),
    UnauthorizedError: Problem(401, "UNAUTHORIZED"),
    RevokedError: Problem(401, "UNAUTHORIZED"),
    ForbiddenError: Problem(403, "FORBIDDEN"),
    NotFoundError: Problem(404, "NOT_FOUND"),
    MethodNotAllowedError: Problem(405, "METHOD_NOT_ALLOWED"),
    NotAcceptableError: Problem(406, "NOT_ACCEPTABLE"),
    ConflictError: Problem(409, "CONFLICT"),
    JobExistsError: Problem(409, "CONFLICT"),
    NotYoursError: Problem(409, "CONFLICT"),
    PreconditionFailedError: Problem(412, "PRECONDITION_FAILED"),
    PayloadTooLargeError: Problem(413, "PAYLOAD_TOO_LARGE"),
    UnsupportedMediaTypeError: Problem(415, "UNSUPPORTED_MEDIA_TYPE"),
    IdempotencyKeyReusedError: Problem(422, "IDEMPOTENCY_KEY_REUSED"),
    RateLimitedError: Problem(429, "RATE_LIMITED"),
    CorruptDefinitionError: Problem(500, "INTERNAL_ERROR"),
    UnreadablePayloadError: Problem(500, "INTERNAL_ERROR"),
    UnreadableRowError: Problem(500, "INTERNAL_ERROR"),
    LostRaceError: Problem(503, "UNAVAILABLE"),
    GraphChangedError: Problem(503, "UNAVAILABLE"),
    NotStartedError: Problem(503, "UNAVAILABLE"),
    UnavailableError: Problem(503, "UNAVAILABLE"),
}

FAULT = Problem(500, "INTERNAL_ERROR")
"""Whatever has no line above: a fault of ours or of the platform."""

RETRY_AFTER_UNAVAILABLE = 1
"""Seconds a client waits after a 503."""


def problem_of(error: Exception) -> Problem:
    return PROBLEMS.get(type(error), FAULT) if isinstance(error, GnomonError) else FAULT


def problem_body(error: Exception, request_id: str) -> str:
    """JSON text of the error answer."""
    return json.dumps({"error": problem_view(error, request_id)}, separators=(",", ":"))


def problem_view(error: Exception, request_id: str) -> dict[str, Any]:
    """What a client is told. A fault says nothing of its cause: that is in the log, under the request's id."""
    problem = problem_of(error)
    details: tuple[FieldProblem, ...] = ()
    message = "Something went wrong on our side; the log has it under this request id."
    if isinstance(error, InvalidFieldError):
        details = (FieldProblem(error.field, error.message),)
    elif isinstance(error, InvalidRequestError):
        details = error.details
    elif isinstance(error, NotYoursError):
        details = tuple(FieldProblem(execution, what) for execution, what in error.gone.items())
    if details:
        message = "; ".join(_sentence(detail) for detail in details[:3])
        if len(details) > 3:
            message += f"; and {len(details) - 3} more"
    elif isinstance(error, GnomonError):
        message = error.message
    return {
        "code": problem.code,
        "message": message,
        "details": [{"field": detail.field, "message": detail.message} for detail in details],
        "requestId": request_id,
    }


def _sentence(problem: FieldProblem) -> str:
    return problem.message if problem.message.startswith(problem.field) else f"{problem.field}: {problem.message}"


def problem_headers(error: Exception) -> dict[str, str]:
    """The headers this error's answer carries beside the usual ones."""
    if isinstance(error, RateLimitedError):
        return {
            "Retry-After": str(error.retry_after),
            "RateLimit-Limit": str(error.limit),
            "RateLimit-Remaining": "0",
            "RateLimit-Reset": str(error.retry_after),
        }
    if isinstance(error, MethodNotAllowedError):
        return {"Allow": ", ".join(error.allowed)}
    if isinstance(error, UnauthorizedError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, (UnavailableError, LostRaceError, GraphChangedError)):
        return {"Retry-After": str(RETRY_AFTER_UNAVAILABLE)}
    return {}

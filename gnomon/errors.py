"""What can go wrong between a person and the API. The message says what happened; `advice` what to do next."""

from __future__ import annotations

from typing import NamedTuple


class FieldProblem(NamedTuple):
    """One field the API refused: its dotted path, and a message naming the value and the limit."""

    field: str
    message: str


class GnomonError(Exception):
    """An expected failure: its message is for people, without a traceback."""

    advice: str | None = None

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        super().__init__(message)
        if advice is not None:
            self.advice = advice


class UsageError(GnomonError):
    """A flag, a file or a setting cannot be used as given."""


class UnreachableError(GnomonError):
    """No answer came from the API."""


class GnomonApiError(GnomonError):
    """The API refused or failed.

    `status` is the HTTP status, `code` the contract's error code (`VALIDATION_ERROR`, `NOT_FOUND`, …). What API Gateway
    itself answers carries no code: then it is `UNAUTHORIZED`, `RATE_LIMITED` or `HTTP_<status>`.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: tuple[FieldProblem, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id
        self.advice = _ADVICE.get(status)

    def __str__(self) -> str:
        fields = "".join(
            f"; {problem.field}: {problem.message}" for problem in self.details if problem.message not in self.message
        )
        return f"{self.code} ({self.status}): {self.message}{fields}"


_ADVICE = {
    401: "The token is missing, expired or of another user pool: `make up` renews those of the local stack, "
    "elsewhere set GNOMON_TOKEN to a fresh access token.",
    403: "Use a token of a role that may do this: --role admin, or GNOMON_TOKEN.",
    404: "`gnomon jobs list` shows your own jobs, `gnomon jobs list --owner '*'` all that your role may see.",
    409: "`gnomon jobs get JOB_ID` shows the job's status.",
    412: "Somebody changed the job: read it again and repeat with its new revision.",
    413: "A payload holds at most 131 072 bytes, a body 256 KB: keep large data in S3 and send its key.",
    422: "Repeat with the same body, or use a new --idempotency-key.",
    429: "Too many requests: wait, then repeat.",
    500: "Repeat; if it stays, look for the request id in the API function's log.",
    503: "The service is busy: repeat in a moment.",
}

"""What can go wrong between a person and the API. The message says what happened; `advice` what to do next."""

from __future__ import annotations

from typing import NamedTuple


class FieldProblem(NamedTuple):
    """One field the API refused: its dotted path, and a message naming the value and the limit."""

    field: str
    message: str


class GnomonError(Exception):
    """An expected failure: its message is for people, without a traceback."""

    code = "ERROR"
    """For programs; of the API's own codes where it refused."""
    advice: str | None = None

    def __init__(self, message: str, *, advice: str | None = None, details: tuple[FieldProblem, ...] = ()) -> None:
        super().__init__(message)
        self.details = details
        if advice is not None:
            self.advice = advice


class UsageError(GnomonError):
    """A flag, a file or a setting cannot be used as given."""

    code = "USAGE_ERROR"


class NoStackError(UsageError):
    """Nothing names a stack."""


class NotFoundError(GnomonError):
    """Nothing has the name that was given."""

    code = "NOT_FOUND"


class AmbiguousNameError(GnomonError):
    """Several have the name that was given; `details` names them."""

    code = "AMBIGUOUS_NAME"


class UnreachableError(GnomonError):
    """No answer came from the API."""

    code = "UNREACHABLE"


class CredentialsError(GnomonError):
    """The token endpoint refuses the client credentials."""

    code = "CREDENTIALS_REFUSED"
    advice = "Check GNOMON_CLIENT_ID, GNOMON_CLIENT_SECRET, GNOMON_TOKEN_URL and GNOMON_SCOPE."


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
        about: str = "jobs",
    ) -> None:
        """`about`: the resource, as paths name it."""
        super().__init__(message, details=details)
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.advice = advice_for(status, about)

    def __str__(self) -> str:
        fields = "".join(
            f"; {problem.field}: {problem.message}" for problem in self.details if problem.message not in self.message
        )
        return f"{self.code} ({self.status}): {self.message}{fields}"


def advice_for(status: int, about: str) -> str | None:
    """What to do about an HTTP status of a resource."""
    return _ADVICE_ABOUT.get((status, about)) or _ADVICE.get(status)


_ADVICE = {
    401: "The token is missing, expired or of another user pool. On the local stack `make up` renews the tokens. "
    "Elsewhere set GNOMON_TOKEN to a fresh access token, or GNOMON_CLIENT_ID, GNOMON_CLIENT_SECRET and "
    "GNOMON_TOKEN_URL, with which tokens are renewed by themselves.",
    403: "Use a token of a role that may do this: --role admin, or GNOMON_TOKEN.",
    413: "A payload holds at most 131 072 bytes, a body 256 KB: keep large data in S3 and send its key.",
    422: "Repeat with the same body, or use a new --idempotency-key.",
    429: "Too many requests: wait, then repeat.",
    500: "Repeat. If the error stays, look for the request id in the API function's log.",
    503: "The service is busy: repeat in a moment.",
}
_ADVICE_ABOUT = {
    (404, "jobs"): "`gnomon jobs list` shows your own jobs, `gnomon jobs list --owner '*'` all that your role may see.",
    (404, "workflows"): "`gnomon workflow list` shows your own workflows.",
    (404, "retry-configs"): "`gnomon types list` shows the types that are configured.",
    (404, "circuits"): "`gnomon circuits list` shows the circuits that have counted anything.",
    (404, "webhook-keys"): "Leave --owner out for your own key: an owner without jobs has none.",
    (404, "admin"): "SUBJECT is a user's `sub` or a machine's client id.",
    (404, "executions"): "`gnomon jobs history JOB` shows a job's executions.",
    (409, "jobs"): "`gnomon jobs get JOB` shows the job's status.",
    (409, "workflows"): "`gnomon workflow get WORKFLOW` shows the states of its jobs.",
    (412, "jobs"): "Read the job again and repeat with its ETag or revision.",
}

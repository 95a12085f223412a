"""What can go wrong, one class a situation. The docstring's first line is the default message."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.domain.job import Job


class FieldProblem(NamedTuple):
    """One thing wrong with one field: its dotted path, and a message naming the value and the limit."""

    field: str
    message: str


class GnomonError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n", 1)[0])

    @property
    def message(self) -> str:
        return str(self)


class InvalidFieldError(GnomonError):
    """A field has a value that is not allowed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class InvalidRequestError(GnomonError):
    """The request is not valid."""

    def __init__(self, details: tuple[FieldProblem, ...] = (), message: str | None = None) -> None:
        super().__init__(message)
        self.details = details


class NotFoundError(GnomonError):
    """There is nothing here, or nothing you may see."""


class ForbiddenError(GnomonError):
    """Your role does not allow this."""


class ConflictError(GnomonError):
    """The job's state does not allow this."""


class NotYoursError(ConflictError):
    """Some of these executions are not this worker's any more."""

    def __init__(self, gone: Mapping[str, str]) -> None:
        """`gone`: what became of each, by its id: LOST, or the status it has ended with."""
        super().__init__("; ".join(f"{what}: {execution}" for execution, what in gone.items()))
        self.gone = dict(gone)


class PreconditionFailedError(GnomonError):
    """The job does not have the revision that If-Match names: read it again and repeat with its ETag."""


class IdempotencyKeyReusedError(GnomonError):
    """This idempotency key was used with another body in the last hour: use a new key."""


class PayloadTooLargeError(GnomonError):
    """The body or the payload is larger than allowed."""


class RateLimitedError(GnomonError):
    """Too many requests."""

    def __init__(self, message: str | None = None, *, retry_after: int, limit: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.limit = limit


class RevokedError(GnomonError):
    """Your access was revoked: ask an administrator."""


class UnavailableError(GnomonError):
    """The service cannot do this just now: try again."""


class JobExistsError(GnomonError):
    """A job with this id exists."""


class LostRaceError(GnomonError):
    """Another write came first.

    `current` is the row as that write left it, with its definition where it has one; None when the row is gone.
    """

    def __init__(self, current: Job | None) -> None:
        super().__init__()
        self.current = current


class GraphChangedError(GnomonError):
    """Edges were added to the owner's graph since its version was read: check for cycles again."""


class CorruptDefinitionError(GnomonError):
    """The stored definition of the job cannot be read."""


class UnreadablePayloadError(CorruptDefinitionError):
    """The stored payload of the job cannot be read. Replace it: PUT the job, or PATCH its payload."""


class UnreadableRowError(CorruptDefinitionError):
    """The stored row of the job cannot be read."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"The stored row of job {job_id} cannot be read by this release: whoever operates the stage repairs it "
            "(runbook, Rows that cannot be read)."
        )


class HintNotSentError(GnomonError):
    """A hint could not be sent; the sweep brings it instead."""


TRANSIENT = (UnavailableError, LostRaceError, GraphChangedError, HintNotSentError)
"""What another try, a little later, need not meet again."""


class NotStartedError(GnomonError):
    """The state machine has certainly not started the attempt.

    `busy`: for now; otherwise it is refused until somebody repairs the stage.
    """

    def __init__(self, message: str | None = None, *, busy: bool) -> None:
        super().__init__(message)
        self.busy = busy

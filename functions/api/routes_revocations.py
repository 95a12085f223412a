"""Routes of revocations: an administrator shuts a caller out at once, whatever tokens it still holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from functions.api.body import compact, invalid
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.schemas import NoFields
from functions.api.validation import shown, validated
from functions.domain.errors import ConflictError
from functions.domain.instants import rfc3339

if TYPE_CHECKING:
    from functions.domain.caller import Caller
    from functions.limit_ports import RateLimits
    from functions.ports import Clock

SUBJECT = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_+]{20,128}"
"""Of Cognito: a user's `sub`, or a client id. A user's name or address would not shut anyone out."""


def must_administer(caller: Caller) -> None:
    caller.must_administer("who may call")


class RevocationRoutes:
    def __init__(self, limits: RateLimits, clock: Clock) -> None:
        self.limits = limits
        self.clock = clock

    def routes(self) -> tuple[Route, ...]:
        one = "/v1/admin/revocations/{subject}"
        return (
            Route("revokeSubject", "PUT", one, Access.WRITE, self.put, role=must_administer),
            Route("restoreSubject", "DELETE", one, Access.WRITE, self.delete, role=must_administer),
        )

    def put(self, request: Request) -> Answer:
        request.query()
        validated(NoFields, request.json())
        subject = _subject(request)
        if subject == request.caller.id:
            raise ConflictError("You cannot revoke your own access: another administrator can.")
        since = self.limits.revoke(subject, now=self.clock.now())
        return Answer(200, compact({"subject": subject, "revokedAt": rfc3339(since)}))

    def delete(self, request: Request) -> Answer:
        request.query()
        self.limits.restore(_subject(request), now=self.clock.now())
        return Answer(204)


def _subject(request: Request) -> str:
    subject = request.params["subject"]
    if not re.fullmatch(SUBJECT, subject, re.ASCII):
        raise invalid(
            "subject",
            f"{shown(subject)} is neither a user's sub nor a machine's client id; "
            "`aws cognito-idp admin-get-user` shows the sub of a user name",
        )
    return subject

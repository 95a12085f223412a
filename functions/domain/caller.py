"""Who calls, and what they may see and do (docs/http-api.md)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from functions.domain.errors import ForbiddenError, InvalidFieldError, NotFoundError

MAX_OWNER_BYTES = 1_024
"""Longest name of an owner that is looked for. A group of the user pool has at most 128 characters (Cognito), an owner
at most 512 bytes; a partition key in DynamoDB takes 2,048."""


class Role(enum.StrEnum):
    ADMIN = "admin"
    """Reads and changes everything."""
    SCHEDULER = "scheduler"
    """Reads everything; creates, changes and deletes its own."""
    READER = "reader"
    """Reads everything, changes nothing (a machine client with `gnomon/read`)."""
    VIEWER = "viewer"
    """Reads its own."""
    REPORTER = "reporter"
    """Reports on attempts by callback token, and does nothing else (a machine client with `gnomon/report`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    id: str
    """Subject of the token: a user's `sub` or a machine's client id."""
    owner: str
    """Who owns what this caller makes: its team's group, else itself."""
    roles: frozenset[Role]
    groups: frozenset[str] = frozenset()
    """Groups of the user pool it is in, those that are roles or teams included; none for a machine."""
    names: frozenset[str] = frozenset()
    """What a list of callers may name it by: its id, its username, its e-mail address."""

    @property
    def reads_all(self) -> bool:
        """Whether this caller sees what others own."""
        return bool(self.roles & {Role.ADMIN, Role.SCHEDULER, Role.READER})

    def must_read(self, owner: str) -> None:
        """Raises NotFoundError for what this caller may not see: it is not told that it exists."""
        if owner != self.owner and not self.reads_all:
            raise NotFoundError

    def may_list(self, what: str, owner: str | None) -> str:
        """The owner whose list the caller asks for: its own unless `owner` names another, or all of them by `*`.

        Raises ForbiddenError for callers that see their own only, and InvalidFieldError for what can be no owner.
        """
        wanted = owner or self.owner
        if wanted != self.owner and not self.reads_all:
            raise ForbiddenError(f"Your role lists its own {what} only: leave `owner` out.")
        size = len(wanted.encode(errors="surrogatepass"))
        if size > MAX_OWNER_BYTES:
            raise InvalidFieldError("owner", f"owner has {size} bytes of UTF-8; the limit is {MAX_OWNER_BYTES}.")
        return wanted

    @property
    def only_reports(self) -> bool:
        """Whether this caller may do nothing but report by callback token."""
        return self.roles == {Role.REPORTER}

    @property
    def writes(self) -> bool:
        """Whether this caller may change anything at all."""
        return bool(self.roles & {Role.ADMIN, Role.SCHEDULER})

    def must_write(self) -> None:
        """Raises ForbiddenError for callers that change nothing at all."""
        if not self.writes:
            raise ForbiddenError("Your role reads only; changing jobs takes the group scheduler or admin.")

    def must_administer(self, what: str) -> None:
        """Raises ForbiddenError for all but admins; `what` names what only they change."""
        if Role.ADMIN not in self.roles:
            raise ForbiddenError(f"Changing {what} takes the group admin.")

    def must_change(self, owner: str) -> None:
        """Raises NotFoundError or ForbiddenError unless the caller may change what `owner` owns."""
        self.must_read(owner)
        self.must_write()
        if owner != self.owner and Role.ADMIN not in self.roles:
            raise ForbiddenError("This belongs to another owner; changing it takes the group admin.")

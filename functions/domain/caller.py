"""Who calls, and what they may see and do (docs/http-api.md)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from functions.domain.actor import Actor, ActorKind
from functions.domain.errors import ForbiddenError, InvalidFieldError, NotFoundError
from functions.domain.target_url import one_of

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
    """Who owns what this caller makes and names no owner for: its only team, else itself."""
    roles: frozenset[Role]
    teams: frozenset[str] = frozenset()
    """The teams it acts for, `team-…`, besides itself."""
    groups: frozenset[str] = frozenset()
    """Groups of the user pool it is in, those that are roles or teams included; none for a machine."""
    names: frozenset[str] = frozenset()
    """What a list of callers may name it by: its id, its username, its e-mail address."""
    kind: ActorKind = ActorKind.PERSON
    client_id: str | None = None
    """The app client that the token was given to."""

    @property
    def actor(self) -> Actor:
        """Who it is, for what is kept and told of its actions."""
        return Actor(id=self.id, kind=self.kind, client_id=self.client_id)

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners it acts for: itself and each of its teams, in the order of their names."""
        return tuple(sorted({self.id, self.owner, *self.teams}))

    def acts_for(self, owner: str) -> bool:
        return owner in (self.id, self.owner) or owner in self.teams

    def owner_of_new(self, wanted: str | None) -> str:
        """Who owns something that this caller makes; raises ForbiddenError for an owner it does not act for."""
        if wanted is None:
            return self.owner
        if not self.acts_for(wanted):
            raise ForbiddenError(f'owner must be one of {one_of(self.owners)}, got "{wanted[:128]}".')
        return wanted

    def must_list(self, owner: str | None, what: str) -> tuple[str, ...]:
        """The owners whose lists these are, all of its own for None; raises ForbiddenError where it may not see one."""
        if owner is None:
            return self.owners
        size = len(owner.encode(errors="surrogatepass"))
        if not 0 < size <= MAX_OWNER_BYTES:
            raise InvalidFieldError("owner", f"owner has {size} bytes of UTF-8; 1 to {MAX_OWNER_BYTES} are allowed.")
        if not self.reads_all and not self.acts_for(owner):
            raise ForbiddenError(f"Your role lists its own {what} only: owner must be one of {one_of(self.owners)}.")
        return (owner,)

    @property
    def reads_all(self) -> bool:
        """Whether this caller sees what others own."""
        return bool(self.roles & {Role.ADMIN, Role.SCHEDULER, Role.READER})

    def must_read(self, owner: str) -> None:
        """Raises NotFoundError for what this caller may not see: it is not told that it exists."""
        if not self.acts_for(owner) and not self.reads_all:
            raise NotFoundError

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
        if not self.acts_for(owner) and Role.ADMIN not in self.roles:
            raise ForbiddenError("This belongs to another owner; changing it takes the group admin.")

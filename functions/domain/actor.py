"""Who did something: a person, a machine, or the product itself."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class ActorKind(enum.StrEnum):
    PERSON = "person"
    MACHINE = "machine"
    """A program with client credentials."""
    SYSTEM = "system"
    """The product, without a caller."""


class Actor(NamedTuple):
    id: str
    """A user's `sub`, a machine's client id; for the product a word such as `timeout`."""
    kind: ActorKind
    client_id: str | None = None
    """The app client by which it called."""

    @property
    def facts(self) -> dict[str, Any]:
        """As events say it."""
        return {"id": self.id, "kind": self.kind.value, "client_id": self.client_id}

    def as_text(self) -> str:
        """For a row: `person <client id> <id>`."""
        return f"{self.kind.value} {self.client_id or ''} {self.id}"

    @classmethod
    def read(cls, text: str) -> Actor:
        """Raises ValueError for what is not the text of an actor."""
        kind, client_id, actor_id = text.split(" ", 2)
        return cls(id=actor_id, kind=ActorKind(kind), client_id=client_id or None)

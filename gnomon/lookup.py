"""From what a person types to an id: a whole id, its first characters, or a name.

Ids cost nothing. The others read the caller's own list, 100 entries a request and 1,000 at most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gnomon.errors import AmbiguousNameError, FieldProblem, NotFoundError, UsageError
from gnomon.paging import Pages

SHORTEST = 4
"""First characters of an id, at least."""
MOST_READ = 1_000
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BEGINNING = re.compile(r"[0-9a-f-]+")
_SHOWN = 10


@dataclass(slots=True, kw_only=True)
class Finder:
    """Finds jobs, or workflows, in a list that is read once, when it is first needed."""

    what: str
    """What is found, for messages: `job`."""
    read: Callable[[], Pages[Any]]
    advice: str | None
    _read: list[dict[str, Any]] | None = field(default=None, init=False)
    _is_all: bool = field(default=True, init=False)

    def id_of(self, given: str) -> str:
        """The id; raises NotFoundError, or AmbiguousNameError naming those that could be meant."""
        lower = given.lower()
        if _ID.fullmatch(lower):
            return lower
        if not given:
            raise UsageError(f"The {self.what}'s id or name is empty.")
        is_beginning = len(lower) >= SHORTEST and _BEGINNING.fullmatch(lower) is not None
        found = [
            one for one in self._list() if one.get("name") == given or (is_beginning and one["id"].startswith(lower))
        ]
        if not found:
            raise self._missing(given)
        if len(found) > 1:
            raise self._ambiguous(given, found)
        if not self._is_all:
            raise AmbiguousNameError(
                f"{given} may not be the only {self.what} of that name: there are more than {MOST_READ:,}.",
                advice=f"The newest is {found[0]['id']}: give the id.",
            )
        return str(found[0]["id"])

    def _list(self) -> list[dict[str, Any]]:
        if self._read is None:
            page = self.read().take(MOST_READ)
            self._read, self._is_all = page["data"], not page.get("pagination", {}).get("cursor")
        return self._read

    def _missing(self, given: str) -> NotFoundError:
        where = f"your {self.what}s" if self._is_all else f"your newest {MOST_READ:,} {self.what}s"
        return NotFoundError(
            f"None of {where} is named {given}, or has an id that begins so ({SHORTEST} characters or more).",
            advice=self.advice,
        )

    def _ambiguous(self, given: str, found: Iterable[dict[str, Any]]) -> AmbiguousNameError:
        meant = tuple(FieldProblem(str(one["id"]), f"{one.get('name', '')} {one.get('status', '')}") for one in found)
        more = f" The first {_SHOWN} are named here." if len(meant) > _SHOWN else ""
        return AmbiguousNameError(
            f"{given} may be {len(meant)} {self.what}s.{more}",
            advice="Give more of the id.",
            details=meant[:_SHOWN],
        )

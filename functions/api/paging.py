"""Query parameters that lists share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from functions.api.body import invalid
from functions.api.validation import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
MAX_CURSOR_LENGTH = 2_048


class Paging(NamedTuple):
    limit: int
    cursor: str | None


def paging_of(query: Mapping[str, str]) -> Paging:
    """Raises InvalidRequestError for a limit outside 1 to 100, or a cursor that no list hands out."""
    cursor = query.get("cursor")
    if cursor is not None and not 1 <= len(cursor) <= MAX_CURSOR_LENGTH:
        raise invalid("cursor", "is none that a list handed out")
    return Paging(whole_number(query, "limit", default=DEFAULT_LIMIT, most=MAX_LIMIT), cursor)


def whole_number(query: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """The parameter as a number from 1 to `most`; raises InvalidRequestError."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise invalid(name, f"{shown(text)} is not a whole number from 1 to {most}")
    return int(text)

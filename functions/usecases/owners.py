"""Lists over all owners (`owner=*`), owner by owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from functions.domain.cursor import read_cursor, write_cursor
from functions.ports import Page

EVERYBODY = "*"
"""`owner` of a list over all owners."""

Item = TypeVar("Item")


def list_everybodys(
    owners: Iterable[str],
    of: Callable[[str, int, str | None], Page[Item]],
    *,
    limit: int,
    cursor: str | None,
    scope: str = EVERYBODY,
) -> Page[Item]:
    """Owners in the order of their names: all of them, or those that `scope` names for the cursor.

    `of` returns a page of one owner's list, for a limit and a cursor of that list; the cursor names the owner and the
    place in its list.
    """
    items: list[Item] = []
    at, inner = _parse(cursor, scope)
    following = iter(owner for owner in sorted(owners) if owner >= at)
    owner = next(following, None)
    if owner != at:
        inner = None
    while owner is not None:
        page = of(owner, limit - len(items), inner)
        items += page.items
        if page.cursor is not None:
            return Page(items=items, cursor=_write(owner, page.cursor, scope))
        owner, inner = next(following, None), None
        if len(items) >= limit and owner is not None:
            return Page(items=items, cursor=_write(owner, None, scope))
    return Page(items=items)


def _write(owner: str, inner: str | None, scope: str) -> str:
    # The place in the owner's list is a cursor itself, and has no colon.
    return write_cursor(f"{inner or ''}:{owner}", scope=scope)


def _parse(cursor: str | None, scope: str) -> tuple[str, str | None]:
    if cursor is None:
        return "", None
    inner, _, owner = read_cursor(cursor, scope=scope).partition(":")
    return owner, inner or None

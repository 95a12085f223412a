"""Lists of the API, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

Entry = TypeVar("Entry")
MOST_ENTRIES = 100
"""A page has at most so many."""


class Pages(Iterator[Entry], Generic[Entry]):
    """The entries of a list, one after the other; a page is read when its first entry is needed."""

    def __init__(
        self, read: Callable[[int, str | None], dict[str, Any]], *, page_size: int, cursor: str | None = None
    ) -> None:
        """`read` gives the page with at most so many entries that begins at the cursor."""
        self._read = read
        self._page_size = page_size
        self._cursor = cursor
        self._entries: list[Entry] = []
        self._is_last = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Entry:
        while not self._entries:
            if self._is_last:
                raise StopIteration
            self._entries = self._page(self._page_size)["data"][::-1]
        return self._entries.pop()

    def take(self, limit: int) -> dict[str, Any]:
        """At most so many entries as the API answers them: `data`, and in `pagination` where the rest begins."""
        data: list[Entry] = []
        while True:
            page = self._page(min(limit - len(data), MOST_ENTRIES))
            data += page["data"]
            if self._is_last or len(data) >= limit:
                return {**page, "data": data}

    def _page(self, size: int) -> dict[str, Any]:
        page = self._read(size, self._cursor)
        self._cursor = page.get("pagination", {}).get("cursor")
        self._is_last = not self._cursor
        return page

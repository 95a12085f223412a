"""In-memory ports of graphs of jobs, as tests/fakes.py has the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.domain.cursor import newest, owners_scope, read_cursor, write_cursor
from functions.domain.errors import CorruptDefinitionError, GraphChangedError
from functions.ports import Page
from tests.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.graph_ports import Workflow


class InMemoryGraphs:
    """The versions of owners' graphs."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}

    def version(self, owner: str) -> int:
        return self.versions.get(owner, 0)

    def advance(self, owner: str, read: int) -> None:
        if self.version(owner) != read:
            raise GraphChangedError
        self.versions[owner] = read + 1


class InMemoryDependents:
    """Edges, beside their parents."""

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.edges: dict[str, set[str]] = {}

    def add(self, child: str, parents: Sequence[str]) -> None:
        for parent in parents:
            self.faults.run("dependents.add", lambda parent=parent: self.edges.setdefault(parent, set()).add(child))

    def remove(self, child: str, parents: Sequence[str]) -> None:
        for parent in parents:
            self.faults.run("dependents.remove", lambda parent=parent: self.edges.get(parent, set()).discard(child))

    def of(self, parent: str, *, after: str | None, limit: int) -> Sequence[str]:
        children = sorted(child for child in self.edges.get(parent, ()) if after is None or child > after)
        return children[:limit]


class InMemoryWorkflows:
    """Rows of workflows."""

    def __init__(self, *, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.rows: dict[str, Workflow] = {}
        self.broken: set[str] = set()
        """Workflows whose rows cannot be read."""

    def put(self, workflow: Workflow) -> Workflow:
        return self.faults.run("workflows.put", lambda: self.rows.setdefault(workflow.id, workflow))

    def get(self, workflow_id: str) -> Workflow | None:
        if workflow_id in self.broken:
            raise CorruptDefinitionError
        return self.rows.get(workflow_id)

    def list_by_owners(self, owners: Sequence[str], *, limit: int, cursor: str | None) -> Page[Workflow]:
        scope = owners_scope("workflows", owners)
        before = None if cursor is None else read_cursor(cursor, scope=scope)
        places = {f"{row.created_at:010d}#{row.id}": row for row in self.rows.values() if row.owner in owners}
        keys, more = newest((key for key in places if before is None or key < before), limit)
        return Page(
            items=[places[key] for key in keys if places[key].id not in self.broken],
            cursor=write_cursor(keys[-1], scope=scope) if more else None,
        )

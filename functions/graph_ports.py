"""What graphs of jobs need of the world: who depends on whom, and the workflows that callers made together.

As in ports.py, each docstring is the contract that fakes and adapters are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.ports import Page


class Dependents(Protocol):
    """Who depends on a job: an edge beside the parent for each child, put before the child's row says so, and removed
    after. So an edge may be there for a child that does not depend on the parent, or is no job at all; never the
    other way round. The child's definition is the truth. Reads are strongly consistent."""

    def add(self, child: str, parents: Sequence[str]) -> None:
        """Put an edge for each parent, many at a time; those that are there already are no error."""
        ...

    def remove(self, child: str, parents: Sequence[str]) -> None:
        """Delete these edges, best effort: those that are gone are no error."""
        ...

    def of(self, parent: str, *, after: str | None, limit: int) -> Sequence[str]:
        """Ids of at most `limit` children of the parent, in their order, that come after `after`."""
        ...


class Graphs(Protocol):
    """One version for each owner's graph of dependencies."""

    def version(self, owner: str) -> int:
        """The version now, 0 where none was written; strongly consistent.

        A change that adds edges between jobs that exist writes the next one together with the child's row
        (`JobStore.save` with `graph`): of two whose edges would close a cycle together, the second is refused.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Jobs that were created together."""

    id: str
    name: str
    owner: str
    created_by: str
    created_at: int
    jobs: tuple[tuple[str, str], ...]
    """(local name, job id), in the order of the request."""


class WorkflowStore(Protocol):
    """Rows of workflows, put before their jobs: one whose jobs do not exist (yet) is not seen. Reads are strongly
    consistent."""

    def put(self, workflow: Workflow) -> Workflow:
        """Put the row if absent; returns the row that is stored, which alone is listed."""
        ...

    def get(self, workflow_id: str) -> Workflow | None:
        """Raises CorruptDefinitionError where what is stored cannot be read."""
        ...

    def list_by_owners(self, owners: Sequence[str], *, limit: int, cursor: str | None) -> Page[Workflow]:
        """Newest first; one that cannot be read is left out.

        Raises InvalidFieldError("cursor", …) for a cursor this method did not hand out.
        """
        ...

"""The driver with an executor that is out for hours.

driver = OutageDriver()
driver.outage(3 * 3600, Outage.FAILING)    # each hint is received, and fails
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from functions.domain.definition import Priority
from tests.driver import VISIBILITY, Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.usecases.executor import Handled
    from tests.fakes import Delivery

ALL = frozenset(Priority)


class Outage(enum.Enum):
    SILENT = "no hint is delivered"
    FAILING = "each hint fails"


class OutageDriver(Driver):
    """`poison` says of a delivery whether the executor fails at it, outage or not."""

    def __init__(self, *, poison: Callable[[Delivery], bool] = lambda _: False, **options: Any) -> None:
        super().__init__(**options)
        self.poison = poison
        self._failing: frozenset[Priority] = frozenset()

    def deliver(self, delivery: Delivery) -> Handled | None:
        if delivery.priority in self._failing or self.poison(delivery):
            self._comes_back(delivery, VISIBILITY)
            return None
        return super().deliver(delivery)

    def outage(self, seconds: float, kind: Outage, *, of: frozenset[Priority] = ALL) -> None:
        """The consumers of these queues are out for so long. The sweep goes on, and so do callers."""
        if kind is Outage.FAILING:
            self._failing = of
        else:
            self.world.timetable.untaken = of
        self.run(seconds)
        self._failing = self.world.timetable.untaken = frozenset()

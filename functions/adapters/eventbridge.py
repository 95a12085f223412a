"""Lifecycle events on an EventBridge bus."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from functions.ports import BusEvent

logger = logging.getLogger(__name__)

SOURCE = "gnomon"
BATCH = 10
"""Entries of one PutEvents (EventBridge quotas); ours are about 500 bytes each."""


class _Events(Protocol):
    def put_events(self, **arguments: Any) -> dict[str, Any]: ...


class EventBridgeBus:
    """EventBus over one bus, by its name."""

    def __init__(self, client: _Events, bus: str) -> None:
        self._client = client
        self._bus = bus

    def put(self, events: Sequence[BusEvent]) -> frozenset[int]:
        refused: set[int] = set()
        for first in range(0, len(events), BATCH):
            refused.update(first + place for place in self._put(events[first : first + BATCH]))
        return frozenset(refused)

    def _put(self, events: Sequence[BusEvent]) -> Iterable[int]:
        try:
            answer = self._client.put_events(Entries=[self._entry(event) for event in events])
        except (ClientError, BotoCoreError) as error:
            logger.warning("the bus refused a batch: %s", error)
            return range(len(events))
        if not answer["FailedEntryCount"]:
            return ()
        codes = [entry.get("ErrorCode") for entry in answer["Entries"]]
        logger.warning("the bus refused events: %s", sorted({code for code in codes if code}))
        return [place for place, code in enumerate(codes) if code]

    def _entry(self, event: BusEvent) -> dict[str, Any]:
        return {
            "EventBusName": self._bus,
            "Source": SOURCE,
            "DetailType": event.type,
            "Detail": event.detail,
            "Time": datetime.fromtimestamp(event.time, UTC),
        }

"""EventBus: each event reaches the bus, or the caller hears which ones were refused."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import EndpointConnectionError

from functions.adapters.eventbridge import EventBridgeBus
from functions.ports import BusEvent
from tests.factories import NOW


def event(number: int, **changes: Any) -> BusEvent:
    given = {"key": f"job-{number}", "type": "job.started", "time": NOW + 0.25, "detail": json.dumps({"n": number})}
    return BusEvent(**given | changes)


def arrived(event_bus: Any, platform: Any) -> list[tuple[str, dict[str, Any]]]:
    """Type and content of what is on the bus."""
    if platform is None:
        return [(one.type, json.loads(one.detail)) for one in event_bus.events]
    found = []
    while True:
        answer = platform.sqs.receive_message(QueueUrl=platform.subscriber_url, MaxNumberOfMessages=10)
        if not answer.get("Messages"):
            return found
        for message in answer["Messages"]:
            body = json.loads(message["Body"])
            assert body["source"] == "gnomon"
            found.append((body["detail-type"], body["detail"]))


def test_every_event_arrives_in_more_than_one_call(event_bus, platform):
    events = [event(number) for number in range(23)]

    assert event_bus.put(events) == frozenset()

    found = arrived(event_bus, platform)
    assert sorted(content["n"] for _, content in found) == list(range(23))
    assert {kind for kind, _ in found} == {"job.started"}


def test_nothing_to_put_is_no_call(event_bus, faults):
    assert event_bus.put([]) == frozenset()
    assert faults.steps == []


def test_the_refused_ones_are_named_by_their_place(event_bus, platform):
    """One event in the second call is refused; the others of that call arrive."""
    events = [event(number) for number in range(15)]
    if platform is None:
        event_bus.refuses = {"job-12"}
    else:
        events[12] = event(12, detail="no JSON")

    assert event_bus.put(events) == {12}

    assert sorted(content["n"] for _, content in arrived(event_bus, platform)) == [n for n in range(15) if n != 12]


def test_a_call_that_fails_refuses_all_of_its_events(event_bus, platform):
    if platform is None:
        event_bus.failing = True
    else:
        platform.events.meta.events.register_first("before-call.events.PutEvents", _fails)

    assert event_bus.put([event(number) for number in range(12)]) == set(range(12))

    assert arrived(event_bus, platform) == []


def _fails(**_: Any) -> None:
    raise EndpointConnectionError(endpoint_url="https://events")


def test_the_time_of_an_event_is_its_own() -> None:
    """EventBridge shows it as the event's `time`; without one it would be that of its putting."""

    class Client:
        def put_events(self, **asked: Any) -> dict[str, Any]:
            self.entries = asked["Entries"]
            return {"FailedEntryCount": 0, "Entries": []}

    client = Client()
    EventBridgeBus(client, "bus").put([event(1)])

    [entry] = client.entries
    assert entry["Time"].timestamp() == NOW + 0.25
    assert entry["EventBusName"] == "bus"

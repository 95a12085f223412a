"""Somebody who subscribed to the stage's bus: a rule for everything of ours, and a queue that it feeds."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tests.e2e.stack import unique, until

if TYPE_CHECKING:
    from tests.e2e.stack import Aws, Stack


class Subscriber:
    def __init__(self, stack: Stack, aws: Aws) -> None:
        self._aws = aws
        self._bus = stack.outputs["EventBusName"]
        self._name = unique("gnomon-subscriber")
        self._copies: list[dict[str, Any]] = []
        self._queue_url = aws.sqs.create_queue(QueueName=self._name)["QueueUrl"]
        arn = aws.sqs.get_queue_attributes(QueueUrl=self._queue_url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "events.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": arn,
                }
            ],
        }
        aws.sqs.set_queue_attributes(QueueUrl=self._queue_url, Attributes={"Policy": json.dumps(policy)})
        pattern = json.dumps({"source": ["gnomon"]})
        aws.events.put_rule(Name=self._name, EventBusName=self._bus, EventPattern=pattern)
        aws.events.put_targets(Rule=self._name, EventBusName=self._bus, Targets=[{"Id": "queue", "Arn": arn}])

    def copies(self, job_id: str) -> list[dict[str, Any]]:
        """What came of the job so far, in the order it came, twice what came twice; the whole EventBridge event."""
        self._receive()
        return [copy for copy in self._copies if copy["detail"].get("jobId") == job_id]

    def of_circuit(self, key: str) -> list[dict[str, Any]]:
        """Events of one target's circuit."""
        self._receive()
        return [copy["detail"] for copy in self._copies if copy["detail"].get("circuit") == key]

    def _receive(self) -> None:
        while True:
            answer = self._aws.sqs.receive_message(QueueUrl=self._queue_url, MaxNumberOfMessages=10)
            messages = answer.get("Messages", [])
            for message in messages:
                self._copies.append(json.loads(message["Body"]))
                self._aws.sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"])
            if not messages:
                return

    def story(self, job_id: str, last: str, *, seconds: float = 20, count: int = 1) -> list[dict[str, Any]]:
        """The job's events as they came, each once, when the last of them, of type `last`, is there `count` times.

        Checks that each came after those before it: the stage puts them on the bus one after the other.
        """

        def there() -> bool:
            ids = {copy["detail"]["id"] for copy in self.copies(job_id) if copy["detail-type"] == last}
            return len(ids) >= count

        until(there, seconds=seconds, hint=f"{count} {last} of {job_id}")
        time.sleep(1)  # what should not come after it
        events = list({copy["detail"]["id"]: copy["detail"] for copy in self.copies(job_id)}.values())
        places = [(event["seq"], event["index"]) for event in events]
        assert places == sorted(set(places)), f"out of order, or one event under two ids: {events}"
        return events

    def close(self) -> None:
        self._aws.events.remove_targets(Rule=self._name, EventBusName=self._bus, Ids=["queue"])
        self._aws.events.delete_rule(Name=self._name, EventBusName=self._bus)
        self._aws.sqs.delete_queue(QueueUrl=self._queue_url)

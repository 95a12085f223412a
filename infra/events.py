"""The stage's event bus: lifecycle events of jobs go there, subscribers bring rules of their own."""

from aws_cdk import aws_events as events
from constructs import Construct


class LifecycleBus(Construct):
    """Nothing listens to it by itself, and an event that no rule matches costs its putting alone."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.bus = events.EventBus(self, "Bus")

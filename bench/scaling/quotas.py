"""What AWS gives an account by default in us-east-1, read in November 2026 in its documentation or in texts quoting it.

Quotas that AWS raises on request are marked so; the others are how the service is made.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    value: float
    unit: str
    raisable: bool
    source: str


GATEWAY_REQUESTS = Quota(
    value=10_000, unit="requests/s", raisable=True, source="API Gateway quotas: account throttle, burst 5 000 on top"
)
LAMBDA_CONCURRENCY = Quota(
    value=1_000, unit="executions at once", raisable=True, source="Lambda quotas: concurrent executions of a Region"
)
LAMBDA_REQUESTS_A_CONCURRENCY = Quota(
    value=10, unit="invocations/s for each of them", raisable=False, source="Lambda scaling behavior"
)
TABLE_WRITES = Quota(
    value=40_000, unit="write units/s", raisable=True, source="DynamoDB quotas: a table or index on demand"
)
NEW_TABLE_WRITES = Quota(
    value=4_000,
    unit="write units/s",
    raisable=True,
    source="DynamoDB on-demand mode: a new table, before it has seen traffic or been given warm throughput",
)
PARTITION_WRITES = Quota(
    value=1_000, unit="write units/s", raisable=False, source="DynamoDB partition key design: one partition"
)
QUEUE_IN_FLIGHT = Quota(
    value=120_000, unit="messages received and not deleted", raisable=True, source="SQS quotas: a standard queue"
)
POLLER_CONCURRENCY = Quota(
    value=1_250, unit="batches at once", raisable=False, source="Lambda SQS scaling: an event source in standard mode"
)
POLLER_START = Quota(value=5, unit="batches at once", raisable=False, source="Lambda SQS scaling: after a quiet time")
POLLER_RAMP = Quota(
    value=300, unit="more batches at once a minute", raisable=False, source="Lambda SQS scaling: standard mode"
)
PROVISIONED_POLLS = Quota(
    value=10, unit="polls/s of a provisioned poller", raisable=False, source="Lambda SQS scaling: provisioned mode"
)
PROVISIONED_CONCURRENCY = Quota(
    value=10,
    unit="batches at once of a provisioned poller",
    raisable=False,
    source="Lambda SQS scaling: provisioned mode",
)
SCHEDULE_CREATIONS = Quota(
    value=5_000,
    unit="schedules made/s",
    raisable=True,
    source="EventBridge Scheduler quotas: primary Regions; 250 in the others",
)
SCHEDULE_INVOCATIONS = Quota(
    value=1_000, unit="schedules fired/s", raisable=True, source="EventBridge Scheduler quotas: primary Regions"
)
SCHEDULES = Quota(value=10_000_000, unit="schedules at once", raisable=True, source="EventBridge Scheduler quotas")
VCPU_MB = 1_769
"""Memory with which a function has one virtual CPU (Lambda developer guide, memory)."""

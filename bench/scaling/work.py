"""What one one-time job, due within 15 minutes, asks of AWS from its creation to its end.

Calls and write units are those that `python -m bench --only calls` counts; tests/unit/test_scaling.py compares them.
The milliseconds are assumptions: nothing here was measured on AWS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.scaling.quotas import VCPU_MB

HINTS_A_BATCH = 10
"""Of SendMessageBatch, and of the executor's event source."""
PUTS_AT_ONCE = 16
"""Of a bulk request (functions/usecases/bulk.py)."""

JOBS_WRITES = 3
"""Units of the table Jobs itself: put, start, end."""
ATTENTION_WRITES = 2
"""Units of its index `attention`: the entry is made and taken away."""
OWNER_WRITES = 1
EXECUTIONS_WRITES = 1
"""Of a job whose result is too long for its row, or that did not succeed at once. The reference job's is kept there."""
READS = 1
CALLS = 4
"""Of an attempt to DynamoDB: read, share of the owner, start, end."""
SHARE_WRITES = 1 / HINTS_A_BATCH
"""Units of Coordination for a job: one write counts a batch of an owner's starts (docs/decisions/0082)."""
LIMIT_WRITES = 1
"""Units of Coordination for a request, whatever it carries."""

STATE_ROW_BYTES = 720
KEPT_BYTES = 40
"""What the row of a job that has ended keeps of its execution."""
ENTRY_BYTES = 210
"""In the index `owner`. Each with the 100 bytes that DynamoDB's storage adds to an item."""

# Assumptions.
DYNAMODB_MS = 5.0
SQS_MS = 8.0
TARGET_MS = 50.0
"""The reference job's target answers so."""
CALL_CPU_MS = 1.0
"""Of a virtual CPU, for one call by boto3."""
JOB_CPU_MS = 0.16
"""Of a virtual CPU, to read and answer one job (docs/benchmarks.md, row 1)."""
FAILING = 0.01
"""Share of jobs whose run fails for good: each makes an entry in the index of dead letters."""

API_MB = 1024
EXECUTOR_MB = 512
"""As in infra/lambda_functions.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """How jobs come in."""

    name: str
    jobs_a_call: int

    @property
    def calls(self) -> float:
        """API calls a job."""
        return 1 / self.jobs_a_call

    @property
    def sends(self) -> float:
        """SQS requests a job that carry its hint."""
        return math.ceil(self.jobs_a_call / HINTS_A_BATCH) / self.jobs_a_call

    @property
    def writes(self) -> float:
        """DynamoDB write units a job, of all tables and indexes."""
        return JOBS_WRITES + ATTENTION_WRITES + OWNER_WRITES + SHARE_WRITES + LIMIT_WRITES * self.calls

    @property
    def api_seconds(self) -> float:
        """How long the API's function takes for a call: what it waits for, and its own work on its share of a CPU."""
        rounds = math.ceil(self.jobs_a_call / PUTS_AT_ONCE)
        waits = DYNAMODB_MS * (1 + rounds) + SQS_MS * self.sends * self.jobs_a_call
        calls = 1 + self.jobs_a_call * (1 + self.sends)
        work = CALL_CPU_MS * calls + JOB_CPU_MS * self.jobs_a_call
        return (waits + work * VCPU_MB / API_MB) / 1000


SINGLE = Path(name="POST /v1/jobs", jobs_a_call=1)
BULK = Path(name="POST /v1/jobs/bulk", jobs_a_call=100)
PATHS = (SINGLE, BULK)


def batch_seconds() -> float:
    """How long the executor takes for a full batch: its hints wait side by side, and share one CPU's part."""
    waits = DYNAMODB_MS * CALLS + TARGET_MS
    work = CALL_CPU_MS * CALLS * HINTS_A_BATCH
    return (waits + work * VCPU_MB / EXECUTOR_MB) / 1000

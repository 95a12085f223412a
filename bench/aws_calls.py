"""Row 4: the calls to AWS that each request makes, and those of whole runs, on the real adapters over AWS in memory.

They are counted where boto3 makes them. What a target does is not in it, and neither is what Lambda's own poller of
the run queues does (a receive and a delete a batch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.call_log import Call
from bench.deployed import Deployed, on_moto
from bench.request_time import reference_body
from functions.domain.instants import rfc3339

JOBS_OF_A_LIST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The calls of one request or run."""

    what: str
    calls: Sequence[Call]
    budget: int | None = None
    """Calls at most; None where there is no budget."""

    @property
    def read_units(self) -> float:
        return sum(call.read_units for call in self.calls)

    @property
    def write_units(self) -> int:
        return sum(call.write_units for call in self.calls)


def count_calls() -> list[Counted]:
    """Requests with their budgets, then runs."""
    with on_moto() as deployed:
        first = deployed.create()
        inline = _requests(deployed, reference_body(), "", 0)
        large = _requests(deployed, reference_body() | {"payload": {"text": "x" * 2000}}, ", definition apart", 1)
        return [
            *inline,
            *large,
            Counted(what="POST /v1/jobs, its owner's first in a process", calls=first),
            *_one_time_run(deployed),
            _cron_run(deployed),
            _accepted(deployed, 60, "callback within a minute: started and accepted"),
            _accepted(deployed, 7_200, "callback within two hours: started and accepted"),
        ]


def _requests(deployed: Deployed, body: Mapping[str, Any], kind: str, more: int) -> list[Counted]:
    create = deployed.create(body)
    with_key = deployed.create(body, key=f"key{kind}")
    for _ in range(JOBS_OF_A_LIST):
        deployed.create(body)
    return [
        Counted(what=f"POST /v1/jobs{kind}", calls=create, budget=3 + more),
        Counted(what=f"POST /v1/jobs with idempotency key{kind}", calls=with_key, budget=4 + more),
        Counted(what=f"GET /v1/jobs/{{jobId}}{kind}", calls=deployed.get(), budget=2 + more),
        Counted(what=f"GET /v1/jobs{kind}", calls=deployed.list(owner="team-billing"), budget=3 + more),
        Counted(what=f"GET /v1/jobs of two owners{kind}", calls=deployed.list(), budget=4 + more),
    ]


def _one_time_run(deployed: Deployed) -> list[Counted]:
    slot = int(deployed.clock.now()) + 5
    body = reference_body() | {"schedule": {"type": "once", "at": rfc3339(slot)}}
    create = deployed.create(body)
    run = deployed.run(slot)
    return [
        Counted(what="one-time job: created", calls=create),
        Counted(what="one-time job: started and ended", calls=run),
        Counted(what="one-time job: both", calls=[*create, *run]),
    ]


def _cron_run(deployed: Deployed) -> Counted:
    deployed.create(reference_body() | {"schedule": {"type": "cron", "expression": "* * * * *"}})
    first = (int(deployed.clock.now()) // 60 + 1) * 60
    deployed.run(first)
    return Counted(what="cron job: one run", calls=deployed.run(first + 60))


def _accepted(deployed: Deployed, timeout_seconds: int, what: str) -> Counted:
    slot = int(deployed.clock.now()) + 5
    at = {"type": "once", "at": rfc3339(slot)}
    deployed.create(reference_body() | {"schedule": at, "completion": "callback", "timeoutSeconds": timeout_seconds})
    return Counted(what=what, calls=deployed.run(slot, ends=False))

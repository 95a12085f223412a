"""The shapes of jobs whose cost is counted: the real API handler, executor handler and sweep, on AWS in memory.

The reference job: `http` target, payload of 200 bytes, definition in the state row, no idempotency key, created 100 a
request. Steps are what a job goes through; each knows the calls of all jobs that went through it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.call_log import Call
from bench.deployed import Deployed, on_moto
from bench.function_time import FunctionTimes
from bench.request_time import reference_body
from bench.usage import Usage, polled, scheduled, usage_of
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import ExecutionKey, slot_id
from functions.domain.instants import rfc3339
from functions.domain.outcome import TargetAnswer
from functions.usecases.history import recorded_execution

FILLS = (1, 10)
"""Messages a batch: what a queue with little in it brings, and what a full one does."""
BULK = 100
"""Jobs a request."""
TWO_HOURS = 7200

AT_ONCE = "one-time, at once"
IN_TWO_HOURS = "one-time, in 2 hours"
WITH_RETRIES = "one-time, at once, three retries"
CRON = "cron, each minute: one run"
WORKER = "one-time, at once, for a worker"

_OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="null")
_FAILED = TargetAnswer(
    status=ExecutionStatus.FAILED, error=ExecutionError(code="HTTP_503", message="503 Service Unavailable")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    what: str
    function: str
    """`api`, with a request for many jobs, `request`, with a small one, or `executor`."""
    calls: Sequence[Call]
    """Of one invocation."""
    jobs: int
    """In that invocation."""
    calls_target: bool = False
    fired: bool = False
    """EventBridge Scheduler brought the message."""
    log: str = ""
    """What the invocation wrote."""

    def usage(self, times: FunctionTimes | None) -> Usage:
        """A job's share; without times the functions' GB-seconds are left out."""
        ours = usage_of(self.calls) / self.jobs
        if self.function in ("api", "request"):
            spent = 0.0
            if times is not None:
                spent = times.api(self.calls) if self.function == "api" else times.request(self.calls)
            return ours + Usage(http_requests=1, lambda_requests=1, gb_seconds=spent) / self.jobs
        spent = 0.0 if times is None else times.executor(self.calls, fill=self.jobs, calls_target=self.calls_target)
        brought = polled(self.jobs) + (scheduled() if self.fired else Usage())
        return ours + brought + Usage(gb_seconds=spent) / self.jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str
    fill: int
    steps: Sequence[Step]

    def usage(self, times: FunctionTimes | None = None) -> Usage:
        return sum((step.usage(times) for step in self.steps), Usage())


def count_shapes() -> list[Shape]:
    """Every shape with each fill; raises AssertionError where a job did not do what its shape says."""
    with on_moto() as deployed:
        deployed.create()  # Its owner is known from now on.
        return [
            Shape(name=name, fill=fill, steps=steps(deployed, fill))
            for name, steps in (
                (AT_ONCE, _at_once),
                (IN_TWO_HOURS, _in_two_hours),
                (WITH_RETRIES, _with_retries),
                (CRON, _cron),
                (WORKER, _for_a_worker),
            )
            for fill in FILLS
        ]


def idle_tick() -> Sequence[Call]:
    """The calls of a tick of the sweep while all is well, whatever the number of jobs."""
    with on_moto() as deployed:
        deployed.create()
        calls, swept = deployed.tick()
    if swept.looked_at:
        raise AssertionError(f"a tick that looks at {swept.looked_at} jobs is not idle")
    return calls


def _created(deployed: Deployed, slot: int) -> tuple[Step, list[str]]:
    body = reference_body() | {"schedule": {"type": "once", "at": rfc3339(slot)}}
    calls, ids = deployed.create_many([body] * BULK)
    return Step(what="created", function="api", calls=calls, jobs=BULK), ids


def _attempt(
    deployed: Deployed, ids: Sequence[str], slot: int, attempt: int, answer: TargetAnswer, *, at: float, what: str
) -> Step:
    hints = [Hint(job_id, slot_id(slot), attempt) for job_id in ids]
    calls, written = deployed.deliver(hints, answer, at=at)
    jobs = [deployed.engine.jobs.get(job_id) for job_id in ids]
    recorded = [
        recorded_execution(deployed.engine, job, ExecutionKey(job.id, slot_id(slot), attempt)) for job in jobs if job
    ]
    deployed.log.take()
    if [one and one.status for one in recorded] != [answer.status] * len(ids):
        raise AssertionError(f"{what}: {recorded}")
    return Step(what=what, function="executor", calls=calls, jobs=len(ids), calls_target=True, log=written)


def _now(deployed: Deployed) -> int:
    deployed.clock.time = float(int(deployed.clock.time) + 60)
    return int(deployed.clock.time)


def _at_once(deployed: Deployed, fill: int) -> list[Step]:
    slot = _now(deployed)
    created, ids = _created(deployed, slot)
    return [created, _attempt(deployed, ids[:fill], slot, 1, _OK, at=slot + 0.1, what="attempt")]


def _in_two_hours(deployed: Deployed, fill: int) -> list[Step]:
    slot = _now(deployed) + TWO_HOURS
    created, ids = _created(deployed, slot)
    hints = [Hint(job_id, slot_id(slot), 1) for job_id in ids[:fill]]
    calls, written = deployed.deliver(hints, _OK, at=slot - 780)  # The earliest that a schedule fires.
    if not any(call.operation in ("SendMessage", "SendMessageBatch") for call in calls):
        raise AssertionError(f"early hints were not sent on: {calls}")
    sent_on = Step(what="hint sent on", function="executor", calls=calls, jobs=fill, fired=True, log=written)
    return [created, sent_on, _attempt(deployed, ids[:fill], slot, 1, _OK, at=slot + 0.1, what="attempt")]


def _with_retries(deployed: Deployed, fill: int) -> list[Step]:
    slot = _now(deployed)
    created, ids = _created(deployed, slot)
    steps, at = [created], slot + 0.1
    # Beyond the longest delay before each retry: 10, 20 and 40 s, a fifth of jitter on top.
    for attempt, longest in ((1, 13), (2, 25), (3, 49)):
        steps.append(_attempt(deployed, ids[:fill], slot, attempt, _FAILED, at=at, what=f"attempt {attempt}, fails"))
        at += longest
    return [*steps, _attempt(deployed, ids[:fill], slot, 4, _OK, at=at, what="attempt 4, succeeds")]


def _cron(deployed: Deployed, fill: int) -> list[Step]:
    """A run in the middle of a job's life; that it was created once is nothing, a run."""
    now = _now(deployed)
    body = reference_body() | {"schedule": {"type": "cron", "expression": "* * * * *"}}
    _, ids = deployed.create_many([body] * BULK)
    first = (now // 60 + 1) * 60
    _attempt(deployed, ids[:fill], first, 1, _OK, at=first + 0.1, what="first run")
    return [_attempt(deployed, ids[:fill], first + 60, 1, _OK, at=first + 60.1, what="run")]


def _for_a_worker(deployed: Deployed, fill: int) -> list[Step]:
    """A poll claims as many as a batch offers; each is reported by itself, within the first half minute. The hints of
    their deadlines come all the same."""
    slot, target = _now(deployed), {"type": "worker", "queue": f"q{fill}"}
    body = reference_body() | {"schedule": {"type": "once", "at": rfc3339(slot)}, "target": target}
    created_calls, ids = deployed.create_many([body] * BULK)
    created = Step(what="created", function="api", calls=created_calls, jobs=BULK)
    hints = [Hint(job_id, slot_id(slot), 1) for job_id in ids[:fill]]
    calls, written = deployed.deliver(hints, _OK, at=slot + 0.1)
    offered = Step(what="offered", function="executor", calls=calls, jobs=fill, log=written)
    worker = deployed.register([f"q{fill}"])
    calls, claimed = deployed.post(f"/v1/workers/{worker}/poll", {"maxItems": fill, "pollId": "p"})
    if len(claimed["data"]) != fill:
        raise AssertionError(f"{len(claimed['data'])} of {fill} were claimed")
    polled_ = Step(what="polled", function="request", calls=calls, jobs=fill)
    for each in claimed["data"]:
        report = {"workerId": worker, "fence": each["fence"], "result": None}
        calls, _ = deployed.post(f"/v1/executions/{each['id']}/complete", report)
    completed = Step(what="completed", function="request", calls=calls, jobs=1)
    calls, written = deployed.deliver(hints, _OK, at=slot + 61)
    dropped = Step(what="deadline's hint dropped", function="executor", calls=calls, jobs=fill, log=written)
    return [created, offered, polled_, completed, dropped]

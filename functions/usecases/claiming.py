"""A worker polls: find what waits for it, claim it, and wait a while where there is nothing (docs/workers.md)."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from functions.domain.approval import gate_before
from functions.domain.caller import Caller
from functions.domain.claims import Held, decide_claim
from functions.domain.decision import Drop, Due, Write
from functions.domain.dispatch import worker_queue
from functions.domain.errors import CorruptDefinitionError, NotFoundError, UnavailableError
from functions.domain.ids import ExecutionKey, execution_id, parse_execution_id
from functions.domain.job import Job
from functions.domain.run import ActiveRun, RunState
from functions.domain.worker import Worker
from functions.usecases.claim_limits import Limits
from functions.usecases.consequences import carry_out
from functions.usecases.executor import follow, record_verdict
from functions.usecases.judging import judged
from functions.usecases.services import Polls
from functions.usecases.upstream_values import payload_of
from functions.usecases.waiting_polls import WaitingPoll
from functions.usecases.writing import TRIES, Applied, apply, send_all

LOOK_EVERY = 1.0
"""Seconds between two looks of a poll that waits."""
SPARES = 2
"""Times as many executions are found as are asked for: other workers claim, too."""
LOOKED_AT = 50
"""Jobs a look reads at most: those whose limits are reached are passed over."""
SEEN_EVERY = 20
"""Seconds for which a poll need not note again that its worker lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    worker_id: str
    poll_id: str
    """The same poll again is given what the first one claimed, and claims no more than was asked for."""
    queues: tuple[str, ...] | None = None
    """The worker's own where None."""
    max_items: int | None = None
    wait_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Claimed:
    """An attempt that the worker now holds."""

    job: Job
    slot_id: str
    payload: str
    """JSON text, with the values that it takes from other jobs' results."""
    hints: tuple[Due, ...] = ()
    """Of its deadline, from whoever's write claimed it; none where it was held before."""

    @property
    def run(self) -> ActiveRun:
        return self.job.runs[self.slot_id]


def poll(
    polls: Polls, caller: Caller, wanted: Poll, *, shuffle: Callable[[list[int]], None] = random.shuffle
) -> list[Claimed]:
    """What the worker was given: nothing where nothing waits, or it drains. Looks again each second while it may wait:
    not where as many polls of its owner wait already as may.

    Raises NotFoundError for a worker that is not its caller's.
    """
    started = now = polls.clock.now()
    worker = own_worker(polls, caller, wanted.worker_id)
    if worker.seen_at + SEEN_EVERY <= now:
        worker = polls.workers.seen(worker.id, now=now) or worker
    ends_at = started + wanted.wait_seconds
    waiting = WaitingPoll(polls, worker.owner, until=ends_at, shuffle=shuffle)
    try:
        while True:
            found = _look(polls, worker, wanted, shuffle)
            if found:
                return found
            if worker.draining or polls.clock.now() + LOOK_EVERY > ends_at or not waiting.may_wait():
                return []
            polls.clock.sleep(LOOK_EVERY)
            worker = own_worker(polls, caller, wanted.worker_id)
    finally:
        waiting.give_back()


def own_worker(polls: Polls, caller: Caller, worker_id: str) -> Worker:
    """The caller's worker; raises NotFoundError for any other: payloads of another owner are not for it."""
    worker = polls.workers.get(worker_id)
    if worker is None or not caller.acts_for(worker.owner):
        raise NotFoundError(f"There is no worker {worker_id} of yours: it was never registered, or not seen for a day.")
    return worker


def _look(polls: Polls, worker: Worker, wanted: Poll, shuffle: Callable[[list[int]], None]) -> list[Claimed]:
    """One look: what this poll set out to claim before, else what waits now."""
    queues, most = wanted.queues or worker.queues, wanted.max_items or worker.max_items
    for _ in range(TRIES):
        # Sent before, or sent twice and under way elsewhere: both claim the same.
        claimed = _claim(polls, worker, queues, most) if worker.poll_id == wanted.poll_id else []
        candidates = {} if claimed or worker.draining else _candidates(polls, worker, queues, most, shuffle)
        if not candidates:
            return claimed
        intended = replace(worker, poll_id=wanted.poll_id, intended=tuple(candidates))
        saved = polls.workers.save(worker, intended)
        if saved is not None:
            return _claim(polls, saved, queues, most, candidates)
        worker = polls.workers.get(worker.id) or replace(worker, draining=True)
    return []


def _candidates(
    polls: Polls, worker: Worker, queues: tuple[str, ...], most: int, shuffle: Callable[[list[int]], None]
) -> dict[str, Job]:
    """Executions that wait for the worker with their jobs' rows, by priority, then the oldest first: a few more than it
    asks for."""
    places: list[tuple[str, str, str]] = []
    shards = list(range(polls.jobs.waiting_shards))
    shuffle(shards)
    for queue in queues:
        what = worker_queue(worker.owner, queue)
        for shard in shards:
            for place, job_id in polls.jobs.waiting_for(what, shard, limit=LOOKED_AT):
                places.append((place, job_id, what))
    found: dict[str, Job] = {}
    limits = Limits(polls)
    for _, job_id, what in sorted(places, key=lambda each: each[0])[:LOOKED_AT]:
        if len(found) >= most * SPARES:
            break
        job = _read(polls, job_id)
        if job is not None and limits.have_room(job):
            found |= dict.fromkeys(_waiting(job, what), job)
    return found


def _read(polls: Polls, job_id: str) -> Job | None:
    """The row, strongly read: the index may lag. None where there is none, or none that can be read."""
    try:
        return polls.jobs.get(job_id)
    except CorruptDefinitionError:
        return None


def _waiting(job: Job, what: str) -> list[str]:
    """The job's executions that wait for this, oldest first."""
    waiting = [
        (run.deferred_at or 0, slot, run.attempt + 1)
        for slot, run in job.runs.items()
        if run.state is RunState.WAITING and run.waits_for == what and not job.holds(run)
    ]
    return [execution_id(job.id, slot, attempt) for _, slot, attempt in sorted(waiting)]


def _claim(
    polls: Polls, worker: Worker, queues: tuple[str, ...], most: int, rows: Mapping[str, Job] = MappingProxyType({})
) -> list[Claimed]:
    """Claim what the worker's poll set out to, until it has as many as it asked for. What it holds already counts.

    `rows` are those that were just read.
    """
    claimed: list[Claimed] = []
    for execution in worker.intended:
        key = parse_execution_id(execution)
        if len(claimed) >= most or key is None:
            break
        one = _claim_one(polls, worker, queues, key, rows.get(execution) or _read(polls, key.job_id))
        if one is not None:
            claimed.append(one)
    send_all(polls, [(one.job, one.hints) for one in claimed])
    return claimed


def _claim_one(
    polls: Polls, worker: Worker, queues: tuple[str, ...], key: ExecutionKey, job: Job | None
) -> Claimed | None:
    if job is None:
        return None

    limits = Limits(polls)

    def decide(row: Job, mark: str) -> Write | Held | Drop:
        now = polls.clock.now()
        # A worker that drains is given what it holds, and nothing besides.
        served = () if worker.draining else queues
        decision = decide_claim(row, key, worker_id=worker.id, queues=served, now=now, write_id=mark)
        if isinstance(decision, Write) and decision.starts is not None:
            return limits.held_by(decision, row, key)
        return decision

    decided: Applied | Held | Drop = Drop("GONE")
    # One row that cannot be claimed keeps no other from its worker.
    with contextlib.suppress(CorruptDefinitionError, UnavailableError):
        decided = apply(polls, job, decide)
    if not isinstance(decided, Applied) or decided.write.starts is None:
        limits.give_back()
    if isinstance(decided, Applied) and decided.write.ends is not None:
        carry_out(polls, decided)
        record_verdict(polls, decided.job, decided.write.ends)
        return None
    if isinstance(decided, Drop):
        return None
    return _with_payload(polls, decided.job, key, decided.write.hints if isinstance(decided, Applied) else ())


def _with_payload(polls: Polls, job: Job, key: ExecutionKey, hints: tuple[Due, ...]) -> Claimed | None:
    """The claim; None where there is no payload to give, or not any more: then the attempt has failed.

    Nor is one given that was changed since the claim and is not what was approved: the lease ends.
    """
    if gate_before(job.defined, job.runs[key.slot_id]) is not None:
        return None
    payload = payload_of(polls, job, key.slot_id)
    if isinstance(payload, str):
        return Claimed(job, key.slot_id, payload, hints)
    run = job.runs[key.slot_id]
    execution = polls.history.record(judged(polls, job, key.slot_id, payload))
    follow(polls, job, execution, fence=run.fence)
    return None

"""Ways of breaking what workers and callbacks rest on."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

STORIES = "tests/simulation/test_work.py"
API = "tests/unit/test_api_workers.py"
RACES = "tests/unit/test_claim_races.py"
CLAIMS = "tests/unit/test_claims.py"
COUNTS = "tests/unit/test_telemetry.py"

WORK_MUTANTS: list[Mutant] = [
    m(
        "fence ignored in reports",
        "a worker reports under the fence of an earlier attempt",
        ("domain/claims.py", " and run.fence == self.fence", ""),
        by=STORIES,
    ),
    m(
        "worker ignored in reports",
        "who knows the fence reports for another worker",
        (
            "domain/claims.py",
            "run.worker_id is not None and run.worker_id == self.worker_id and",
            "run.worker_id is not None and",
        ),
        by=API,
    ),
    m(
        "any token",
        "a callback counts with whatever token",
        ("domain/claims.py", "hmac.compare_digest(self.token.encode(), run.started_by.encode())", "True"),
        by=STORIES,
    ),
    m(
        "token for every start",
        "an attempt whose answer is its outcome can be reported on",
        ("domain/claims.py", "run.worker_id is not None or run.deadline_at is None or", "run.worker_id is not None or"),
        by=CLAIMS,
    ),
    m(
        "lease beyond the deadline",
        "a heartbeat holds an attempt for as long as it comes",
        (
            "domain/claims.py",
            "min(math.ceil(now) + WORKER_LEASE, (run.deadline_at or 0) + LEASE_MARGIN)",
            "math.ceil(now) + WORKER_LEASE",
        ),
        by=STORIES,
    ),
    m(
        "heartbeat revives",
        "a heartbeat prolongs a lease that is over",
        ("domain/claims.py", " or run.lease_expires_at <= now:", ":"),
        by=STORIES,
    ),
    m(
        "lease shortened",
        "a heartbeat sets the lease even where it would end sooner",
        ("domain/claims.py", "    if lease <= run.lease_expires_at:\n        return Held(job)\n", ""),
        by=CLAIMS,
    ),
    m(
        "claim of what is taken",
        "a claim does not look whether the attempt still waits",
        (
            "domain/claims.py",
            '    if run.state is not RunState.WAITING or run.attempt + 1 != key.attempt:\n        return "TAKEN"\n',
            "",
        ),
        by=CLAIMS,
    ),
    m(
        "claim of what is paused",
        "a claim starts what the pause holds",
        ("domain/claims.py", '    if job.holds(run):\n        return "PAUSED"\n', ""),
        by=CLAIMS,
    ),
    m(
        "claim of another owner's",
        "a claim does not compare what the run waits for",
        ("domain/claims.py", " or run.waits_for != worker_queue(job.owner, queue)", ""),
        by=CLAIMS,
    ),
    m(
        "claim without a lease",
        "a claim holds as long as the job's timeout",
        ("domain/dispatch.py", "lease = min(lease, math.ceil(now) + WORKER_LEASE)", "pass"),
        by=STORIES,
    ),
    m(
        "forgets intentions",
        "a poll does not keep what it sets out to claim",
        ("usecases/claiming.py", "poll_id=wanted.poll_id, intended=tuple(candidates))", "poll_id=None, intended=())"),
        by=RACES,
    ),
    m(
        "claims anew",
        "the same poll again claims something else",
        (
            "usecases/claiming.py",
            "_claim(polls, worker, queues, most) if worker.poll_id == wanted.poll_id else []",
            "[]",
        ),
        by=RACES,
    ),
    m(
        "claims too much",
        "a poll claims all that it has found",
        ("usecases/claiming.py", "len(claimed) >= most or key is None", "key is None"),
        by=STORIES,
    ),
    m(
        "late report counts",
        "a report after the deadline ends the attempt well",
        ("usecases/reports.py", "if is_too_late(run, services.clock.now()):", "if False:"),
        by=API,
    ),
    m(
        "row without history",
        "what was recorded first is not looked at",
        (
            "usecases/reports.py",
            "    if not is_same_report(recorded, holder, answer):\n        raise _ended(recorded)\n",
            "",
        ),
        by=RACES,
    ),
    m(
        "accepted is done",
        "a target's acceptance ends the attempt",
        (
            "usecases/executor.py",
            "if job.defined.completion is Completion.CALLBACK and answer.status is ExecutionStatus.COMPLETED:",
            "if False:",
        ),
        by=STORIES,
    ),
    m(
        "no hint for the deadline",
        "a callback that does not come is left to the lease",
        ("domain/dispatch.py", "() if run.deadline_at is None else (Due(slot, run.attempt, run.deadline_at),)", "()"),
        by=API,
    ),
    m(
        "no hint for a claim",
        "a worker that does not report is left to the lease",
        ("domain/claims.py", "hints=deadline_hint(row, key.slot_id), ", ""),
        by=STORIES,
    ),
    m(
        "hint for a claim unsent",
        "a poll does not send the hints of what it has claimed",
        ("usecases/claiming.py", "    send_all(polls, [(one.job, one.hints) for one in claimed])\n", ""),
        by=STORIES,
    ),
    m(
        "worker's deadline ignored",
        "the hint for the deadline leaves alone what a worker holds",
        (
            "domain/dispatch.py",
            "or run.deadline_at is None:",
            "or run.deadline_at is None or run.worker_id is not None:",
        ),
        by=STORIES,
    ),
    m(
        "deadline too soon",
        "the hint for the deadline ends the attempt whenever it comes",
        ("domain/dispatch.py", "_early(run.deadline_at, now) or Overdue", "Overdue"),
        by=STORIES,
    ),
    m(
        "a claim needs no slot",
        "workers run beyond the limit of a key",
        (
            "usecases/claiming.py",
            "limits.held_by(decision, row, key) if isinstance(decision, Write) else decision",
            "decision",
        ),
        by=RACES,
    ),
    m(
        "keeps its slots",
        "a claim that comes to nothing keeps the slots it took",
        ("usecases/claiming.py", "        limits.give_back()\n", "        pass\n"),
        by=RACES,
    ),
    m(
        "ends uncounted",
        "nobody counts the attempts that end",
        ("usecases/executor.py", "    engine.ended(execution)\n", ""),
        by=COUNTS,
    ),
    m(
        "dead workers are repairs",
        "a worker that died counts as a hint that was lost",
        ("usecases/sweep.py", 'done = "WORKER_GONE"', "pass"),
        by=COUNTS,
    ),
    m(
        "moved and forgotten",
        "a run that waits for workers of the old queue is left there",
        ("domain/claims.py", "and run.waits_for != offer:", "and False:"),
        by=STORIES,
    ),
]

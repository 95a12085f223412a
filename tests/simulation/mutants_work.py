"""Ways of breaking what workers and callbacks rest on."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

STORIES = "tests/simulation/test_work.py"
API = "tests/unit/test_api_workers.py"
RACES = "tests/unit/test_claim_races.py"
CLAIMS = "tests/unit/test_claims.py"
COUNTS = "tests/unit/test_telemetry.py"
HOLDS = "tests/unit/test_who_holds.py"
PHASES = "tests/unit/test_callback_phases.py"

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
        rule="1.6 report",
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
            "min(until, (run.deadline_at or 0) + LEASE_MARGIN)",
            "until",
        ),
        by=STORIES,
    ),
    m(
        "heartbeat revives",
        "a heartbeat prolongs a lease that is over",
        (
            "domain/claims.py",
            "    if not is_held(run, now):\n        return Drop(why_not_held(run, now))\n    lease",
            "    lease",
        ),
        by=STORIES,
        rule="1.6 heartbeat",
    ),
    m(
        "lease shortened",
        "a heartbeat sets the lease even where it would end sooner",
        (
            "domain/claims.py",
            "    if run.lease_expires_at is not None and lease <= run.lease_expires_at:\n        return Held(job)\n",
            "",
        ),
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
        ("domain/dispatch.py", "lease = min(lease, instant + WORKER_LEASE)", "pass"),
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
        rule="1.6 the same poll id: only those",
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
        ("usecases/reports.py", "if is_held(run, now):", "if True:"),
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
        rule="1.6 the same report again",
    ),
    m(
        "accepted is done",
        "a target's acceptance ends the attempt",
        (
            "usecases/executor.py",
            "if run.deadline_at is not None and answer.status is ExecutionStatus.COMPLETED:",
            "if False:",
        ),
        by=STORIES,
    ),
    m(
        "no hint for the deadline",
        "a callback that does not come is left to the lease",
        ("domain/dispatch.py", "() if ends_at is None else (Due(slot, run.attempt, ends_at),)", "()"),
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
            "hint.attempt != run.attempt or ends_at is None:",
            "hint.attempt != run.attempt or ends_at is None or run.worker_id is not None:",
        ),
        by=STORIES,
    ),
    m(
        "deadline too soon",
        "the hint for the deadline ends the attempt whenever it comes",
        ("domain/dispatch.py", "_early(ends_at, now) or Overdue", "Overdue"),
        by=STORIES,
    ),
    m(
        "a claim needs no slot",
        "workers run beyond the limit of a key",
        (
            "usecases/claiming.py",
            "            return limits.held_by(decision, row, key)\n",
            "            return decision\n",
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
    # --- who holds a running attempt (docs/protocol.md, section 7) ---
    m(
        "one lease for both phases",
        "a callback's start holds for as long as its report may take",
        ("domain/dispatch.py", "instant + call_seconds(definition) +", "instant + definition.timeout_seconds +"),
        by=STORIES,
        rule="7 start + time of the call + 15 s",
    ),
    m(
        "acceptance unwritten",
        "a target that accepted has no longer than its call",
        ("usecases/executor.py", "        _accept(executor, job, slot)\n", ""),
        by=STORIES,
    ),
    m(
        "refusal accepted",
        "a target that did not accept has until the deadline, too",
        (
            "usecases/executor.py",
            "run.deadline_at is not None and answer.status is ExecutionStatus.COMPLETED:",
            "run.deadline_at is not None:",
        ),
        by=STORIES,
    ),
    m(
        "acceptance of another start",
        "an acceptance is written whatever start the row is of",
        ("domain/claims.py", "run is None or run.fence != fence or run.deadline_at is None:", "run is None:"),
        by=CLAIMS,
    ),
    m(
        "acceptance beyond the deadline",
        "a target that accepted holds the attempt for another day",
        ("domain/claims.py", "run.deadline_at + LEASE_MARGIN, reason", "run.deadline_at + 86_400, reason"),
        ("domain/claims.py", "min(until, (run.deadline_at or 0) + LEASE_MARGIN)", "until"),
        by=STORIES,
    ),
    m(
        "token for whatever completion",
        "an attempt is sent a token by the definition as it is at the call",
        (
            "usecases/executor.py",
            "None if run.deadline_at is None else run.started_by,",
            'run.started_by if str(definition.completion) == "callback" else None,',
        ),
        by=PHASES,
    ),
    m(
        "a slow start calls",
        "a target is called although the lease is over",
        ("usecases/executor.py", "    if seconds < 1:\n        return None\n", "    seconds = max(seconds, 1)\n"),
        by=PHASES,
    ),
    m(
        "a slow start has all its time",
        "a call may take longer than its lease",
        (
            "usecases/executor.py",
            "min(call_seconds(job.defined), seconds_to_call(run, executor.clock.now()))",
            "call_seconds(job.defined) if seconds_to_call(run, executor.clock.now()) > 0 else 0",
        ),
        by=PHASES,
    ),
    m(
        "permit of a call for the timeout",
        "a dead callback attempt's permit is looked after when its deadline is over",
        (
            "usecases/admission.py",
            "until = math.ceil(now) + call_seconds(definition) + HOLD_MARGIN",
            "until = math.ceil(now) + definition.timeout_seconds + HOLD_MARGIN",
        ),
        by=f"{HOLDS}::test_a_dead_probe_gives_its_place_to_the_next_once_its_call_is_over",
    ),
    m(
        "lease is all",
        "a report counts as long as the lease, whatever the deadline",
        ("domain/lease.py", " or is_too_late(run, now) else Hold.HELD", " else Hold.HELD"),
        by=STORIES,
    ),
    m(
        "deadline is all",
        "a report counts until the deadline, whatever the lease",
        (
            "domain/lease.py",
            "Hold.LAPSED if lease <= now or is_too_late(run, now)",
            "Hold.LAPSED if is_too_late(run, now)",
        ),
        by=STORIES,
    ),
    m(
        "no grace",
        "a report one second after the deadline is refused",
        (
            "domain/lease.py",
            "run.deadline_at is not None and run.deadline_at + REPORT_GRACE <= now",
            "run.deadline_at is not None and run.deadline_at <= now",
        ),
        by=STORIES,
        rule="7 A report in time is taken.",
    ),
    m(
        "timed out in the grace",
        "an attempt is timed out at its deadline",
        ("domain/lease.py", "run.deadline_at + REPORT_GRACE + CLOCK_SKEW", "run.deadline_at"),
        by=STORIES,
    ),
    m(
        "timed out within clock skew",
        "an attempt is timed out while a function whose clock is behind takes its report",
        ("domain/lease.py", "run.deadline_at + REPORT_GRACE + CLOCK_SKEW", "run.deadline_at + REPORT_GRACE"),
        by=STORIES,
        rule="7 Clocks of two functions differ by 2 s at most",
    ),
    m(
        "free at the end of the lease",
        "others act while an owner's clock may still say that it holds",
        ("domain/lease.py", "lease + LEASE_GRACE <= now or is_overdue", "lease <= now or is_overdue"),
        by=STORIES,
    ),
    m(
        "a late report ends it",
        "a report that is late by one clock ends what another takes reports on",
        ("usecases/reports.py", "    if is_overdue(run, now):", "    if True:"),
        by=HOLDS,
    ),
    m(
        "a late heartbeat ends it",
        "a heartbeat that is late by one clock ends what another takes reports on",
        (
            "usecases/workers.py",
            "is_overdue(run, services.clock.now())",
            "run.deadline_at is not None and run.deadline_at + 2 <= services.clock.now()",
        ),
        by=f"{HOLDS}::test_the_refusal_says_what_has_become_of_it",
    ),
    m(
        "given again though lapsed",
        "the same poll is given an execution whose lease is over",
        ("domain/claims.py", "Held(job) if is_held(run, now) else Drop(why_not_held(run, now))", "Held(job)"),
        by=STORIES,
    ),
    m(
        "refused without its reason",
        "a report after the deadline is told that it is lost",
        ("domain/claims.py", "ExecutionStatus.TIMED_OUT.value if is_too_late(run, now) else", ""),
        by=f"{HOLDS}::test_the_refusal_says_what_has_become_of_it",
    ),
    m(
        "permit of an owner",
        "a permit is taken from an owner whose lease has just ended",
        ("usecases/holders.py", "if not is_free(run, engine.clock.now()):", "if is_held(run, engine.clock.now()):"),
        ("usecases/holders.py", "import is_free", "import is_held"),
        by=HOLDS,
    ),
    m(
        "taker leaves heartbeats",
        "a heartbeat under way revives what lost its permit",
        (
            "usecases/holders.py",
            "        if not is_free(run, engine.clock.now()):\n            return False\n",
            "        return is_free(run, engine.clock.now())\n",
        ),
        by=f"{HOLDS}::test_a_heartbeat_that_was_slow_does_not_revive_what_lost_its_permit",
        rule="7 A lease that is over stays over.",
    ),
    m(
        "sweep leaves heartbeats",
        "a heartbeat under way revives what the sweep has ended",
        (
            "usecases/sweep.py",
            "        if run.deadline_at is not None:\n            unmoved",
            "        if False:\n            unmoved",
        ),
        by=f"{HOLDS}::test_a_heartbeat_that_was_slow_does_not_revive_what_the_sweep_is_about_to_end",
        rule="1.4 and with `dl` the row once more",
    ),
    m(
        "sweep by the lease alone",
        "a worker that was silent beyond its deadline is lost, not timed out",
        ("usecases/sweep.py", "if is_overdue(run, engine.clock.now()):", "if False:"),
        by=API,
    ),
    m(
        "claims without permits",
        "a claim takes no permit of its job's key",
        ("usecases/claim_limits.py", "        for limit in limits_of(row):\n", "        for limit in ():\n"),
        by=STORIES,
    ),
    m(
        "claims beyond their own limit",
        "a claim takes any permit of its key, also above its job's limit",
        (
            "usecases/claim_limits.py",
            "concurrency.take(self._engine, limit, row,",
            "concurrency.take(self._engine, limit._replace(most=2), row,",
        ),
        by=STORIES,
    ),
]

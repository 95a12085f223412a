"""The ways in which the code is broken on purpose: each names a source file, a text in it, and what is put there.

`by` names the test that must fail; where there is none, the simulation must find it. Names in small letters with
underscores are those of docs/protocol.md.
"""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m
from tests.simulation.mutants_access import ACCESS_MUTANTS
from tests.simulation.mutants_gates import GATE_MUTANTS
from tests.simulation.mutants_graph import GRAPH_MUTANTS
from tests.simulation.mutants_inputs import INPUT_MUTANTS
from tests.simulation.mutants_keys import KEY_MUTANTS
from tests.simulation.mutants_outages import OUTAGE_MUTANTS
from tests.simulation.mutants_permits import PERMIT_MUTANTS
from tests.simulation.mutants_races import RACE_MUTANTS
from tests.simulation.mutants_sender import SENDER_MUTANTS
from tests.simulation.mutants_shares import SHARE_MUTANTS
from tests.simulation.mutants_work import WORK_MUTANTS

NAMED = """
            names = {NAMES}
            if decision.reason in names:
                merged = _merged(job, decision.job, lost.current)
                if merged is not None:
                    saved = engine.jobs.save(lost.current, replace(merged, write_id=mark))
                    return Applied(lost.current, saved, decision)
            job = lost.current
        else:
"""
MERGED = '''

def _merged(read: Job, new: Job, current: Job) -> Job | None:
    """The write on condition of the fields that it changes, instead of `seq`."""
    slots = {slot for slot in new.runs.keys() | read.runs.keys() if new.runs.get(slot) != read.runs.get(slot)}
    if any(current.runs.get(slot) != read.runs.get(slot) for slot in slots):
        return None
    if new.next_slot != read.next_slot and current.next_slot != read.next_slot:
        return None
    runs = {**current.runs, **{slot: new.runs[slot] for slot in slots if slot in new.runs}}
    for slot in slots - new.runs.keys():
        runs.pop(slot, None)
    fields = ("next_slot", "last_slot", "fence", "gap", "attention_at", "wakes", "last_run", "starts")
    changed = {name: getattr(new, name) for name in fields if getattr(new, name) != getattr(read, name)}
    return replace(current, **changed, runs=runs)
'''


def named(*reasons: str) -> tuple[tuple[str, str, str], ...]:
    """A write that names what it changes in its condition, and not `seq` (V2)."""
    path = "usecases/writing.py"
    return (
        (path, "            job = lost.current\n        else:\n", NAMED.replace("{NAMES}", repr(reasons))),
        (path, "\n\ndef send(", MERGED + "\n\ndef send("),
    )


MUTANTS: list[Mutant] = [
    # --- docs/protocol.md ---
    m(
        "start_keeps_att",
        "a start leaves the attention alone (V1)",
        (
            "domain/dispatch.py",
            "    return replace(row, attention_at=attention_no_later(row, int(now)))",
            "    return row",
        ),
        rule="V1",
    ),
    m(
        "exec_keeps_att",
        "a run by hand leaves the attention alone",
        (
            "domain/commands.py",
            "    row = replace(row, attention_at=attention_no_later(row, instant))\n    return",
            "    return",
        ),
    ),
    m(
        "strict_att",
        "a wake keeps to due + 30 s, and so wakes each minute",
        (
            "domain/visit.py",
            "at = instant + wait if bound is None else min(instant + wait, bound)",
            "at = job.bound(instant)",
        ),
        rule="1.4 now + back-off",
        seed=12,
    ),
    m(
        "end_named",
        "an end names the run, not seq (V2)",
        *named("COMPLETED", "FAILED", "TIMED_OUT"),
        rule="V2",
    ),
    m(
        "start_named",
        "a start names the slot, not seq (V3)",
        *named("STARTED"),
        seed=35,
        rule="V3",
    ),
    m("sweep_named", "the sweep moves attention on without naming seq", *named("WOKEN", "WATCHED", "GAP"), seed=41),
    m(
        "cancel_row_only",
        "a cancel writes the row alone (V4)",
        (
            "usecases/cancelling.py",
            "for execution in executions_to_cancel(job, now=now, write_id=mark, by=by):",
            "for execution in ():",
        ),
        by="tests/unit/test_lean_end.py::TestWhoEndsFirst",
        rule="V4",
    ),
    m(
        "own_last_wid",
        "an own write is known by the row's last mark alone (V5)",
        (
            "usecases/writing.py",
            "    if current.revised_by == mark or (current",
            "    return current.write_id == mark\n    if current.revised_by == mark or (current",
        ),
        by="tests/unit/test_crash_points.py::test_a_lost_answer_and_a_write_by_another_change_nothing",
        rule="V5",
    ),
    m(
        "fence_per_run",
        "each run counts its own fence (V6)",
        ("domain/dispatch.py", "fence, instant = job.fence + 1,", "fence, instant = run.fence + 1,"),
        rule="V6",
    ),
    m(
        "waiter_needs_lastslot",
        "a queued run must be later than the last slot (V7)",
        (
            "domain/dispatch.py",
            "    if job.holds(run):\n",
            '    if slot_instant(hint.slot_id) < (job.last_slot or 0):\n        return Drop("SLOT_TAKEN")\n'
            "    if job.holds(run):\n",
        ),
        rule="V7",
    ),
    m(
        "no_release",
        "the end leaves the queued run to a message (V8)",
        (
            "domain/ending.py",
            "        if not (job.has_active and job.holds(run)):\n            job =",
            "        if True:\n            break\n            job =",
        ),
        seed=20,
        rule="V8",
    ),
    m(
        "resume_from_now",
        "a resume goes on after now, not after max(now, last) (V9)",
        (
            "domain/rescheduling.py",
            "    if row.next_slot is not None and row.last_slot is not None and row.next_slot <= row.last_slot:\n"
            "        horizon = max(int(now) - row.spread, row.last_slot)\n",
            "    if row.next_slot is not None:\n        horizon = int(now) - row.spread\n",
        ),
        seed=17,
        rule="V9",
    ),
    m(
        "patch_from_now",
        "a new schedule goes on after now, not after max(now, last) (V9)",
        (
            "domain/rescheduling.py",
            "next_after(max(int(now) - row.spread, row.last_slot or 0))",
            "next_after(int(now) - row.spread)",
        ),
        by="tests/unit/test_commands.py::TestChange",
    ),
    m(
        "skip_row_only",
        "a skipped slot is not put into the gap (V10)",
        ("domain/dispatch.py", "started=False), gap=gap, wakes=0)", "started=False), wakes=0)"),
        rule="V10",
    ),
    m(
        "patch_forgets",
        "a new schedule drops what is overdue (V11)",
        (
            "domain/rescheduling.py",
            "    if job.next_slot is not None:\n        until = _passed_until(",
            "    if row is None:\n        until = _passed_until(",
        ),
    ),
    m(
        "cancel_forgets",
        "a cancel drops what is overdue (V11)",
        (
            "domain/cancellation.py",
            "    if job.next_slot is not None:\n        row, flush = into_gap(row, until=instant",
            "    if row is None:\n        row, flush = into_gap(row, until=instant",
        ),
        rule="V11",
    ),
    m(
        "loser_sends",
        "who lost sends the next hint nevertheless",
        (
            "usecases/executor.py",
            "    if not isinstance(decision, Applied):\n",
            '    if isinstance(decision, Drop) and decision.reason == "NOTHING_DUE":\n'
            "        send(executor, job, [Due(slot_id(job.next_slot), 1, job.next_slot)] if job.next_slot else [])\n"
            "    if not isinstance(decision, Applied):\n",
        ),
        ("usecases/executor.py", "run_id, slot_instant\n", "run_id, slot_id, slot_instant\n"),
    ),
    m(
        "end_row_first",
        "an end writes the row before history",
        (
            "usecases/executor.py",
            "    recorded = insist(engine, lambda: engine.history.record(execution), until=until)\n"
            "    follow(engine, job, recorded, fence=execution.fence, answered=answered, until=until)\n"
            "    return recorded\n",
            "    follow(engine, job, execution, fence=execution.fence)\n    return engine.history.record(execution)\n",
        ),
        rule="1.3 (1) put history if absent",
    ),
    m(
        "repair_redraws",
        "who repairs draws the instant of the retry again",
        (
            "usecases/sweep.py",
            "    if recorded is None:\n",
            "    if recorded is not None and not recorded.final:\n"
            "        recorded = replace(recorded, next_retry_at=int(engine.clock.now()) + 9)\n"
            "    if recorded is None:\n",
        ),
        seed=41,
    ),
    m(
        "sweep_no_history",
        "the sweep takes an attempt as lost without asking history",
        (
            "usecases/sweep.py",
            "recorded = engine.history.record(_given_up(",
            "recorded = _recorded(engine, _given_up(",
        ),
        (
            "usecases/sweep.py",
            "def _quarantine(",
            "def _recorded(engine: Engine, ended: Execution) -> Execution:\n"
            "    engine.history.record(ended)\n    return ended\n\n\ndef _quarantine(",
        ),
        ("usecases/sweep.py", "engine.history.get(job.id, slot, run.attempt)", "None"),
    ),
    m(
        "fire_ignores_pause",
        "a waiting retry starts although the job is paused",
        ("domain/dispatch.py", '    if job.holds(run):\n        return Drop("PAUSED")\n', ""),
        seed=65,
        rule="1.3 due, not held, not cancelled",
    ),
    # --- the lean end ---
    m(
        "lean_no_revoke",
        "the sweep declares an attempt lost whose owner may still end it in the row alone (V13)",
        ("usecases/sweep.py", "        if may_end_lean(job, slot, run.attempt):\n", "        if not slot:\n"),
        by="tests/unit/test_lean_end.py",
        rule="V13",
    ),
    m(
        "lean_no_revoke, cancel",
        "so does a cancel of the job",
        ("usecases/cancelling.py", "        if has_lean_run(job):\n", "        if not job.id:\n"),
        by="tests/unit/test_lean_end.py",
    ),
    m(
        "lean_no_revoke, execution",
        "so does a cancel of the execution",
        (
            "usecases/cancelling.py",
            "    if may_end_lean(job, key.slot_id, key.attempt) and key.slot_id in job.runs:\n",
            "    if not job.id:\n",
        ),
        by="tests/unit/test_lean_end.py",
    ),
    m(
        "lean ignores the revoke",
        "an owner ends its attempt in the row although its leave to was taken",
        (
            "domain/lean.py",
            " or not may_end_lean(job, execution.slot_id, execution.attempt):\n        return Drop",
            ":\n        return Drop",
        ),
        seed=29,
    ),
    m(
        "lean ignores the fence",
        "an owner ends in the row the attempt of another start",
        ("domain/lean.py", "fence=execution.fence, now=now)", "fence=run.fence, now=now)"),
        by="tests/unit/test_lean_end.py",
    ),
    m(
        "lean overwritten",
        "a write replaces the last run that is the only record of its execution",
        ("usecases/writing.py", "(execution := displaced(job, row))", "(execution := None)"),
        seed=24,
        rule="1.2 an `lr` that is an execution, puts that history row first",
    ),
    m(
        "lean again",
        "a new definition gives back the leave to end lean",
        (
            "domain/commands.py",
            "    lean = job.lean and may_be_lean",
            "    lean = may_be_lean",
        ),
        seed=18,
    ),
    # --- the row and its writes ---
    m(
        "condition dropped",
        "the row is written on no condition",
        (
            "adapters/dynamodb_jobs.py",
            '"ConditionExpression": f"{alias[\'seq\']} = :read"',
            '"ConditionExpression": "attribute_exists(jobId) OR :read = :read"',
        ),
        by="tests/contract/test_job_store.py::test_who_writes_from_an_old_row_loses_and_gets_the_new_one",
        rule="1.2 The write names the `seq` it read",
    ),
    m(
        "own write not recognised",
        "a repeated write is taken for another's",
        ("adapters/dynamodb_jobs.py", 'if item.get("wid") != text(new.write_id):', "if True:"),
        by="tests/contract/test_job_store.py::test_a_write_whose_answer_was_lost_succeeds",
    ),
    m(
        "version of the graph not asked for",
        "two changes of one graph at once both pass",
        (
            "adapters/dynamodb_graph.py",
            '"ConditionExpression": "#v = :read" if read else "attribute_not_exists(#v)"',
            '"ConditionExpression": "#v = :read OR #v <> :read" if read else "attribute_not_exists(w)"',
        ),
        by="tests/contract/test_graphs.py",
    ),
    m(
        "many put although one is there",
        "a transaction of new jobs overwrites one that exists",
        (
            "adapters/dynamodb_jobs.py",
            '"ConditionExpression": "attribute_not_exists(jobId)"',
            '"ConditionExpression": "attribute_not_exists(zz)"',
        ),
        by="tests/contract/test_job_store.py",
    ),
    m(
        "own transaction not recognised",
        "a repeated creation of many is taken for another's",
        ("adapters/dynamodb_jobs.py", "if not all(map(_is_of, stored, taken)):", "if taken:"),
        by="tests/contract/test_job_store.py::test_a_creation_of_many_whose_answer_was_lost_succeeds",
    ),
    m(
        "history overwritten",
        "a second row of an attempt replaces the first",
        (
            "adapters/dynamodb_history.py",
            (
                "Item=execution_item(execution, retention_days=self._retention_days),\n"
                '                ConditionExpression="attribute_not_exists(jobId)",'
            ),
            (
                "Item=execution_item(execution, retention_days=self._retention_days),\n"
                '                ConditionExpression="attribute_not_exists(jobId) OR attribute_exists(jobId)",'
            ),
        ),
        by="tests/contract/test_run_history.py::test_the_first_row_of_an_attempt_stays",
        rule="1.1 put if absent, never changed",
    ),
    m(
        "expired row trusted",
        "an idempotency key holds after its hour, until TTL removes the row",
        (
            "adapters/dynamodb_idempotency.py",
            "attribute_not_exists(pk) OR #ttl < :now",
            "attribute_not_exists(pk) OR (#ttl < :now AND #ttl > :now)",
        ),
        by="tests/contract/test_idempotency_keys.py",
    ),
    m(
        "send before put",
        "a new job's hint goes before its row",
        (
            "usecases/jobs.py",
            "    try:\n        job = services.jobs.create(job)\n",
            "    send(services, job, first_hints(job))\n    try:\n        job = services.jobs.create(job)\n",
        ),
    ),
    m(
        "end checks nothing",
        "an end checks neither fence nor attempt",
        (
            "domain/ending.py",
            "    if run is None or run.fence != fence or not _is_about(run, execution):\n",
            "    if run is None:\n",
        ),
        seed=30,
    ),
    m(
        "cancel keeps the fence",
        "a cancel leaves the fence to the run that it cancels",
        (
            "domain/cancellation.py",
            "        fence=job.fence + 1,\n        wakes=0,",
            "        fence=job.fence,\n        wakes=0,",
        ),
        rule="1.5 fence + 1",
    ),
    m(
        "end keeps attention",
        "an end leaves the attention where it was",
        (
            "domain/ending.py",
            "    row = with_attention(replace(released(row, instant), gap=None, wakes=0), instant)\n",
            "    row = replace(released(row, instant), gap=None, wakes=0)\n",
        ),
    ),
    m(
        "resume keeps attention",
        "a resume sets none",
        (
            "domain/commands.py",
            '    row = with_attention(row, int(now))\n    return Write(job=row, reason="RESUMED"',
            '    return Write(job=row, reason="RESUMED"',
        ),
    ),
    # --- messages ---
    m(
        "start does not arm",
        "the next slot is left to the sweep",
        (
            "domain/dispatch.py",
            "    hints = (*next_hint(row), *deadline_hint(",
            "    hints = (*(), *deadline_hint(",
        ),
    ),
    m(
        "skip does not arm",
        "the slot after a skipped one is left to the sweep (A4)",
        (
            "domain/dispatch.py",
            "return Write(job=row, reason=reason.value, flush=flush, hints=next_hint(row))",
            "return Write(job=row, reason=reason.value, flush=flush)",
        ),
    ),
    m(
        "name reused",
        "a schedule is named after the job alone: the next one conflicts",
        ("domain/timing.py", 'name=f"{job}-{kind}-{due_at}-{hint.attempt}-{slot}"', 'name=f"{job}-{kind}"'),
        by="tests/unit/test_timing.py",
    ),
    m(
        "early hint starts",
        "a hint that is 2 s early starts at once",
        (
            "domain/dispatch.py",
            "    if due_at <= now:\n        return None\n",
            "    if due_at <= now + CLOCK_SKEW:\n        return None\n",
        ),
        rule="1.3 early by up to 2 s",
    ),
    m(
        "resume sends nothing",
        "what a pause held is left to the sweep",
        (
            "domain/commands.py",
            'reason="RESUMED", flush=flush, hints=waiting_hints(row))',
            'reason="RESUMED", flush=flush)',
        ),
    ),
    m(
        "cancel overtaken by a start",
        "a cancel of a waiting attempt leaves the one that started meanwhile in the row",
        (
            "usecases/cancelling.py",
            "        job = services.jobs.get(job.id) or job\n    return job\n",
            "        break\n    return job\n",
        ),
        by="tests/unit/test_cancel_execution.py",
    ),
    # --- job types ---
    m(
        "type forgotten by the loser",
        "who lost a race decides again without the type's configuration",
        (
            "usecases/writing.py",
            "            job = lost.current\n        else:\n",
            "            job = lost.current\n            if job.definition is not None:\n"
            "                job = replace(job, definition=job.definition.under(engine.types.get(None)))\n"
            "        else:\n",
        ),
        (
            "usecases/writing.py",
            "    if job.definition is None:\n        return job\n",
            "    if job.definition is None or job.definition.policy is not None:\n        return job\n",
        ),
        seed=19,
    ),
    m(
        "type over job",
        "the type's word counts more than the job's",
        (
            "domain/definition.py",
            '{**config.retry, **self.document.get("retryConfig", {})}',
            '{**self.document.get("retryConfig", {}), **config.retry}',
        ),
    ),
    m(
        "poison at four",
        "the same error is given up at the fourth time",
        ("domain/ending.py", "    first = run.attempt - POISON_AT + 1\n", "    first = run.attempt - POISON_AT\n"),
        seed=28,
    ),
    m(
        "poison counts beyond a forced retry",
        "after a forced retry the errors before it count",
        ("domain/ending.py", "first < max(1, run.asked_attempt)", "first < 1"),
        by="tests/unit/test_type_inheritance.py",
    ),
    # --- the sweep ---
    m(
        "one shard short",
        "the sweep leaves out a shard",
        ("usecases/sweep.py", "list(range(engine.jobs.shards))", "list(range(engine.jobs.shards - 1))"),
    ),
    m(
        "lease from a cache",
        "the sweep knows the row from its last visit",
        (
            "usecases/sweep.py",
            "    job = engine.jobs.get(job_id, with_definition=False)\n",
            "    job = _SEEN.setdefault(job_id, engine.jobs.get(job_id, with_definition=False))\n",
        ),
        ("usecases/sweep.py", "_PARALLEL = 8\n", "_PARALLEL = 8\n_SEEN: dict[str, Job | None] = {}\n"),
    ),
    m(
        "sweep before the lease",
        "the sweep acts 20 s before a lease is over",
        ("domain/lease.py", "LEASE_GRACE = 5\n", "LEASE_GRACE = -20\n"),
    ),
    m(
        "quarantine too soon",
        "three wakes in vain are enough",
        ("domain/visit.py", "MAX_WAKES = 10\n", "MAX_WAKES = 3\n"),
        seed=12,
    ),
    m(
        "retry of what has ended",
        "a retry by force takes the number of an attempt that history has ended",
        (
            "usecases/actions.py",
            "        if run.state is RunState.WAITING and run.attempt > 0:\n",
            "        if not slot:\n",
        ),
        by="tests/unit/test_found_by_simulation.py",
        rule="1.5 forced retry",
    ),
    m(
        "recovered, nothing woken",
        "the visit that recovers a run looks at nothing else of the job",
        (
            "usecases/sweep.py",
            "        if isinstance(decision, Quarantine):\n",
            '        if done == "RECOVERED":\n            return done\n        if isinstance(decision, Quarantine):\n',
        ),
        by="tests/unit/test_found_by_simulation.py",
    ),
    m(
        "recovered and woken",
        "the visit that recovers a run wakes it, too",
        (
            "usecases/sweep.py",
            "            sent |= frozenset(waiting_hints(job)).difference(waited)\n",
            "",
        ),
        seed=32,
    ),
    m(
        "wakes ignore back-off",
        "a row that a lagging index shows is woken again",
        (
            "domain/visit.py",
            "    early = job.attention_at is not None and job.attention_at > now ",
            "    early = False ",
        ),
        by="tests/unit/test_visit.py::TestWake",
    ),
    m(
        "missed slot hastens wakes",
        "a missed slot that waits counts as due",
        ("domain/visit.py", "    if job.next_waits or (rest.next_slot", "    if (rest.next_slot"),
        seed=116,
    ),
    # --- retries ---
    m(
        "retry off by one",
        "one attempt too many",
        ("domain/retry.py", "        if attempt >= attempt_limit:\n", "        if attempt > attempt_limit:\n"),
    ),
    m(
        "lost worker off by one",
        "a lost worker's last attempt is repeated",
        (
            "domain/ending.py",
            "    exhausted, poison = run.attempt >= run.attempt_limit,",
            "    exhausted, poison = run.attempt > run.attempt_limit,",
        ),
        seed=13,
    ),
    m(
        "jitter after cap",
        "the jitter takes the delay beyond its maximum",
        ("domain/retry.py", "math.ceil(max(1.0, min(asked, self.max_delay_seconds)))", "math.ceil(max(1.0, asked))"),
        seed=21,
    ),
    m(
        "window at planning only",
        "a retry that was held up starts after its window",
        ("domain/dispatch.py", "return run.attempt > 0 and not run.forced and", "return run.attempt < 0 and"),
        rule="1.3 expire",
    ),
    m(
        "window at starting only",
        "a retry is planned after its window",
        (
            "domain/retry.py",
            "        if self.retry_window_seconds is not None and at >",
            "        if self.max_retries < 0 and at >",
        ),
    ),
    # --- reasons ---
    m(
        "put off without a word",
        "a run that is put off does not say for what",
        ("domain/dispatch.py", "deferred_for=deferral.reason", "deferred_for=None"),
    ),
    m(
        "failed without a word",
        "an attempt's end does not say what follows, and why",
        ("domain/ending.py", "replace(row, reason=reason, error=answer.error,", "replace(row, error=answer.error,"),
    ),
    # --- policies and schedules ---
    m(
        "overlap ignored",
        "a slot starts beside an active run",
        (
            "domain/dispatch.py",
            "    if job.runs:\n        return _overlap",
            "    if not job.id:\n        return _overlap",
        ),
        rule="1.3 no run active, or `allow` with room",
    ),
    m(
        "misfire skip runs",
        "misfire policy skip runs the latest",
        ("domain/dispatch.py", "    if definition.misfire is MisfirePolicy.SKIP:\n", "    if not job.id:\n"),
    ),
    m(
        "run_once runs the first",
        "misfire policy run_once runs the oldest missed slot",
        (
            "domain/dispatch.py",
            "        return _begin(job, latest, definition, now=now",
            "        return _begin(job, slot, definition, now=now",
        ),
        seed=20,
        rule="1.3 under `run_once` of the latest slot that is too late",
    ),
    m(
        "manual run under skip",
        "a run by hand starts beside an active one",
        ("domain/commands.py", "    if job.runs and must_have_room(", "    if not job.id and must_have_room("),
        seed=32,
    ),
    m(
        "repeated hour runs twice",
        "fixed times keep elapsed time when clocks go back",
        ("domain/cron.py", "        self._elapsed = fields.elapsed\n", "        self._elapsed = True\n"),
        by="tests/unit/test_cron.py::TestCases",
    ),
    m(
        "stars follow the clocks",
        "expressions with a star run once in the repeated hour",
        ("domain/cron.py", "        self._elapsed = fields.elapsed\n", "        self._elapsed = False\n"),
        seed=52,
    ),
    # --- the silence alarm ---
    m(
        "alarm forgotten in bound",
        "nobody looks when a silence alarm is due",
        (
            "domain/job.py",
            "        if self.silence is not None and self.silence.due_at is not None:\n",
            "        if self.id is None:\n",
        ),
    ),
    m(
        "alarm not ended by success",
        "a success leaves the alarm as it is",
        ("domain/ending.py", "        if execution.status is ExecutionStatus.COMPLETED:\n", "        if not job.id:\n"),
    ),
    m(
        "paused jobs are quiet",
        "a paused job raises no silence alarm",
        (
            "domain/visit.py",
            "    if silence is not None and silence.due_at",
            "    if silence is not None and not job.paused and silence.due_at",
        ),
        seed=13,
    ),
    m(
        "alarm in a wake's back-off",
        "a wake puts off the silence alarm too",
        (
            "domain/visit.py",
            "    return replace(rest, gap=None).bound(now)\n",
            "    return replace(rest, gap=None, silence=None).bound(now)\n",
        ),
        seed=21,
    ),
    m(
        "alarm told each minute",
        "the sweep raises the alarm without remembering it",
        ("domain/visit.py", "silence=replace(silence, alerted=True)", "silence=silence"),
        seed=10,
    ),
    m(
        "any change begins anew",
        "a change of anything sets the alarm anew",
        (
            "domain/silence.py",
            "    if silence is None or silence.after != definition.alert_after:\n",
            "    if silence is None or definition is not old:\n",
        ),
        seed=17,
    ),
    # --- circuits and slots (docs/protocol.md, 4 and 5) ---
    m(
        "probe without condition",
        "an attempt is the probe whoever was written down first",
        (
            "usecases/circuits.py",
            "        if circuit.write_id == mark:\n            return Taken",
            "        if mark:\n            return Taken",
        ),
    ),
    m(
        "probe by the clock",
        "a probe's time is over, so it is replaced, whether it starts or not",
        (
            "usecases/circuits.py",
            "if said is Admission.TAKE_OVER and probe is not None and not is_given_up(",
            "if False and not is_given_up(",
        ),
        by="tests/unit/test_places.py",
        rule="4 `pe` another's and `pu` past",
    ),
    m(
        "any success closes",
        "an attempt from before the opening closes the circuit by its success",
        (
            "domain/circuit.py",
            "    if circuit.probe is None or circuit.probe.execution_id != execution_id:\n        return None\n",
            "    if circuit.probe is None and health is not Health.UP:\n        return None\n",
        ),
        by="tests/unit/test_circuits_in_use.py",
        rule="4 else `pe` is this attempt",
    ),
    m(
        "circuit from a cache",
        "a circuit is read once a process",
        (
            "usecases/admission.py",
            "circuit = executor.circuits.get(circuit_of(row))",
            "key = circuit_of(row)\n            circuit = _CACHE.setdefault(key, executor.circuits.get(key))",
        ),
        ("usecases/admission.py", "\n\nclass Admission:", "\n_CACHE: dict[str, Circuit] = {}\n\n\nclass Admission:"),
    ),
    m(
        "defer_after_claim",
        "a start is claimed before its circuit is asked",
        (
            "usecases/admission.py",
            "            if circuit.state(now) is CircuitState.OPEN:\n",
            "            if circuit is None:\n",
        ),
        (
            "usecases/admission.py",
            "            if isinstance(probe, Circuit):\n",
            "            if isinstance(probe, Circuit) and probe.state(now) is CircuitState.HALF_OPEN:\n",
        ),
        (
            "usecases/admission.py",
            "            self._probe = probe\n",
            "            self._probe = probe if not isinstance(probe, Circuit) else None\n",
        ),
        rule="V12",
    ),
    m(
        "no report",
        "nobody tells the circuit what came of an attempt",
        (
            "usecases/executor.py",
            "    return conclude(executor, job, _judged_in_time(executor, job, slot, answer), answered)\n",
            "    return conclude(executor, job, _judged_in_time(executor, job, slot, answer))\n",
        ),
        by="tests/unit/test_circuits_in_use.py",
    ),
    m(
        "wait without end",
        "a run waits for an open circuit for ever",
        ("domain/circuit_deferral.py", " and now >= limit:", " and now >= limit + 10**9:"),
        by="tests/unit/test_circuits_in_use.py",
    ),
    m(
        "jitter that does not double",
        "all who wait look again within the first jitter",
        ("domain/circuit.py", "* 2 ** min(deferrals, _DOUBLINGS)", "* 1"),
        by="tests/unit/test_circuits_in_use.py",
    ),
    m(
        "slot without condition",
        "a slot is taken whoever has it",
        (
            "usecases/concurrency.py",
            "            if engine.slots.take(limit.key, slot, instead_of=old):\n",
            "            if engine.slots.take(limit.key, slot, instead_of=old) or True:\n",
        ),
    ),
    m(
        "grant without condition",
        "a slot is granted whoever took it since",
        (
            "usecases/concurrency.py",
            "        if engine.slots.take(key, kept, instead_of=None):\n",
            "        engine.slots.rows.setdefault(key, {})[index] = kept\n        if True:\n",
        ),
        seed=27,
    ),
    m(
        "grant not renewed",
        "a granted slot is used as it was found",
        (
            "usecases/concurrency.py",
            "        for index in _free(",
            "        if old is not None and old.holder == execution:\n"
            "            return Hold(limit.key, old, renewed=old.mark)\n"
            "        for index in _free(",
        ),
        by="tests/unit/test_places.py",
    ),
    m(
        "holder not written",
        "a slot is taken over without writing the row of its holder, who may be about to start",
        ("usecases/holders.py", "return refuse_writes_under_way(engine, job) is not None", "return True"),
        by="tests/unit/test_places.py",
        rule="5 Otherwise the row is written once more",
    ),
    m(
        "holder not read",
        "a slot is taken over once its time is over",
        (
            "usecases/holders.py",
            "    if key is None or job is None:\n        return True\n",
            "    if key or job:\n        return True\n",
        ),
        seed=23,
    ),
    m(
        "what was renewed is given back",
        "a loser gives back a slot on which the winner has started",
        (
            "usecases/admission.py",
            "            if unused or (not started and (applied is not None or name in self._anew)):\n",
            "            if unused or not started:\n",
        ),
        seed=59,
    ),
    m(
        "an end keeps its slot",
        "the row follows an end, and its slot stays",
        ("usecases/consequences.py", "    concurrency.after_write(engine, applied)\n", ""),
    ),
    m(
        "a cancel keeps the slot",
        "a cancelled job's slots stay",
        ("usecases/cancelling.py", "    carry_out(services, decided)\n    cleared", "    cleared"),
        by="tests/unit/test_concurrency_in_use.py",
    ),
    m(
        "no drain by the sweep",
        "the sweep looks at who waits for a slot and does nothing",
        (
            "usecases/sweep.py",
            "            concurrency.drain(engine, key, also=job, thorough=True)\n",
            "            pass\n",
        ),
        by="tests/unit/test_concurrency_in_use.py::TestTrouble",
    ),
    m(
        "a look that moves on",
        "the look at who waits is counted from each write of the row",
        (
            "domain/run.py",
            "        return last + min(max(last - began, WAIT_LOOK), WAIT_LOOK_MAX)",
            "        return now + WAIT_LOOK",
        ),
        by="tests/unit/test_dispatch.py",
    ),
    m(
        "slots in any order",
        "who comes last is served first",
        ("usecases/concurrency.py", "for _, job_id in sorted(found)", "for _, job_id in sorted(found, reverse=True)"),
        by="tests/unit/test_concurrency_in_use.py",
    ),
    m(
        "newcomers first",
        "a free slot is taken although others wait",
        ("usecases/concurrency.py", "if job_id != job.id and place < mine:", "if job_id != job.id and place < '':"),
        by="tests/unit/test_places.py",
        rule="5 nobody in the index comes first",
    ),
    m(
        "a grant for who is paused",
        "a paused job's run is granted a slot",
        ("domain/concurrency.py", " and not job.holds(run):", ":"),
        ("domain/permits.py", "run.current_attempt != attempt or job.holds(run):", "run.current_attempt != attempt:"),
        ("domain/permits.py", "run.waits_for is not None or job.holds(run)", "run.waits_for is not None"),
        by="tests/unit/test_places.py",
    ),
    # --- lifecycle events ---
    m(
        "skips told whole",
        "a gap that grew is told from its beginning again",
        ("domain/events.py", "count=gap.count - old.count", "count=gap.count"),
        seed=14,
    ),
    m(
        "quarantine untold",
        "a slot that is quarantined before it was in the row is told nobody",
        ("domain/events.py", "    passed = _ended_unstarted(change.before, change.after)\n", "    passed = None\n"),
        by="tests/unit/test_events.py",
    ),
    m(
        "last ends untold",
        "only attempts that are followed by another end for the world",
        ("domain/events.py", "        if new is None or (old", "        if new is not None and (old"),
    ),
    m(
        "outcome by the last run",
        "an end is told as the row's last run says, not as its own history row",
        ("domain/events.py", "    if row is not None:\n        code", "    if row is None:\n        code"),
    ),
    m(
        "skips told as failures",
        "a run that was skipped because of others is told as a dead letter",
        ("domain/events.py", "    ExecutionStatus.SKIPPED: Outcome.SKIPPED,\n", ""),
        by="tests/unit/test_graph_told.py",
    ),
    m(
        "unblocked to be skipped",
        "a run that is made to end at once is told as one that goes on",
        ("domain/graph_events.py", "run.took and run.verdict is None", "run.took"),
        by="tests/unit/test_graph_told.py",
    ),
    m(
        "waits told at each look",
        "a job that waits for others is told again with each other one that keeps it waiting",
        ("domain/graph_events.py", "if old is None or old.blocked_by is None:", "if True:"),
        by="tests/unit/test_graph_told.py",
    ),
    # --- results ---
    m(
        "the latest result",
        "a payload takes from the last run of the other job, not from the one its run was made for",
        ("usecases/upstream_values.py", "numbers.get(source, 0)", "0"),
        by="tests/unit/test_payloads_taken.py",
    ),
    m(
        "anybody's result",
        "a payload may take from jobs that its job does not depend on",
        ("domain/upstream_values.py", "or one.source not in allowed:", "or not one.source:"),
        by="tests/unit/test_upstream_values.py",
    ),
    m(
        "a payload of any size",
        "a payload may grow beyond its limit by what it takes",
        ("domain/upstream_values.py", "if (size := len(text.encode())) > PAYLOAD_BYTES:", "if (size := 0):"),
        by="tests/unit/test_payloads_taken.py",
    ),
    m(
        "zero is false",
        "a condition that is 0 is not met",
        ("domain/condition.py", "(isinstance(value, (str, list, dict)) and not value)", "(not value)"),
        by="tests/unit/test_expression.py",
    ),
    m(
        "reverse for nothing",
        "a condition may copy a long text as often as it likes",
        ("domain/expression_costs.py", '"reverse": _entries', '"reverse": _free'),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "join for nothing",
        "a condition may join hundreds of megabytes",
        ("domain/expression_costs.py", '"join": _joined', '"join": _free'),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "separators for nothing",
        "a condition may join hundreds of megabytes of separators",
        ("domain/expression_costs.py", '"join": _joined', '"join": _in_full'),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "keys of objects for nothing",
        "a condition may write a long key as often as it likes",
        ("domain/expression_costs.py", "effort.spend(sum(map(_weight, one)) * letters)", "effort.spend(0)"),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "long integers for nothing",
        "a condition may write integers of 4 300 digits as often as it likes",
        (
            "domain/expression_costs.py",
            "return value.bit_length() // _BITS_A_STEP if isinstance(value, int) else 0",
            "return 0",
        ),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "sort keys for nothing",
        "a condition may compare long texts as often as it likes",
        ("domain/expression_costs.py", "effort.spend(_weight(key)", "effort.spend(0"),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "any function of the library",
        "a function that a newer library brings is free",
        ("domain/expression.py", 'node["value"] not in PRICES', 'node["value"] not in Functions.FUNCTION_TABLE'),
        by="tests/unit/test_expression_costs.py",
    ),
    m(
        "identity of expressions",
        "a definition that is put again in another process passes over the run that is due",
        (
            "domain/cron.py",
            "return self._fields == other._fields and self._zone.key == other._zone.key",
            "return self is other",
        ),
        by="tests/unit/test_values.py",
    ),
    m(
        "zones for nothing",
        "the same time in another zone is the same schedule",
        (
            "domain/cron.py",
            "return self._fields == other._fields and self._zone.key == other._zone.key",
            "return self._fields == other._fields",
        ),
        by="tests/unit/test_values.py",
    ),
    m(
        "manual by any letter",
        "a run is taken for one that a caller asked for because its id has an m in it",
        ("domain/ids.py", 'slot[10:11] == "m"', '"m" in slot'),
        by="tests/unit/test_ids_spelling.py",
    ),
    # --- the state machine ---
    m(
        "steps of any fence",
        "the machine's states act for whatever attempt of the run is running",
        (
            "usecases/steps.py",
            "    return (job, run) if (run.fence, run.attempt) == (step.fence, step.attempt) else None\n",
            "    return job, run\n",
        ),
        by="tests/unit/test_steps.py",
        rule="1.3 expects `R` with the execution's fence and n",
    ),
    m(
        "names without fence",
        "an attempt that starts again has the name of the execution before it",
        ("domain/step.py", "-f{self.fence}", ""),
        by="tests/unit/test_step.py",
    ),
    m(
        "put off at its cost",
        "an attempt that was not made counts as one that was",
        ("domain/ending.py", "        is_unspent = execution.reason in UNSPENT\n", "        is_unspent = False\n"),
        ("domain/ending.py", "run.attempt_limit + is_unspent", "run.attempt_limit"),
        by="tests/unit/test_steps.py",
    ),
    m(
        "called once more",
        "the state that calls the target does not look whether it was called",
        ("usecases/steps.py", "    if recorded is not None:\n        return recorded\n    if gate", "    if gate"),
        by="tests/unit/test_steps.py",
        rule="1.3 no history yet",
    ),
    m(
        "calls beyond the lease",
        "a call that begins late may take the job's whole timeout",
        ("usecases/steps.py", "min(job.defined.timeout_seconds, left)", "job.defined.timeout_seconds"),
        by="tests/unit/test_steps.py",
    ),
    m(
        "unfollowed outcome",
        "the state after the call leaves the job's row to the sweep",
        (
            "usecases/steps.py",
            "    follow(attempts, job, recorded, fence=run.fence)\n    return recorded\n",
            "    return recorded\n",
        ),
        by="tests/unit/test_steps.py",
    ),
]
MUTANTS += WORK_MUTANTS + GATE_MUTANTS + GRAPH_MUTANTS + SENDER_MUTANTS + RACE_MUTANTS + PERMIT_MUTANTS + INPUT_MUTANTS
MUTANTS += OUTAGE_MUTANTS + ACCESS_MUTANTS + KEY_MUTANTS + SHARE_MUTANTS

EXCLUDED = {
    "fence alone ignored": "the attempt's number, checked beside it, tells the same: an attempt starts once",
}

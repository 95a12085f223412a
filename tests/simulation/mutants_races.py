"""Ways of breaking what holds when callers, consumers and the sweep act on one job in the same instant."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

OUTSIDE = "tests/unit/test_ends_from_outside.py"
LOST = "tests/unit/test_lost_races.py"
SAME = "tests/unit/test_unchanged.py"
CHANGES = "tests/unit/test_slots_of_a_change.py"
BY_HAND = "tests/unit/test_runs_by_hand.py"
SHOWN = "tests/unit/test_history_shown_once.py"
HANDLERS = "tests/integration/test_handlers.py"
DISPATCH = "domain/dispatch.py"
WRITING = "usecases/writing.py"
EXECUTOR = "usecases/executor.py"

RACE_MUTANTS: list[Mutant] = [
    m(
        "too late in history first",
        "a retry whose window is over is ended in history, and a forced retry that is written meanwhile with it",
        (
            DISPATCH,
            "        return too_late(job, hint.slot_id, now=now)\n",
            "        return Verdict(hint.slot_id, too_late(job, hint.slot_id, now=now).job)\n",
        ),
        by=OUTSIDE,
        rule="V17",
    ),
    m(
        "verdict under a lean leave",
        "a run that has its verdict may still be ended by the row alone",
        (
            "domain/decision.py",
            "lean=False, wakes=0)\n    row = replace(row, att",
            "wakes=0)\n    row = replace(row, att",
        ),
        by=OUTSIDE,
    ),
    m(
        "ending run is in the way",
        "a forced retry does not end the run whose verdict is in the row",
        ("usecases/actions.py", "    if condemned := _with_verdict(job):\n", "    if condemned := []:\n"),
        by=OUTSIDE,
    ),
    m(
        "engine gives up",
        "starts, ends and cancels are given up after five lost races, as a caller's change is",
        (WRITING, " and (tries or engine.clock.now() >= until):", ":"),
        by=LOST,
        rule="1.2 Every other write pauses up to 20 ms and is tried for 8 s",
    ),
    m(
        "callers insist",
        "callers' changes do not give way to starts and ends",
        (WRITING, " and (tries or engine.clock.now() >= until):", " and engine.clock.now() >= until:"),
        by=LOST,
    ),
    m(
        "pauses for long",
        "the engine waits for seconds after a lost race",
        (WRITING, "2**lost_races if tries else PAUSE)", "2**lost_races if tries else 5.0)"),
        by=LOST,
    ),
    m(
        "refused once and for all",
        "a write that the platform refuses is not tried again",
        (WRITING, "    return insist(engine, save, until=until)\n", "    return save()\n"),
        by=LOST,
        rule="1.2 repeat a call that the platform refuses for now",
    ),
    m(
        "outcome lost in a throttle",
        "what came of a call is lost where history refuses it for a while",
        (
            EXECUTOR,
            "    recorded = insist(engine, lambda: engine.history.record(execution), until=until)\n",
            "    recorded = engine.history.record(execution)\n",
        ),
        by=LOST,
    ),
    m(
        "outcome of the machine lost",
        "what came of a call in the state machine is lost where history refuses it for a while",
        (
            EXECUTOR,
            "    return insist(attempts, lambda: attempts.history.record(row), until=",
            "    return attempts.history.record(row), answer\n    return insist(attempts, lambda: None, until=",
        ),
        by=LOST,
    ),
    m(
        "cancel looks again and again",
        "a cancel begins anew for each change of the job, whatever it changed",
        (
            "usecases/cancelling.py",
            "            if _attempts(row) != _attempts(seen):\n                return row\n",
            "            return row\n",
        ),
        by=LOST,
    ),
    m(
        "skipped for a run that is over",
        "a slot is skipped for a run that history has ended",
        (EXECUTOR, "RunState.RUNNING and (skipped or again):", "RunState.RUNNING and again:"),
        by=LOST,
    ),
    m(
        "second hint ignored",
        "a hint that comes again does not look whether its attempt has ended",
        (EXECUTOR, "RunState.RUNNING and (skipped or again):", "RunState.RUNNING and skipped:"),
        by=LOST,
    ),
    m(
        "hints wait",
        "a hint that failed for now waits for the queue's visibility timeout",
        (
            "handlers/executor.py",
            "        if isinstance(error, TRANSIENT) or is_transient(error):\n",
            "        if False:\n",
        ),
        by=HANDLERS,
    ),
    m(
        "poison comes back at once",
        "a hint that nobody can handle is handed back, too",
        (
            "handlers/executor.py",
            "        if isinstance(error, TRANSIENT) or is_transient(error):\n",
            "        if True:\n",
        ),
        by=HANDLERS,
    ),
    m(
        "hints hammer",
        "a hint comes again after a second, however often it has failed",
        ("domain/timing.py", "    doubled = 1 << min(max(receives - 1, 0), 8)\n", "    doubled = 1\n"),
        by=LOST,
    ),
    m(
        "empty change is written",
        "a PUT of what is there writes the row",
        ("domain/commands.py", " and says_the_same(job.definition, definition)\n", " and False\n"),
    ),
    m(
        "defaults are changes",
        "a default that is written out is another definition",
        ("domain/sameness.py", "{**_DEFAULTS, **definition.document}", "dict(definition.document)"),
        by=SAME,
    ),
    m(
        "kinds of numbers are lost",
        "a payload of 1.0 instead of 1 changes nothing",
        ("domain/sameness.py", "json.dumps(json.loads(payload), sort_keys=True)", "str(json.loads(payload) == 1)"),
        by=SAME,
    ),
    m(
        "answers the row that lost",
        "a change that finds itself made answers with the row that was read before",
        (
            "usecases/jobs.py",
            "    if isinstance(applied, Job):\n        return applied\n",
            "    if isinstance(applied, Job):\n        return job\n",
        ),
        by=SAME,
    ),
    m(
        "spread that shrinks",
        "a change of the spread takes away the run that had not started yet",
        ("domain/rescheduling.py", "None if resumes else _kept(job, definition, int(now))", "None"),
        (
            "domain/rescheduling.py",
            "    return now - job.spread if moved else now\n",
            "    return now - job.spread\n",
        ),
        by=f"{CHANGES}::test_a_smaller_spread_between_the_scheduled_time_and_the_start_starts_the_run",
    ),
    m(
        "change takes a due run",
        "a change of the end or of maxRuns skips the slot whose hint is under way",
        ("domain/rescheduling.py", "None if resumes else _kept(job, definition, int(now))", "None"),
        by=f"{CHANGES}::test_a_smaller_spread_between_the_scheduled_time_and_the_start_starts_the_run",
        rule="1.5 the last slot up to now stays `nx`",
    ),
    m(
        "kept beyond its end",
        "a change that lets a job run no more leaves it the slot that had come",
        (
            "domain/rescheduling.py",
            " or definition.depends_on or _has_run_out(job, definition):",
            " or definition.depends_on:",
        ),
        by="tests/unit/test_commands.py::TestChange",
    ),
    m(
        "kept in another schedule",
        "a slot of the old schedule stays the next one under a new schedule that does not have it",
        ("domain/rescheduling.py", "    return last if is_slot and (", "    return last if ("),
    ),
    m(
        "cancel forgets what had come",
        "a cancel between a scheduled time and its start leaves that time without outcome",
        (
            "domain/cancellation.py",
            "into_gap(row, until=instant, reason",
            "into_gap(row, until=instant - row.spread, reason",
        ),
        by="tests/unit/test_commands.py::TestCancel",
    ),
    m(
        "last time is skipped",
        "a run by hand takes the job's last scheduled time away",
        (DISPATCH, "    if _is_last(job, slot, definition) and not", "    if False and not"),
        by=BY_HAND,
        rule="1.3 no slot comes after it, and the policy has room",
    ),
    m(
        "what waited was missed",
        "the last scheduled time that waited for a run by hand is skipped as a misfire",
        (DISPATCH, "    if slot > threshold or waited:\n", "    if slot > threshold:\n"),
        by=BY_HAND,
    ),
    m(
        "last time beside its own",
        "the last scheduled time waits for any run, whatever the overlap policy",
        (DISPATCH, " and not refuses_scheduled(job, definition):", ":"),
        by=BY_HAND,
    ),
    m(
        "held retry in the way",
        "a run by hand waits for a retry that a pause holds",
        ("domain/overlap.py", "    if not job.goes_on:\n", "    if not job.runs:\n"),
        by=BY_HAND,
    ),
    m(
        "retry beside the run by hand",
        "a retry that is let go starts beside the run by hand",
        (
            "domain/overlap.py",
            "    if job.defined.overlap is OverlapPolicy.ALLOW:\n        return False\n",
            "    if True:\n        return False\n",
        ),
        by=f"{BY_HAND}::test_the_held_retry_waits_for_the_run_by_hand_when_it_is_let_go_before",
    ),
    m(
        "two claims at a time",
        "a worker is given a retry beside the run by hand",
        ("domain/claims.py", " or must_step_back(job, key.slot_id):", ":"),
        by=BY_HAND,
        rule="1.3 step back",
    ),
    m(
        "queued behind a pause",
        "a run by hand that has queued waits for as long as the pause lasts",
        (
            "domain/ending.py",
            "        if not (job.has_active and job.holds(run)):\n",
            "        if not job.has_active:\n",
        ),
        by=BY_HAND,
    ),
    m(
        "overtakes what is held",
        "a pause lets a scheduled run go that waits for a retry",
        ("domain/ending.py", "        if not (job.has_active and job.holds(run)):\n", "        if True:\n"),
        by=BY_HAND,
    ),
    m(
        "gap shown twice",
        "history shows what the row has of a gap beside what history has of it",
        (
            "adapters/dynamodb_history.py",
            "            yield _whole(row, others.pop())\n",
            "            yield others.pop()\n            yield row\n",
        ),
        by="tests/contract/test_run_history.py::test_what_has_no_row_is_listed_in_its_place",
    ),
    m(
        "gap shrinks in history",
        "of a gap that has grown since it was read the part that was read is shown",
        ("adapters/dynamodb_history.py", "    return stored if grown else beside\n", "    return beside\n"),
        by="tests/contract/test_run_history.py::test_a_gap_is_listed_once_however_much_of_it_history_has",
    ),
    m(
        "ended and running",
        "an attempt is shown as running although its end is on another page",
        ("usecases/history.py", "    return on_another and services", "    return False and services"),
        by=SHOWN,
    ),
]

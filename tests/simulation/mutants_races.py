"""Ways of breaking what holds when callers, consumers and the sweep act on one job in the same instant."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

OUTSIDE = "tests/unit/test_ends_from_outside.py"
LOST = "tests/unit/test_lost_races.py"
SAME = "tests/unit/test_unchanged.py"
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
            "usecases/actions.py",
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
]

"""Ways of breaking what approval gates rest on."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

GATES = "tests/unit/test_approvals.py"
RACES = "tests/unit/test_approval_races.py"
STORIES = "tests/simulation/test_work.py"
APPROVAL = "domain/approval.py"

GATE_MUTANTS: list[Mutant] = [
    m(
        "gate without a hint",
        "nothing is sent for the deadline of a gate",
        (APPROVAL, "    return row, (Due(slot, run.attempt + 1, deadline),)\n", "    return row, ()\n"),
        by=GATES,
        rule="1.3 the job has a gate that the run has not passed: gate",
    ),
    m(
        "approved whatever it calls",
        "an approval holds for whatever the job becomes",
        (
            APPROVAL,
            "    return None if given.subject in (None, subject_of(definition)) else policy\n",
            "    return None\n",
        ),
        by=GATES,
    ),
    m(
        "retries never ask",
        "a forced retry of what nobody approved passes the gate",
        (APPROVAL, "run.attempt == 0 or run.forced or run.at_gate", "run.attempt == 0 or run.at_gate"),
        by=GATES,
    ),
    m(
        "a retry at its gate is let through",
        "only first attempts wait at a gate",
        (APPROVAL, " or run.forced or run.at_gate else None", " or run.forced else None"),
        by=GATES,
    ),
    m(
        "decided twice",
        "a decision replaces the one before",
        (
            APPROVAL,
            "    if run is None or not run.at_gate or run.due_at is None:\n",
            "    if run is None or run.due_at is None:\n",
        ),
        by=RACES,
        rule="1.5 the run is at its gate, before the deadline",
    ),
    m(
        "decided after the deadline",
        "a decision counts until the hint of the deadline comes",
        (APPROVAL, "    if run.due_at <= now:\n", "    if run.due_at < 0:\n"),
        by=GATES,
    ),
    m(
        "two eyes",
        "with fourEyes the creator decides",
        (APPROVAL, "_own_work(job, caller, asked_by) if policy.four_eyes else None", "None"),
        by=GATES,
    ),
    m(
        "rejected and held",
        "a pause holds what was rejected",
        (APPROVAL, "verdict_for=reason, manual=True)", "verdict_for=reason)"),
        by=GATES,
    ),
    m(
        "offered though changed",
        "a worker is given what was approved for another payload",
        (APPROVAL, "(run.at_gate and gate is None) or (offered and gate is not None)", "run.at_gate and gate is None"),
        by=GATES,
    ),
    m(
        "timed out in history first",
        "the deadline ends the run in history, and a decision that is written meanwhile is in vain",
        (
            APPROVAL,
            "    return _decided(job, slot, ended, TIMED_OUT, now=now)\n",
            "    return Verdict(slot, with_run(job, slot, ended))\n",
        ),
        (APPROVAL, "import Due, Write,", "import Due, Verdict, Write,"),
        ("domain/dispatch.py", "    if isinstance(passed, Write):\n", "    if not isinstance(passed, ActiveRun):\n"),
        by=RACES,
    ),
    m(
        "approved though cancelled",
        "a decision does not look whether history has ended the run",
        ("usecases/approvals.py", "        job = _ended(services, job, slot)\n", ""),
        by=GATES,
    ),
    m(
        "gates asleep for the sweep",
        "the sweep leaves a run at its gate to whoever decides",
        ("domain/visit.py", "run.waits_for not in (None, APPROVAL)\n", "run.waits_for is not None\n"),
        by=GATES,
    ),
    m(
        "gate over within clock skew",
        "a gate's time is over while a function whose clock is behind takes a decision",
        ("domain/dispatch.py", "due_at + CLOCK_SKEW if run.at_gate else due_at", "due_at"),
        by=GATES,
        rule="1.3 a run at its gate, the deadline + 2 s past",
    ),
    m(
        "forced past another payload",
        "a forced retry calls what nobody approved, after a run that was approved",
        (
            APPROVAL,
            "given.subject in (None, subject_of(definition)) else",
            "run.forced or given.subject in (None, subject_of(definition)) else",
        ),
        by=STORIES,
    ),
    m(
        "asked about again",
        "a forced retry of an approved run waits for a second approval",
        (
            APPROVAL,
            "    if given is None:\n        return policy if run.attempt",
            "    if given is None or (run.forced and run.attempt > 0):\n        return policy if run.attempt",
        ),
        by=STORIES,
    ),
]

"""Ways of breaking how permits and probes are let go: by whoever ends an attempt, or a wait."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

PROBES = "tests/unit/test_probes.py"
GRANTS = "tests/unit/test_grants.py"
CALLS = "tests/unit/test_cancelled_calls.py"
BOUNDS = "tests/architecture/test_crash_bounds.py"

PERMIT_MUTANTS: list[Mutant] = [
    # --- whose circuit it is ---
    m(
        "circuit without owner",
        "the jobs of all owners share the circuit of a target",
        (
            "domain/circuit.py",
            "    return str(CircuitKey(target, definition.type, job.owner))\n",
            "    return str(CircuitKey(target))\n",
        ),
    ),
    m(
        "circuit without type",
        "jobs of types with other thresholds share a circuit",
        ("domain/circuit.py", "CircuitKey(target, definition.type, job.owner)", "CircuitKey(target, None, job.owner)"),
    ),
    m(
        "shared circuit of each owner",
        "a circuit that the stage shares is each owner's own",
        (
            "domain/circuit.py",
            "    if definition.circuit is not None and definition.circuit.shared:\n",
            "    if False:\n",
        ),
        by="tests/unit/test_key_scopes.py",
    ),
    m(
        "reset by a foreigner",
        "every scheduler resets every circuit",
        ("usecases/circuits.py", "        caller.must_change(owner)\n", "        caller.must_write()\n"),
    ),
    m(
        "thresholds of the job",
        "a job's own thresholds count, as the release before kept them",
        ("domain/definition.py", "            document = _without_thresholds(document)\n", ""),
        (
            "domain/definition.py",
            "circuit = config.circuit_for(target_key(self.target)) if",
            "circuit = config.circuit_for(target_key(self.target)).under(own or {}) if",
        ),
        by="tests/unit/test_overlapping_settings.py",
    ),
    # --- probes ---
    m(
        "no news untold",
        "who ends a probe without an answer leaves its circuit half open",
        (
            "usecases/circuits.py",
            "    for execution, key in probes_ended(applied.before, applied.job):\n",
            "    for execution, key in ():\n",
        ),
        by=PROBES,
        rule="4 no news",
    ),
    m(
        "probe unmarked",
        "a start does not keep in its row that it is a probe",
        ("usecases/admission.py", "probes = None if self._probe is None else", "probes = None if True else"),
        by=PROBES,
    ),
    m(
        "no news before the answer",
        "a probe's circuit hears that there is no news before it hears the answer",
        (
            "usecases/consequences.py",
            "    circuits.after_write(engine, applied, answered)\n",
            "    circuits.after_write(engine, applied)\n    circuits.after_write(engine, applied, answered)\n",
        ),
        by=PROBES,
    ),
    m(
        "probe of anybody",
        "an end without news frees the place of whoever probes",
        (
            "domain/circuit.py",
            " or circuit.probe is None or circuit.probe.execution_id != execution_id:\n        return None\n"
            "    return replace",
            " or circuit.probe is None:\n        return None\n    return replace",
        ),
        by=PROBES,
    ),
    m(
        "answer lost with the race",
        "an owner whose attempt others have ended keeps the target's answer to itself",
        ("usecases/executor.py", "        circuits.report(engine, answered)\n    return job\n", "    return job\n"),
        by=PROBES,
    ),
    m(
        "waits counted twice",
        "time that a run waited for its permit counts as time that its circuit held it back",
        (
            "domain/circuit_deferral.py",
            "    if run is None or run.deferred_for != CIRCUIT_OPEN:\n        return None\n",
            "    if run is None or run.at_gate:\n        return None\n",
        ),
        by=PROBES,
    ),
    m(
        "held back anew",
        "each look counts the time for which a circuit may hold a run back from its own instant",
        (
            "domain/dispatch.py",
            "    return now if run.deferred_for != CIRCUIT_OPEN or run.held_back_at is None else run.held_back_at\n",
            "    return now\n",
        ),
        by=PROBES,
    ),
    # --- permits that are kept for a run ---
    m(
        "grants kept",
        "a run that leaves its wait keeps the permit that was granted to it",
        ("domain/permits.py", "else _granted(job, run)", "else ()"),
        by=GRANTS,
        rule="5 let go",
    ),
    m(
        "grant not marked",
        "a run that has its turn is not due: its lost hint is sent again by the look that doubles",
        (
            "domain/permits.py",
            "    turn = replace(run, waits_for=None, due_at=int(now), looked_at=None, granted=name)\n",
            "    turn = replace(run, granted=name)\n",
        ),
        by=BOUNDS,
    ),
    m(
        "permit before the row",
        "a drain puts the permit first, and then tells the run",
        (
            "usecases/concurrency.py",
            "    try:\n        turn = apply(",
            "    if index is not None and index not in held:\n"
            "        now = int(engine.clock.now())\n"
            "        mark, until = engine.new_write_id(), now + GRANT_SECONDS\n"
            "        first = Slot(index=index, holder=permit.execution_id, mark=mark, at=now, until=until)\n"
            "        if engine.slots.take(key, first, instead_of=None):\n"
            "            held[index] = first\n"
            "    try:\n        turn = apply(",
        ),
        by=GRANTS,
    ),
    m(
        "grant not looked at again",
        "a drain does not read the row again after it has put the permit",
        ("usecases/concurrency.py", "            if not still_granted(row, permit):\n", "            if False:\n"),
        by=GRANTS,
        rule="5 the row is read again",
    ),
    m(
        "grant for ever",
        "a permit is kept for a run that never starts",
        ("domain/permits.py", "    if not job.wakes:\n        return job\n", "    return job\n"),
        by=BOUNDS,
    ),
    m(
        "old key waited for",
        "a run goes on waiting for the key that its job had before",
        (
            "domain/commands.py",
            "    row, unlimited = no_longer_limited(row, definition, now=int(now))\n",
            "    unlimited: tuple[Due, ...] = ()\n",
        ),
        by=GRANTS,
    ),
    m(
        "grant of an old key",
        "a permit of the key that a job had before stays with it",
        (
            "domain/permits.py",
            "        elif run.granted is not None and read_hold(run.granted)[0] not in keys:\n",
            "        elif False:\n",
        ),
        by=GRANTS,
    ),
    m(
        "grant taken back unwritten",
        "a permit that was kept for a run is freed while that is about to start on it",
        (
            "usecases/concurrency.py",
            "        if may_start(applied.job, execution):\n            _take_back(engine, key, execution)\n",
            "        if False:\n            pass\n",
        ),
        by=GRANTS,
    ),
    m(
        "narrow before wide",
        "a run that cannot use the free permit keeps it from those that can",
        (
            "usecases/concurrency.py",
            "                if room is None or all(index in held for index in range(room)):\n",
            "                if True:\n",
        ),
        by=GRANTS,
    ),
    # --- calls that go on after a cancel ---
    m(
        "cancelled jobs let go",
        "a cancelled job's call goes on without its permit",
        ("domain/cancellation.py", "        with_calls(row, job.runs),\n", "        row,\n"),
        by=CALLS,
        rule="5 of an `R` with `sl`, by a caller",
    ),
    m(
        "cancelled executions let go",
        "a cancelled execution's call goes on without its permit",
        (
            "domain/ending.py",
            "        if goes_on and execution.status is ExecutionStatus.CANCELLED:\n",
            "        if False:\n",
        ),
        by=CALLS,
    ),
    m(
        "permits of calls by the row's runs",
        "whoever wants the permit of a cancelled call finds no run in its row, and takes it",
        ("usecases/holders.py", "    if run is None and place is not None:\n", "    if False:\n"),
        by=CALLS,
    ),
    m(
        "owner does not say",
        "the owner of a cancelled call does not say that it has ended",
        (
            "usecases/executor.py",
            "        call_over(engine, job.id, execution.slot_id, job.runs[execution.slot_id])\n",
            "",
        ),
        by=CALLS,
        rule="5 its owner finds it cancelled",
    ),
    m(
        "machine does not say",
        "a call that the state machine's function makes ends, and nobody says so once the machine is stopped",
        (
            "usecases/steps.py",
            "    if execution.status is ExecutionStatus.CANCELLED:\n",
            "    if execution is None:\n",
        ),
        by=CALLS,
    ),
    m(
        "anybody's report",
        "whoever reports on a cancelled execution frees its permit",
        ("usecases/reports.py", " and holder.holds(call):", ":"),
        by=CALLS,
    ),
    m(
        "calls without end",
        "a cancelled call of a dead owner keeps its permit for ever",
        (
            "domain/visit.py",
            "    if over is not None:\n        return over\n",
            "",
        ),
        by=CALLS,
    ),
    m(
        "calls unattended",
        "nobody looks at a cancelled job whose call goes on",
        (
            "domain/job.py",
            "        looks += [call.lease_expires_at for call in self.cancelled_calls.values()]\n",
            "",
        ),
        by=CALLS,
    ),
    m(
        "a callback's first lease",
        "a cancelled callback keeps its permit no longer than its call may take",
        (
            "domain/permits.py",
            "        lease = run.deadline_at + LEASE_MARGIN\n",
            "        lease = min(lease or 0, (run.deadline_at or 0) - 900)\n",
        ),
        by=CALLS,
    ),
    m(
        "late copies free calls",
        "a late copy of a cancelled attempt's hint gives its permit back",
        (
            "domain/concurrency.py",
            "    if call is not None and held in call.holds:\n",
            "    if call is not None and key is None:\n",
        ),
        by=CALLS,
    ),
]

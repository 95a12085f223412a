"""Ways to break what keeps an outage of the executor from ending runs and schedules."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

OUTAGES = "tests/unit/test_executor_outages.py"
QUARANTINE = "tests/unit/test_quarantine.py"
FEEDING = "tests/unit/test_feeding.py"
LIVENESS = "tests/unit/test_liveness.py"
REGAINED = "tests/unit/test_regained_slots.py"

OUTAGE_MUTANTS: list[Mutant] = [
    m(
        "quarantine ends the schedule",
        "a quarantine of the next slot leaves none",
        (
            "domain/quarantine.py",
            "    return advance(job, slot, job.definition, started=False)\n",
            "    return replace(job, next_slot=None, last_slot=slot, catch_up_to=None)\n",
        ),
        seed=45,
        rule="V16",
    ),
    m(
        "wakes count in an outage",
        "a wake counts whether or not the executor works for others",
        ("usecases/sweep.py", "    return job, tick.liveness.lets_count(job)\n", "    return job, True\n"),
        seed=12,
    ),
    m(
        "nobody is quarantined",
        "no wake counts, whatever the others show",
        ("usecases/sweep.py", "    return job, tick.liveness.lets_count(job)\n", "    return job, False\n"),
        seed=45,
    ),
    m(
        "other queues vouch",
        "a job that was started from another queue shows that the executor takes hints from this one",
        ("domain/liveness.py", " and one.priority is job.priority", ""),
        by=LIVENESS,
    ),
    m(
        "stuck jobs vouch",
        "a job that was started before it got stuck shows that the executor works",
        ("domain/liveness.py", " for one in others if not _is_stuck(one)", " for one in others"),
        by=LIVENESS,
    ),
    m(
        "claims vouch",
        "an attempt that a worker claimed shows that the executor works",
        ("domain/liveness.py", " and job.definition.worker_queue is None", ""),
        by=LIVENESS,
    ),
    m(
        "one may vouch for many",
        "jobs are quarantined by the dozen as long as others start",
        ("domain/liveness.py", "self.stuck <= min(self.started, FEW)", "self.stuck <= self.started"),
        by=LIVENESS,
    ),
    m(
        "unreadable by the thousand",
        "a definition that cannot be read is reason enough, however many are stuck",
        (
            "domain/liveness.py",
            "        return self.stuck <= min(",
            "        return not readable or self.stuck <= min(",
        ),
        by=LIVENESS,
    ),
    m(
        "signs last for two hours",
        "a start from before the outage quarantines what came due in it",
        ("domain/liveness.py", "STARTED_SECONDS = 3_600\n", "STARTED_SECONDS = 7_200\n"),
        by=LIVENESS,
    ),
    m(
        "held wakes are kept",
        "after an outage a row is quarantined at the first wake in vain",
        ("domain/visit.py", "HELD_WAKES = MAX_WAKES - 2\n", "HELD_WAKES = MAX_WAKES\n"),
        by="tests/unit/test_visit.py",
    ),
    m(
        "the owner is not asked",
        "jobs that run once show nothing",
        (
            "usecases/liveness.py",
            "                sample = sample | self._by_owner(job.owner)\n",
            "                pass\n",
        ),
        by=LIVENESS,
    ),
    m(
        "quarantine without a verdict",
        "what is quarantined may be started until its row follows history",
        (
            "domain/quarantine.py",
            "            run = condemned(run, outcome=Outcome.PERMANENTLY_FAILED, reason=QUARANTINED)\n",
            "            run = replace(run, verdict_for=QUARANTINED)\n",
        ),
        by=QUARANTINE,
        rule="1.4 One write gives each run that is due its verdict",
    ),
    m(
        "quarantine arms nothing",
        "the slot after a quarantined one is left to the sweep",
        ("usecases/sweep.py", "    send(engine, job, then)\n", ""),
        seed=73,
    ),
    m(
        "armed before the end",
        "the slot after a quarantined one is armed while that is in its way",
        (
            "usecases/sweep.py",
            "            job, done, then = decision.job, decision.write.reason, decision.write.hints\n",
            "            job, done, then = decision.job, decision.write.reason, ()\n"
            "            send(engine, job, decision.write.hints)\n",
        ),
        by=QUARANTINE,
    ),
    m(
        "a definition apart is none",
        "a definition in a row of its own counts as one that cannot be read",
        (
            "usecases/sweep.py",
            "    job = engine.jobs.get(job.id) or job\n    return job, tick",
            "    return job, tick",
        ),
        by=QUARANTINE,
    ),
    m(
        "a quarantine that dies",
        "runs that have their verdict wait for the executor that fails at them",
        ("domain/visit.py", "    if QUARANTINED in judged.values():\n", "    if not job.id:\n"),
        by=QUARANTINE,
    ),
    m(
        "resume regains nothing",
        "a job that has lost its next slot is answered that it is not paused",
        ("domain/commands.py", "    if not job.paused and row is job:\n", "    if not job.paused:\n"),
        by=REGAINED,
        rule="1.4 gets it again by resume",
    ),
    m(
        "a retry regains nothing",
        "a forced retry leaves a recurring job without its next slot",
        (
            "domain/commands.py",
            "    row, hints = with_regained_slot(row, definition, now=now)\n    row = replace(row, at",
            "    hints: tuple[Due, ...] = ()\n    row = replace(row, at",
        ),
        by=REGAINED,
    ),
    m(
        "a PUT regains nothing",
        "the same document again leaves a recurring job without its next slot",
        (
            "domain/commands.py",
            "    else:\n        row, hints = with_regained_slot(",
            "    elif False:\n        row, hints = with_regained_slot(",
        ),
        by=REGAINED,
    ),
    m(
        "what has run out is regained",
        "a job that has had its runs begins again",
        ("domain/rescheduling.py", "    if _has_run_out(row, definition):\n", "    if not row.id:\n"),
        by=REGAINED,
    ),
    m(
        "feeds beyond its room",
        "a tick sends as many hints as it finds jobs",
        ("usecases/sweep.py", "            self.room -= hints\n", "            self.room -= 0 * hints\n"),
        by=FEEDING,
        rule="1.4 until 1,000 wait in the run queues",
    ),
    m(
        "one shard after the other",
        "what is due longest waits behind another shard's",
        (
            "usecases/liveness.py",
            "        for walk in tuple(left):\n            try:\n                yield next(walk)\n",
            "        for walk in tuple(left):\n            try:\n                yield next(walk)\n"
            "                yield from walk\n",
        ),
        by=f"{FEEDING}::test_the_longest_due_of_all_shards_come_first",
    ),
    m(
        "no room, no repair",
        "a lease that is over waits until there is room for hints",
        (
            "domain/visit.py",
            "    for slot, run in job.runs.items():\n",
            '    if not feeding:\n        return Drop("BACKLOG")\n    for slot, run in job.runs.items():\n',
        ),
        by=f"{FEEDING}::test_a_lease_that_is_over_does_not_wait_behind_what_is_to_be_woken",
    ),
    m(
        "failed hints do not wait",
        "hints that failed and come again leave their room to others",
        ("adapters/timetable.py", " + max(0, in_flight - queue.capacity)", ""),
        by="tests/contract/test_timetable.py",
    ),
    m(
        "calls wait",
        "hints that consumers are at work on leave no room",
        ("adapters/timetable.py", "in_flight - queue.capacity", "in_flight"),
        by="tests/contract/test_timetable.py",
    ),
]

"""Ways of breaking what holds when callers, consumers and the sweep act on one job in the same instant."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

OUTSIDE = "tests/unit/test_ends_from_outside.py"
DISPATCH = "domain/dispatch.py"

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
]

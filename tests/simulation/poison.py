"""What `poisonDetection` promises: the same error three times in a row ends a run, and nothing else does so."""

from __future__ import annotations

from functions.domain.ending import UNSPENT
from functions.domain.execution import Execution
from tests.simulation.kinds import rules_of
from tests.simulation.life import Life
from tests.simulation.rows import must

KEPT = 3 * 3600 - 60
"""Seconds for which the row of an attempt can surely be read."""


def check_poison(life: Life, failed: Execution, *, changed: bool) -> None:
    """`changed`: a caller has changed the job since the run began, so its owner may have had other rules."""
    slot, attempt, error = failed.slot_id, failed.attempt, failed.error
    asked = max((number for of, number in life.forced if of == slot and number <= attempt), default=0)
    before = [life.history.get((slot, attempt - 2)), life.history.get((slot, attempt - 1))]
    same = (
        error is not None
        and error.code not in UNSPENT
        and attempt - 2 >= max(1, asked)
        and all(row is not None and row.error == error for row in before)
    )
    wanted = bool(rules_of(life.period.document).get("poisonDetection"))
    if failed.reason == "POISON":
        must(same, "poison is the same error three times in a row", life, (failed, before, asked))
        must(wanted or changed, "poison is looked for where it is asked for", life, failed)
    elif same and wanted and not failed.final and not changed and before[0] is not None:
        kept = failed.completed_at - before[0].completed_at < KEPT
        must(not kept, "poison is given up at once", life, (failed, before))

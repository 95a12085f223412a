"""Results that are kept as JSON text, judged when they are read. One that is not JSON is lost; what its row says of how
the run ended counts all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from functions.domain.execution import LOST_RESULT, Execution, ExecutionStatus
from functions.domain.run import LastRun, Outcome
from functions.domain.stored_json import is_readable


def make_execution(**values: Any) -> Execution:
    """The execution of a row's values."""
    row = Execution(**values)
    if row.result is None or is_readable(row.result):
        return row
    return replace(row, result=None, error=LOST_RESULT if row.status is ExecutionStatus.COMPLETED else row.error)


def make_last_run(**values: Any) -> LastRun:
    """The same of a run that ended last."""
    last = LastRun(**values)
    if last.result is None or is_readable(last.result):
        return last
    code = LOST_RESULT.code if last.outcome is Outcome.COMPLETED else last.error_code
    return replace(last, result=None, error_code=code)

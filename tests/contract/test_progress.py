"""Progress: one row an execution, at most one write a second."""

from __future__ import annotations

import pytest

from functions.domain.progress import Progress, checked
from tests.contract.conftest import at_once
from tests.factories import NOW

ONE = "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1800000000-0001"


def test_the_last_report_is_read(progress):
    assert progress.read(ONE) is None

    assert progress.report(ONE, Progress(percent=40, message="half of it"), now=NOW)
    assert progress.report(ONE, Progress(percent=41.5), now=NOW + 1)

    assert progress.read(ONE) == Progress(percent=41.5, message="")


def test_a_report_within_a_second_is_not_kept(progress):
    progress.report(ONE, Progress(percent=1), now=NOW)

    assert not progress.report(ONE, Progress(percent=2), now=NOW + 0.999)
    assert progress.read(ONE) == Progress(percent=1)
    assert progress.report(ONE, Progress(percent=3), now=NOW + 1.0)


def test_of_reports_at_once_one_is_written(progress):
    kept = at_once(8, lambda n: progress.report(ONE, Progress(percent=n), now=NOW))

    assert kept.count(True) == 1


def test_executions_do_not_slow_each_other(progress):
    assert progress.report(ONE, Progress(percent=1), now=NOW)
    assert progress.report(ONE[:-1] + "2", Progress(percent=1), now=NOW)


@pytest.mark.parametrize(
    ("percent", "message"), [(True, ""), (-1, ""), (100.5, ""), ("5", ""), (None, ""), (5, "x" * 257), (5, None)]
)
def test_what_is_no_progress_is_refused(percent, message):
    with pytest.raises(ValueError, match="is no"):
        checked(percent, message)


def test_text_that_cannot_be_stored_is_replaced():
    assert checked(5, "a\udc80").message == "a?"

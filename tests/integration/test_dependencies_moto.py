"""Two changes of the graph at the same instant, over the DynamoDB adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.domain.errors import InvalidFieldError
from functions.domain.job import Job
from tests.integration.test_crash_points_moto import driver_over
from tests.turns import Race, giving, interleaved

if TYPE_CHECKING:
    from tests.conftest import Aws


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_changes_that_would_close_a_cycle_together_end_with_one_refused(aws: Aws) -> None:
    def begin() -> Race:
        driver = driver_over(aws)
        a, b = driver.create().id, driver.create().id
        return driver, giving(a, b), giving(b, a)

    for driver, answers in interleaved(begin):
        refused = [one for one in answers if isinstance(one, InvalidFieldError)]
        changed = [one for one in answers if isinstance(one, Job)]
        assert (len(refused), len(changed)) == (1, 1), answers
        assert "would wait for each other" in refused[0].message
        [parent] = [one.job_id for one in driver.row(changed[0].id).defined.depends_on]
        assert driver.row(parent).defined.depends_on == ()
        assert driver.services.dependents.of(parent, after=None, limit=9) == [changed[0].id]

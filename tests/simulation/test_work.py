"""CI's share of the stories of workers and callbacks."""

from __future__ import annotations

import pytest

from tests.simulation.work import tell

PARTS, STORIES = 4, 60


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_story_of_workers_breaks_a_promise(part: int) -> None:
    for seed in range(part * STORIES, (part + 1) * STORIES):
        violation, _ = tell(seed)
        if violation is not None:
            _, trace = tell(seed, traced=True)
            pytest.fail("\n".join([f"seed {seed}", *trace[-200:], str(violation)]))


@pytest.mark.slow
def test_the_stories_of_workers_are_eventful() -> None:
    happened = "\n".join(line for seed in range(60) for line in tell(seed, traced=True)[1])
    events = ("TIMED_OUT", "RETRIES_EXHAUSTED", "RETRY_WINDOW_OVER", "CANCELLED:", "LOST:", "COMPLETED:", "is dead")
    gates = (
        "comes to its gate again",
        "to its gate again forced",
        "was approved",
        "is approved by timeout",
        "is rejected",
    )
    for event in (*events, *gates, "dies after jobs.save", "answer lost of workers.save", "stalls at"):
        assert event in happened, f"no {event}"

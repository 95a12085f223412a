"""One owner floods the executor: the others' jobs start on time, in each of these stories."""

from __future__ import annotations

import pytest

from tests.simulation.fair import FairStory, tell


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_a_flood_delays_no_other_owner(seed: int) -> None:
    assert tell(seed) is None


def test_the_stories_differ() -> None:
    stories = [FairStory(seed) for seed in range(16)]

    assert {story.share.processes for story in stories} == {3, 5, 7}
    assert {story.deaths > 0 for story in stories} == {True, False}
    assert {story.share.starts_per_minute for story in stories} == {40, 100_000}

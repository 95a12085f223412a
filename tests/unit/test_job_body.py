from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gnomon import job_body
from gnomon.display import distance
from gnomon.errors import UsageError

NOW = datetime(2026, 11, 29, 19, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(("text", "expected"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400)])
def test_durations(text: str, expected: int) -> None:
    assert job_body.seconds(text, flag="--every") == expected


@pytest.mark.parametrize("text", ["", "-5", "1.5", "1w", "5 m", "٣", "9" * 10])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--every"):
        job_body.seconds(text, flag="--every")


def test_an_instant_from_now_is_whole_seconds_and_never_early() -> None:
    schedule = job_body.schedule(cron=None, every=None, at=None, in_="5", timezone=None, now=NOW)
    assert schedule == {"type": "once", "at": "2026-11-29T19:00:06Z"}
    assert job_body.rfc3339(datetime(2026, 7, 1, 2, 0, tzinfo=timezone(timedelta(hours=2)))) == "2026-07-01T00:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "now"),
        (3.9, "in 3 s"),
        (119, "in 119 s"),
        (120, "in 2 min"),
        (-7199, "119 min ago"),
        (-7200, "2 h ago"),
        (3 * 86_400, "in 3 d"),
    ],
)
def test_distances_in_words(seconds: float, words: str) -> None:
    assert distance(timedelta(seconds=seconds)) == words

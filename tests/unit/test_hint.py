"""The message "look at this job now", both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from functions.domain.hint import Hint, read_hint, write_hint
from tests.factories import JOB_ID, make_hint

EVENTS = Path(__file__).parents[2] / "events"
GOOD: dict[str, Any] = {"v": 1, "jobId": JOB_ID, "slot": "1800000000", "attempt": 1}


def test_the_sample_of_version_1_is_read():
    event = json.loads((EVENTS / "hint-v1.json").read_text())

    assert [read_hint(record["body"]) for record in event["Records"]] == [Hint(JOB_ID, "1800000000", 1)]


@pytest.mark.parametrize("hint", [make_hint(), make_hint(slot_id="1800000000mabcdefgh", attempt=101)])
def test_a_hint_is_read_as_it_was_written(hint):
    assert read_hint(write_hint(hint)) == hint


def test_the_form_in_the_queue_is_the_samples():
    event = json.loads((EVENTS / "hint-v1.json").read_text())

    assert write_hint(Hint(JOB_ID, "1800000000", 1)) == event["Records"][0]["body"]


def test_keys_of_a_newer_release_are_ignored():
    assert read_hint(json.dumps(GOOD | {"trace": {"id": 1}})) == make_hint()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ('{"v":' + "1" * 5_000 + "}", "JSON"),
        ("[]", "object"),
        ('"text"', "object"),
        ("null", "object"),
        *(
            (json.dumps(GOOD | {name: value}), name)
            for name, values in {
                "v": (2, "1", True, None),
                "jobId": (1, None, "", "x", JOB_ID.upper(), JOB_ID + "\n"),
                "slot": (1800000000, None, "180000000", "1800000000m", "1800000000mABCDEFGH", "1800000000\n"),
                "attempt": (0, -1, True, 1.0, "1", None, [1]),
            }.items()
            for value in values
        ),
        *((json.dumps({key: value for key, value in GOOD.items() if key != name}), name) for name in GOOD),
    ],
)
def test_what_is_wrong_is_named(body, named):
    with pytest.raises(ValueError, match=named) as refused:
        read_hint(body)

    assert len(str(refused.value)) < 300

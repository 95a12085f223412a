"""`make load` can fail: each of its verdicts finds what it is there for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.load import story
from bench.load.judging import (
    answers_came,
    attempts_allowed,
    created,
    ended_as_decided,
    jobs_exist,
    letters_sent,
    most_at_once,
    repeated,
)
from bench.load.playing import play
from bench.load.story import ALLOWED, BULK, FAILING, FLOOR, RETRY, SINGLE, STEADY, Answered, Request, answer_of
from bench.load.target import Called, Target

API, ECHO = "http://127.0.0.1:1/api", "http://127.0.0.1:1/echo"


def answered(name: str, answer: Any = None, *, status: int = 200) -> Answered:
    return Answered(name=name, weight=1, url="", sent=0, ended=1, status=status, answer=json.dumps(answer))


def job(status: str, *, attempt: int = 1, path: str = STEADY, running: bool = False) -> dict[str, Any]:
    return {
        "status": status,
        "activeRuns": [{}] if running else [],
        "lastRun": {"attempt": attempt},
        "target": {"url": f"http://127.0.0.1:1{path}"},
    }


def calls(job_id: str, *statuses: int) -> list[Called]:
    return [Called(float(number), job_id, number, status) for number, status in enumerate(statuses, 1)]


GOOD = {"a": job("COMPLETED"), "b": job("FAILED", attempt=4, path=FAILING)}
GOOD_CALLS = [*calls("a", 200), *calls("b", 503, 503, 503, 503)]


def test_receiver_decides_by_path_and_attempt() -> None:
    assert [answer_of(FAILING, attempt) for attempt in range(1, ALLOWED + 2)] == [503, 503, 503, 503, 200]
    assert answer_of(STEADY, 1) == 200


def test_half_of_the_jobs_fail() -> None:
    bodies = [story.job_body(number, tag="t", receiver="http://127.0.0.1:1", at=1_800_000_000) for number in range(10)]
    assert sum(body["target"]["url"].endswith(FAILING) for body in bodies) == 5
    assert {body["retryConfig"]["maxRetries"] for body in bodies} == {3}
    assert bodies[0]["schedule"] == {"type": "once", "at": "2027-01-15T08:00:00Z"}


def test_all_creations_of_a_burst_come_before_their_floors() -> None:
    asked = story.bulk_creations(list(range(250)), api=API, echo=ECHO)
    assert [(one.name, one.weight) for one in asked[:3]] == [(BULK, 100), (BULK, 100), (BULK, 50)]
    assert [(one.name, one.url) for one in asked[3:]] == [(FLOOR + BULK, ECHO)] * 3
    assert [one.body for one in asked[3:]] == [one.body for one in asked[:3]]


def test_single_requests_take_turns_with_their_floors() -> None:
    asked = story.single_creations([1, 2], api=API, echo=ECHO)
    assert [one.name for one in asked] == [FLOOR + SINGLE, SINGLE, SINGLE, FLOOR + SINGLE]


def test_ids_of_what_was_made() -> None:
    item = {"status": 201, "job": {"id": "b"}}
    refused = {"status": 409, "error": {}}
    answers = [
        answered(SINGLE, {"id": "a"}, status=201),
        answered(BULK, {"data": [item, refused]}),
        answered(FLOOR + SINGLE, {"id": "echoed"}, status=201),
        answered(SINGLE, {}, status=503),
    ]
    assert created(answers) == ["a", "b"]


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([answered(SINGLE, status=201)], []),
        ([], ["1 of `create, single` without an answer"]),
        ([answered(SINGLE, status=502)], ["1 × 502 for `create, single`"]),
        ([answered(SINGLE, status=0)], ["1 × no answer for `create, single`"]),
        ([answered(SINGLE, status=429)], ["1 × 429 for `create, single`"]),
    ],
)
def test_answers_that_speak_against_it(answers: list[Answered], found: list[str]) -> None:
    asked = [Request(name=SINGLE, url="", body={})]
    assert answers_came(asked, answers).found == found


def test_refused_items_of_a_bulk_request_speak_against_it() -> None:
    asked = [Request(name=BULK, url="", body={})]
    answer = answered(BULK, {"data": [{"status": 201}, {"status": 503}, {"status": 503}]})
    assert answers_came(asked, [answer]).found == ["2 items with 503 in a bulk answer"]


def test_jobs_lost_and_jobs_nobody_was_told_of() -> None:
    assert jobs_exist(["a", "b"], 2, GOOD).holds
    assert jobs_exist(["a", "b", "c"], 3, GOOD).found == ["c is not listed"]
    assert jobs_exist(["a"], 1, GOOD).found == ["b is listed, nobody was told of it"]
    assert jobs_exist(["a", "a"], 2, {"a": GOOD["a"]}).found == ["1 jobs made, 2 asked for"]


def test_good_ends_hold() -> None:
    assert ended_as_decided(GOOD, GOOD_CALLS).holds
    assert attempts_allowed(GOOD, GOOD_CALLS).holds
    assert letters_sent(GOOD, {"b": 1}).holds


@pytest.mark.parametrize(
    ("jobs", "made", "found"),
    [
        ({"a": job("RUNNING", running=True)}, calls("a", 200), "a is RUNNING"),
        ({"a": job("SCHEDULED")}, [], "a is SCHEDULED"),
        ({"a": job("COMPLETED")}, [], "a is COMPLETED, its target was never called"),
        ({"a": job("FAILED")}, calls("a", 200), "a is FAILED, its target answered 200 to attempt 1"),
        ({"a": job("COMPLETED")}, calls("a", 503), "a is COMPLETED, its target answered 503 to attempt 1"),
        ({"a": job("COMPLETED")}, calls("a", 503, 200), "a shows attempt 1, its target's last was 2"),
    ],
)
def test_ends_that_speak_against_it(jobs: dict[str, Any], made: list[Called], found: str) -> None:
    assert ended_as_decided(jobs, made).found == [found]


def test_attempts_that_speak_against_it() -> None:
    failing = {"b": GOOD["b"]}
    assert attempts_allowed(failing, calls("b", 503, 503, 503)).found == ["b: attempts [1, 2, 3] were made, 4 allowed"]
    assert not attempts_allowed(failing, calls("b", 503, 503, 503, 503, 200)).holds
    assert attempts_allowed(failing, calls("b", 503, 503, 503, 503, 200), forced={"b"}).holds
    assert not attempts_allowed({"a": GOOD["a"]}, calls("a", 200, 200)).holds


def test_dead_letters_that_speak_against_it() -> None:
    assert letters_sent(GOOD, {}).found == ["b failed without a dead letter"]
    assert letters_sent(GOOD, {"a": 1, "b": 1}).found == ["a has a dead letter, but did not fail"]
    assert letters_sent(GOOD, {"b": 2}).found == ["b has 2 dead letters"]


def test_what_is_under_way_at_once() -> None:
    assert most_at_once([]) == 0
    assert most_at_once([(0, 2, 100), (1, 3, 100), (2, 4, 50)]) == 200
    assert repeated([*calls("a", 200), *calls("a", 200), *calls("b", 503)]) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("loopback")
def test_locust_plays_every_request(tmp_path: Path) -> None:
    with Target().listening() as target:
        asked = [
            Request(name=SINGLE, url=target.url + STEADY, body={}),
            Request(name=RETRY, url=target.url + FAILING, body={}, weight=7, due=1),
            Request(name=BULK, url="http://127.0.0.1:1/nobody", body={}),
        ]
        came = play(asked, users=2, token="t", folder=tmp_path, name="few", seconds=30)
    log = (tmp_path / "few.log").read_text()
    assert {(one.name, one.weight, one.status) for one in came} == {(SINGLE, 1, 200), (RETRY, 7, 503), (BULK, 1, 0)}, (
        log
    )
    assert sorted(call.status for call in target.calls) == [200, 503]
    assert not answers_came(asked, came).holds


def test_locust_is_imported_by_its_own_file_alone() -> None:
    """Its import replaces sockets and threads of the whole process."""
    root = Path(__file__).parents[2]
    importers = {
        str(file.relative_to(root))
        for top in ("bench", "functions", "gnomon", "infra", "tests")
        for file in (root / top).rglob("*.py")
        if re.search(
            r"^\s*(import|from) (locust|gevent)\b|import bench\.load\.locustfile", file.read_text("utf-8"), re.M
        )
    }
    assert importers == {"bench/load/locustfile.py"}

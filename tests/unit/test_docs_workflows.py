"""The three examples of docs/workflows.md, played on the real API and engine; tests/e2e/test_workflows.py has them on
the stack."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.dependence import MAX_PARENTS
from functions.domain.rounds import ENDS_LOOKED_AT
from functions.domain.upstream import UNMET
from functions.domain.workflow import MAX_EDGES, MAX_JOBS, MAX_OUTSIDERS, WaitsFor
from functions.domain.workflow_status import WorkflowStatus
from functions.usecases.graph import PAGE, TELLING_SECONDS
from tests.api_client import user
from tests.workflow_examples import TEXT, examples
from tests.workflows import Played


@pytest.fixture
def played() -> Played:
    return Played()


def example(name: str) -> dict[str, Any]:
    return examples()[name]


def approve(played: Played, path: str, verb: str = "approve") -> None:
    job = played.api.get(f"/v1/jobs/{played.ids(path)['production']}").json
    run = job["activeRuns"][0]["runId"]
    reply = played.api.post(
        f"/v1/jobs/{played.ids(path)['production']}/{verb}",
        {"comment": "seen", "runId": run},
        claims=user("root", "admin"),
    )
    assert reply.status == 200, reply.text


def test_there_are_three() -> None:
    assert list(examples()) == ["nightly-load", "release", "month-end"]


def test_a_nightly_load_publishes_what_there_is(played: Played) -> None:
    path = played.create(example("nightly-load"))
    played.run(2 * 86_400)
    assert [played.called.count(name) for name in ("extract", "clean", "enrich", "publish")] == [2, 2, 2, 2]
    assert played.sent["publish"] == {"rows": 3, "channel": "reports"}
    statuses = played.statuses(path)
    assert statuses == {"extract": "SCHEDULED", "clean": "BLOCKED", "enrich": "BLOCKED", "publish": "BLOCKED"}


def test_a_night_without_rows_is_skipped(played: Played) -> None:
    played.results = {"clean": '{"rows":0}'}
    path = played.create(example("nightly-load"))
    played.run(86_400)
    assert "publish" not in played.called
    [last] = [one["lastRun"] for one in played.seen(path)["jobs"] if one["name"] == "publish"]
    assert (last["outcome"], last["reason"]) == ("SKIPPED", "CONDITION_FALSE")


def test_a_release_waits_at_its_gate_and_goes_on(played: Played) -> None:
    path = played.create(example("release"))
    played.run(60)
    assert played.called == ["build", "staging"]
    seen = played.seen(path)
    assert seen["status"] == "WAITING"
    assert [one["waitsFor"] for one in seen["jobs"]] == [None, None, "approval", "jobs", "jobs"]
    approve(played, path)
    played.run(60)
    assert played.statuses(path) == {
        "build": "COMPLETED",
        "staging": "COMPLETED",
        "production": "COMPLETED",
        "check": "COMPLETED",
        "rollback": "SKIPPED",
    }
    assert played.seen(path)["status"] == "COMPLETED"


def test_a_release_that_fails_is_rolled_back(played: Played) -> None:
    played.failing = {"check"}
    path = played.create(example("release"))
    played.run(60)
    approve(played, path)
    played.run(60)
    assert played.called == ["build", "staging", "production", "check", "rollback"]
    assert played.seen(path)["status"] == "FAILED"


def test_a_release_that_is_rejected_goes_nowhere(played: Played) -> None:
    path = played.create(example("release"))
    played.run(60)
    approve(played, path, "reject")
    played.run(60)
    assert played.called == ["build", "staging"]
    statuses = played.statuses(path)
    assert [statuses[name] for name in ("production", "check", "rollback")] == ["CANCELLED", "SKIPPED", "SKIPPED"]
    assert played.seen(path)["status"] == "CANCELLED"
    assert played.api.post(f"/v1/jobs/{played.ids(path)['production']}/execute").status == 200
    played.run(60)
    assert played.seen(path)["jobs"][2]["waitsFor"] == "approval"
    approve(played, path)
    played.run(60)
    assert played.called == ["build", "staging", "production", "check"]


@pytest.mark.parametrize("failing", [set(), {"south"}])
def test_month_end_merges_whatever_came_of_the_parts(played: Played, failing: set[str]) -> None:
    played.failing = failing
    path = played.create(example("month-end"))
    played.run(200)
    assert played.called.count("merge") == 1
    assert sorted(played.called[1:4]) == ["north", "south", "west"]
    assert played.called.count("page") == len(failing)
    assert played.statuses(path)["page"] == ("COMPLETED" if failing else "SKIPPED")


def test_month_end_merges_where_a_part_was_cancelled(played: Played) -> None:
    path = played.create(example("month-end"))
    played.api.post(f"/v1/jobs/{played.ids(path)['west']}/cancel")
    played.run(200)
    assert played.called.count("merge") == 1
    assert played.statuses(path)["merge"] == "COMPLETED"


def test_numbers_and_words_of_the_page_are_those_of_the_code() -> None:
    for word in (*UNMET, *WaitsFor, *WorkflowStatus):
        assert f"`{word.value if hasattr(word, 'value') else word}`" in TEXT, word
    assert f"up to {MAX_PARENTS // 1000} 000 jobs" in TEXT
    assert f"1 to {MAX_JOBS} jobs" in TEXT
    assert f"| {MAX_EDGES // 1000} 000, on at most {MAX_OUTSIDERS // 1000} 000 jobs outside |" in TEXT
    assert f"walked {PAGE} at a time, in messages of at most {TELLING_SECONDS:g} s" in TEXT
    assert f"the newest {ENDS_LOOKED_AT} of each parent" in TEXT

"""What jobs that depend on others use, counted on the real handlers: the table of docs/workflows.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.call_log import Call
from bench.deployed import Deployed, on_moto
from bench.request_time import reference_body
from functions.domain.execution import ExecutionStatus
from functions.domain.hint import LOOK_SLOT, Hint
from functions.domain.ids import slot_id
from functions.domain.instants import rfc3339
from functions.domain.outcome import TargetAnswer

OK = TargetAnswer(status=ExecutionStatus.COMPLETED, result="null")
DAY = 86_400
DOCS = Path(__file__).parents[2] / "docs" / "workflows.md"


@pytest.fixture
def deployed() -> Iterator[Deployed]:
    with on_moto() as deployed:
        deployed.create()  # Its owner is known from now on.
        yield deployed


def create(deployed: Deployed, **changes: object) -> tuple[str, Sequence[Call]]:
    calls = deployed.create({name: value for name, value in (reference_body() | changes).items() if value is not None})
    return deployed.path.rpartition("/")[2], calls


def after(*parents: str) -> dict[str, object]:
    return {"schedule": None, "dependsOn": [{"jobId": parent} for parent in parents]}


def look(deployed: Deployed, job_id: str, *, later: float = 0.1) -> Sequence[Call]:
    return deployed.deliver([Hint(job_id, LOOK_SLOT, 0)], OK, at=deployed.clock.time + later)[0]


def units(calls: Sequence[Call]) -> tuple[int, float]:
    """Written and read, without the requests' limits and the index that a sweep reads in any case."""
    counted = [call for call in calls if (call.operation, call.place) != ("UpdateItem", "coordination")]
    return sum(call.write_units for call in counted), sum(
        call.read_units for call in counted if call.operation != "Query" or call.place == "coordination"
    )


def hints(calls: Sequence[Call]) -> int:
    return sum(call.operation == "SendMessage" for call in calls)


def in_a_day(deployed: Deployed) -> dict[str, str]:
    return {"type": "once", "at": rfc3339(int(deployed.clock.time) + DAY)}


def documented(what: str) -> tuple[int, float]:
    found = re.search(rf"^\| {re.escape(what)} \| (\d+) \| (\d+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, what
    return int(found[1]), float(found[2])


def test_an_edge_and_the_first_follower(deployed: Deployed) -> None:
    parent, plain = create(deployed, schedule=in_a_day(deployed))

    _, first = create(deployed, **after(parent))
    _, second = create(deployed, **after(parent))

    def beyond(calls: Sequence[Call]) -> tuple[int, float]:
        return units(calls)[0] - units(plain)[0], units(calls)[1] - units(plain)[1]

    assert beyond(second) == documented("creating a job, beyond what others cost: each of its parents")
    assert beyond(first) == documented("… which nobody followed before")


def test_a_job_that_waits_is_looked_at_once_an_hour(deployed: Deployed) -> None:
    parent, _ = create(deployed, schedule=in_a_day(deployed))
    child, _ = create(deployed, **after(parent))
    look(deployed, child)
    for _ in range(3):
        job = deployed.engine.jobs.get(child)
        assert job is not None
        assert job.attention_at is not None
        assert job.attention_at - deployed.clock.time > 3_500
        deployed.clock.time = job.attention_at + 20
        woken, looked = deployed.tick()[0], look(deployed, child)
        written, read = (sum(pair) for pair in zip(units(woken), units(looked), strict=True))

        assert (written, read) == documented("an hour of waiting for one parent")
        assert hints([*woken, *looked]) == 1


def test_an_end_is_kept_for_others_from_the_second_on(deployed: Deployed) -> None:
    """Of a job that runs each minute: what a run costs alone, and what it costs where another job depends on it."""
    every_minute = {"type": "cron", "expression": "* * * * *"}
    alone, _ = create(deployed, schedule=every_minute)
    parent, _ = create(deployed, schedule=every_minute)
    child, _ = create(deployed, **after(parent))
    first = (int(deployed.clock.time) // 60 + 1) * 60

    for slot in range(first, first + 240, 60):
        plain, _ = deployed.deliver([Hint(alone, slot_id(slot), 1)], OK, at=slot + 0.1)
        run, _ = deployed.deliver([Hint(parent, slot_id(slot), 1)], OK, at=slot + 0.2)
        told = look(deployed, parent)
        job = deployed.engine.jobs.get(child)
        assert job is not None
        [made] = job.runs
        ran, _ = deployed.deliver([Hint(child, made, 1)], OK, at=slot + 1)
        if slot < first + 120:
            continue  # Not what it is like later on.
        kept = [call for call in run if (call.operation, call.place) == ("PutItem", "executions")]

        assert (len(kept), hints(run)) == (2, hints(plain) + 1)
        assert units(run)[0] - units(plain)[0] <= documented("an end of a job that others depend on")[0]
        assert units(told) == documented("… telling one of them, which makes a run")
        assert units(ran) == documented("that run, until it ended")
        assert hints(told) == 1


def test_a_transaction_counts_twice(deployed: Deployed) -> None:
    step = {"target": reference_body()["target"]}
    body = {"name": "two", "jobs": {"a": step, "b": step | {"dependsOn": [{"job": "a"}]}}}

    calls, _ = deployed.post("/v1/workflows", body, status=201)

    [transaction] = [call for call in calls if call.operation == "TransactWriteItems"]
    assert transaction.write_units == 2 * (2 + 2), "the row twice, and two indexes"
    rows = [call.write_units for call in calls if (call.operation, call.place) == ("PutItem", "coordination")]
    assert rows == [1, 1, 1], "the edge, the workflow, and its place in the list"

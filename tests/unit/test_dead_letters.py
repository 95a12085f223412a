"""What a dead letter says, and that it is said of every run that failed for good."""

from __future__ import annotations

from typing import Any

from functions.domain.errors import CorruptDefinitionError
from functions.domain.execution import ExecutionStatus
from functions.domain.job import Job
from functions.usecases.dead_letters import announce_dead_letters
from tests.factories import JOB_ID, make_execution, make_job, new_id
from tests.fakes import World

FAILED = ExecutionStatus.FAILED
HOOK = {"type": "http", "url": "https://example.com/hook", "headers": {"Authorization": "Bearer s3cret"}}


def test_a_letter_names_job_and_target_and_shows_no_secret() -> None:
    world = World()
    world.jobs.put(make_job(document={"target": HOOK, "name": "invoices"}))

    assert announce_dead_letters(world.jobs, world.dead_letters, [make_execution(status=FAILED)]) == 1

    [letter] = world.dead_letters.announced
    assert (letter["jobName"], letter["owner"], letter["error"]) == (
        "invoices",
        "team-a",
        {"code": "HTTP_503", "message": "503 Service Unavailable"},
    )
    assert letter["target"] == HOOK | {"headers": {"Authorization": "***"}}
    assert "s3cret" not in repr(letter)


def test_only_final_failures_are_announced() -> None:
    world = World()
    executions = [make_execution(), make_execution(status=FAILED, final=False)]

    assert announce_dead_letters(world.jobs, world.dead_letters, executions) == 0
    assert world.dead_letters.announced == []


def test_a_row_that_cannot_be_read_silences_no_letter() -> None:
    world = World()
    world.jobs.put(make_job())

    class Unreadable:
        def get(self, job_id: str) -> Job | None:
            if job_id == JOB_ID:
                raise CorruptDefinitionError
            return world.jobs.get(job_id)

    jobs: Any = Unreadable()
    lost, gone = make_execution(status=FAILED), make_execution(status=FAILED, job_id=new_id())

    announce_dead_letters(jobs, world.dead_letters, [lost, gone])

    assert [letter["id"] for letter in world.dead_letters.announced] == [lost.id, gone.id]
    assert all("owner" not in letter for letter in world.dead_letters.announced)

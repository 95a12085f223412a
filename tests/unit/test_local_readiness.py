import io
import json
from pathlib import Path
from typing import Any

import pytest

from functions.domain.hint import read_hint
from gnomon.local.places import Place
from gnomon.local.readiness import start_functions
from gnomon.local.report import LocalError

OUTPUTS = {
    "ExecutorFunction": "executor-1",
    "DeadLettersFunction": "dead-letters-1",
    "LifecycleFunction": "lifecycle-1",
}


class Lambda:
    """Functions that answer what a test says."""

    def __init__(self, answers: dict[str, Any], error: str | None = None) -> None:
        self.answers = answers
        self.error = error
        self.events: dict[str, Any] = {}

    def invoke(self, **asked: Any) -> dict[str, Any]:
        name = asked["FunctionName"]
        self.events[name] = json.loads(asked["Payload"])
        failed = {"FunctionError": "Unhandled"} if name == self.error else {}
        return {"Payload": io.BytesIO(json.dumps(self.answers.get(name)).encode()), **failed}


@pytest.fixture
def where(tmp_path: Path) -> Place:
    return Place(port=4599, directory=tmp_path, stack_file=tmp_path / "stack.json")


WELL: dict[str, Any] = {name: {"batchItemFailures": []} for name in OUTPUTS.values()}


def _start(client: Lambda, where: Place) -> None:
    start_functions(client, OUTPUTS, where)  # type: ignore[arg-type]  # a fake


def test_functions_are_started_by_messages_that_change_nothing(where: Place) -> None:
    client = Lambda(WELL)

    _start(client, where)

    assert client.events["dead-letters-1"] == {"Records": []}
    (record,) = client.events["executor-1"]["Records"]
    assert read_hint(record["body"]).attempt == 1


def test_a_function_that_cannot_start_says_why(where: Place) -> None:
    client = Lambda(WELL | {"executor-1": {"errorMessage": "No module named 'croniter'"}}, error="executor-1")

    with pytest.raises(LocalError, match=r"ExecutorFunction cannot start: .*No module named 'croniter'") as raised:
        _start(client, where)

    assert str(where.emulator_log) in raised.value.advice


def test_a_function_that_refuses_its_message_is_no_started_one(where: Place) -> None:
    client = Lambda(WELL | {"executor-1": {"batchItemFailures": [{"itemIdentifier": "1"}]}})

    with pytest.raises(LocalError, match="ExecutorFunction cannot start"):
        _start(client, where)

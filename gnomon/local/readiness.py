"""Waits until a deployed stack answers, with its functions started: the first run is on time like every other."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from functions.domain.hint import Hint, write_hint
from gnomon.local.report import LocalError

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from gnomon.local.places import Place

HEALTH_SECONDS = 30
EXECUTOR, DEAD_LETTERS, LIFECYCLE = "ExecutorFunction", "DeadLettersFunction", "LifecycleFunction"
"""Outputs of the stack: the functions on the way of every run."""


def start_functions(client: LambdaClient, outputs: dict[str, str], where: Place) -> None:
    """Have the functions on a run's way imported and connected; raises LocalError with what one of them said."""
    events = {EXECUTOR: _batch(_hint_for_nobody()), DEAD_LETTERS: {"Records": []}, LIFECYCLE: {"Records": []}}
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda item: _invoke(client, outputs[item[0]], item[1]), events.items()))
    for name, answer in zip(events, answers, strict=True):
        if answer is not None:
            raise LocalError(f"{name} cannot start: {answer}", f"What it said: {where.emulator_log}")


def wait_for_health(where: Place, api: str) -> None:
    """Until `/health` says 200; raises LocalError with what it said last."""
    deadline = time.monotonic() + HEALTH_SECONDS
    while True:
        # http.client knows no proxy: a company's would be asked for 127.0.0.1 otherwise.
        connection = http.client.HTTPConnection("127.0.0.1", where.port, timeout=HEALTH_SECONDS)
        try:
            connection.request("GET", f"{api}/health")
            answer = connection.getresponse()
            said = f"{answer.status} {answer.read(2000).decode(errors='replace')}"
            if answer.status == 200:
                return
        except (OSError, http.client.HTTPException) as error:
            said = str(error)
        finally:
            connection.close()
        if time.monotonic() > deadline:
            raise LocalError(
                f"the API is not healthy after {HEALTH_SECONDS} s: {said}",
                f"What its functions said: {where.emulator_log}\n`make down`, then `make up` begins anew.",
            )
        time.sleep(0.2)


def _hint_for_nobody() -> str:
    """A hint about a job that does not exist: it reads, finds nothing and changes nothing."""
    return write_hint(Hint(str(uuid.uuid4()), f"{int(time.time()):010d}", 1))


def _batch(body: str) -> dict[str, Any]:
    record = {"messageId": str(uuid.uuid4()), "receiptHandle": "-", "body": body, "eventSource": "aws:sqs"}
    return {"Records": [{**record, "attributes": {}, "messageAttributes": {}}]}


def _invoke(client: LambdaClient, function: str, event: dict[str, Any]) -> str | None:
    """None when it went well, else what the function said."""
    answer = client.invoke(FunctionName=function, Payload=json.dumps(event))
    said = answer["Payload"].read().decode(errors="replace")
    if answer.get("FunctionError"):
        return said[:2000]
    return said[:2000] if json.loads(said).get("batchItemFailures") else None

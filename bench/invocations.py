"""The executor's handler as Lambda calls it: a batch of messages in, what it gives back and writes to its log out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from types import SimpleNamespace
from typing import Any
from unittest import mock

from functions import bootstrap, telemetry
from functions.domain.hint import Hint, write_hint
from functions.handlers import executor as handler
from functions.settings import TELEMETRY_VARIABLES
from functions.usecases.services import Executor
from tests.api_client import sample_event

CONTEXT: Any = SimpleNamespace(aws_request_id="5f1d2c3b-4a59-4687-9a0b-1c2d3e4f5061", function_name="executor")


def hints_event(hints: Sequence[Hint]) -> dict[str, Any]:
    """The event with which Lambda's poller brings them."""
    record = sample_event("hints-batch")["Records"][0]
    return {
        "Records": [record | {"messageId": str(index), "body": write_hint(hint)} for index, hint in enumerate(hints)]
    }


@contextmanager
def with_executor(executor: Executor) -> Iterator[io.StringIO]:
    """The handler finds this executor, and the environment that the stack gives it; yields what it writes."""
    variables = dict(zip(TELEMETRY_VARIABLES, ("executor", "INFO", "Gnomon/prod"), strict=True))
    written = io.StringIO()
    with (
        mock.patch.dict(os.environ, variables),
        mock.patch.object(bootstrap, "executor", return_value=executor),
        redirect_stdout(written),
    ):
        shared = telemetry.logger().registered_handler
        before = shared.setStream(written)  # type: ignore[attr-defined]  # a logging.StreamHandler
        try:
            yield written
        finally:
            shared.setStream(before)  # type: ignore[attr-defined]  # as above


def invoked(executor: Executor, event: dict[str, Any]) -> tuple[list[Any], str]:
    """The messages given back, and what was written."""
    with with_executor(executor) as written:
        answer = handler.handler(event, CONTEXT)
    return answer["batchItemFailures"], written.getvalue()

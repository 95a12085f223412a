"""Starts and stops executions of the state machine: the adapter of the port `Machine`."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.aws_errors import error_code
from functions.domain.errors import NotStartedError, UnavailableError
from functions.domain.step import write_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.domain.step import Step
    from functions.ports import Clock

logger = logging.getLogger(__name__)

START_CONFIG = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}, max_pool_connections=20)
"""How the client is configured: it repeats nothing, since only who sees each answer knows whether one may have started
the execution."""
TRIES = 3
PAUSE_SECONDS = 0.2
"""Before the second try, doubled before each further one."""

_BUSY = frozenset({"ThrottlingException", "ExecutionLimitExceeded", "TooManyRequestsException"})


class Client(Protocol):
    """What is used of boto3's client `stepfunctions`."""

    def start_execution(self, **arguments: Any) -> Any: ...

    def stop_execution(self, **arguments: Any) -> Any: ...


class StateMachine:
    """Machine over one Standard state machine."""

    def __init__(self, make_client: Callable[[], Client], *, arn: str, clock: Clock) -> None:
        """`make_client` makes one with START_CONFIG. It is called at the first use: most functions never come to it,
        and a client is dear to make."""
        self._make_client = make_client
        self._made: Client | None = None
        self._lock = threading.Lock()
        self._arn = arn
        self._clock = clock

    def start(self, step: Step) -> None:
        unclear, refusal = False, None
        for number in range(TRIES):
            if number:
                self._clock.sleep(PAUSE_SECONDS * 2 ** (number - 1))
            try:
                self._client.start_execution(
                    stateMachineArn=self._arn, name=step.execution_name, input=write_step(step)
                )
            except ClientError as error:
                if error_code(error) == "ExecutionAlreadyExists":
                    return
                refusal = error
                if not _is_certain(error):
                    unclear = True
                elif error_code(error) not in _BUSY:
                    break
            except BotoCoreError:
                unclear = True
            else:
                return
        if unclear or refusal is None:
            logger.warning("perhaps %s was started, perhaps not: its lease says", step.execution_name)
            raise UnavailableError("The state machine could not be reached.")
        problem = refusal.response.get("Error", {})
        raise NotStartedError(
            f"{error_code(refusal)}: {problem.get('Message', '')}", busy=error_code(refusal) in _BUSY
        ) from refusal

    def stop(self, step: Step) -> None:
        name = f"{self._arn.replace(':stateMachine:', ':execution:', 1)}:{step.execution_name}"
        try:
            self._client.stop_execution(executionArn=name, error="CANCELLED", cause="The run was cancelled.")
        except (ClientError, BotoCoreError) as error:
            if not isinstance(error, ClientError) or error_code(error) != "ExecutionDoesNotExist":
                logger.warning("execution %s was not stopped; what it records is dropped", name, exc_info=True)

    @property
    def _client(self) -> Client:
        with self._lock:
            if self._made is None:
                self._made = self._make_client()
            return self._made


def _is_certain(error: ClientError) -> bool:
    """Whether this answer says that nothing was started."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)) < 500

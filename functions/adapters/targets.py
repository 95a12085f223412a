"""Calls a job's target, whatever its type: the adapter of the port `Targets`."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from functions.adapters.answers import failed, refused
from functions.domain.errors import InvalidFieldError
from functions.domain.target_access import check_access

if TYPE_CHECKING:
    from functions.adapters.http_target import HttpTarget
    from functions.adapters.lambda_target import LambdaTarget
    from functions.adapters.sqs_target import SqsTarget
    from functions.domain.outcome import Invocation, TargetAnswer
    from functions.domain.target_access import TargetRules

_log = logging.getLogger(__name__)


class TargetRouter:
    def __init__(self, *, http: HttpTarget, lambda_: LambdaTarget, sqs: SqsTarget, rules: TargetRules) -> None:
        self._rules = rules
        self._calls = {
            "http": http.call,
            "lambda": lambda_.call,
            "handler": lambda_.call_handler,
            "sqs": sqs.call,
        }

    def call(self, invocation: Invocation, target: dict[str, object]) -> TargetAnswer:
        """Call the target once and wait for its answer, at most `timeout_seconds`. Never raises.

        What the job's owner may not use is not called, whatever the API accepted: the stage's rules, the job's owner or
        its stored row may have changed since.
        """
        call = self._calls.get(str(target.get("type")))
        if call is None:
            return failed("TARGET_ERROR", f"unknown type of target: {target.get('type')!r}", retryable=False)
        try:
            check_access(target, self._rules, invocation.owner)
        except InvalidFieldError as error:
            return refused(str(error))
        try:
            return call(invocation, target)
        except Exception as error:  # noqa: BLE001 - the port never raises: an attempt must end with an answer
            # Where, but not what: the message of an unforeseen error may quote a header's value.
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("target call failed: %s in %s\n%s", type(error).__name__, invocation.execution_id, where)
            return failed("TARGET_ERROR", f"the call failed in an unforeseen way: {type(error).__name__}")

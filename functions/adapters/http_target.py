"""Calls `http` targets: one signed request, no redirects, no proxy, one total time."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from functions.adapters import http_body
from functions.adapters.address_guard import AddressGuard, UnresolvedError
from functions.adapters.answers import (
    completed,
    completed_without_result,
    failed,
    is_retryable_status,
    refused,
    retry_after,
    timed_out,
)
from functions.adapters.deadline import Deadline, DeadlineError, within
from functions.adapters.hidden_values import HiddenValues
from functions.adapters.http_answer import AnswerReader
from functions.adapters.http_connection import connect, describe_error, exchange
from functions.adapters.secret_values import SecretError, SecretValues
from functions.adapters.webhook_signature import WebhookSignature
from functions.domain.errors import InvalidFieldError
from functions.domain.masking import masked_url
from functions.domain.result import Extent, NotJsonError, ResultError, ResultTooLargeError, kept_result
from functions.domain.target import check_header_value
from functions.domain.target_url import shown_value

if TYPE_CHECKING:
    from functions.domain.outcome import Invocation, TargetAnswer
    from functions.ports import Clock

GRACE_SECONDS = 0.5
"""How much longer than the attempt's time the caller waits for what has arrived by then."""
QUOTED_CHARACTERS = 300
"""How much of an answer an error message quotes."""
USER_AGENT = "Gnomon/1"

_HEADER_LINE = re.compile(r"[\x20-\x7e\t]+")


class HttpTarget:
    def __init__(
        self,
        *,
        guard: AddressGuard,
        secrets: SecretValues,
        signature: WebhookSignature,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: the system's trusted authorities, unless it is given."""
        self._guard = guard
        self._secrets = secrets
        self._signature = signature
        self._clock = clock
        self._given_tls = tls

    def call(self, invocation: Invocation, target: Mapping[str, object]) -> TargetAnswer:
        """Send the request once; what came of it. 2xx is success."""
        seconds = invocation.timeout_seconds
        try:
            answer, sent = within(
                seconds, lambda deadline: self._send(invocation, target, deadline), grace=GRACE_SECONDS
            )
        except DeadlineError:
            return timed_out(seconds)
        except InvalidFieldError as error:
            return refused(str(error))
        except SecretError as error:
            code = "NETWORK_ERROR" if error.retryable else "TARGET_ERROR"
            return failed(code, str(error), retryable=error.retryable, was_sent=False)
        except UnresolvedError as error:
            return failed("NETWORK_ERROR", str(error))
        except OSError as error:
            return failed("NETWORK_ERROR", f"{masked_url(str(target.get('url')))}: {describe_error(error)}")
        # After the attempt's time: what has answered is not timed out by how long its answer takes to be masked.
        return self._judge(answer, HiddenValues.of_request(sent, target, invocation.callback_token))

    def _send(
        self, invocation: Invocation, target: Mapping[str, object], deadline: Deadline
    ) -> tuple[AnswerReader, dict[str, str]]:
        """The answer, and the target's headers as they were sent."""
        destination = self._guard.destination(str(target["url"]))
        method = str(target.get("method") or "POST")
        # RFC 9110 gives the content of a GET no meaning, and proxies drop or refuse it.
        body = b"" if method == "GET" else invocation.payload.encode()
        own = self._user_headers(target)
        agent = {} if "user-agent" in {name.lower() for name in own} else {"user-agent": USER_AGENT}
        headers = {"Host": destination.url.authority} | agent | own | self._own_headers(invocation, method, body)
        request = _build_head(method, destination.url.resource, headers) + body
        tls = self._tls if destination.url.scheme == "https" else None
        answer = AnswerReader()
        with closing(connect(destination, deadline, tls)) as connection:
            exchange(connection, request, answer, deadline)
        return answer, own

    def _own_headers(self, invocation: Invocation, method: str, body: bytes) -> dict[str, str]:
        scheduled_for = datetime.fromtimestamp(invocation.scheduled_for, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {
            # The same over all attempts: receivers know by it what they have done (Standard Webhooks).
            **self._signature.headers(invocation.owner, invocation.run_id, body),
            "Gnomon-Job-Id": invocation.job_id,
            "Gnomon-Run-Id": invocation.run_id,
            "Gnomon-Attempt": str(invocation.attempt),
            "Gnomon-Scheduled-For": scheduled_for,
            "accept-encoding": "identity",
            "connection": "close",
        }
        if invocation.callback_token is not None:
            headers["Gnomon-Execution-Id"] = invocation.execution_id
            headers["Gnomon-Callback-Token"] = invocation.callback_token
        if method != "GET":
            headers |= {"content-type": "application/json", "content-length": str(len(body))}
        return headers

    def _user_headers(self, target: Mapping[str, object]) -> dict[str, str]:
        """The target's headers with their secrets filled in; raises SecretError or InvalidFieldError."""
        headers = target.get("headers")
        values: dict[str, str] = {}
        for name, value in headers.items() if isinstance(headers, Mapping) else ():
            # Secrets are often stored with the line break their editor put at the end.
            text = self._secrets.get(value["secretArn"]).strip() if isinstance(value, Mapping) else value
            check_header_value(f"target.headers.{name}", text)
            values[name] = text
        return values

    def _judge(self, answer: AnswerReader, hidden: HiddenValues) -> TargetAnswer:
        if answer.is_success:
            return _describe_success(answer, hidden)
        return failed(
            f"HTTP_{answer.status}",
            _explain(answer, hidden),
            retryable=is_retryable_status(answer.status or 0),
            retry_after=retry_after(answer.headers.get("retry-after"), now=self._clock.now()),
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()


def _build_head(method: str, resource: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {resource} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if not all(_HEADER_LINE.fullmatch(line) for line in lines):
        raise InvalidFieldError("target", "target has a method, an address or a header that cannot be sent.")
    return "\r\n".join([*lines, "", ""]).encode()


def _describe_success(answer: AnswerReader, hidden: HiddenValues) -> TargetAnswer:
    """What is kept of a success. One whose result cannot be kept stays one: the work is done, and a stranger's API
    cannot be told to answer otherwise (docs/decisions/0049-results-are-kept-whole-or-refused.md)."""
    declared, text = http_body.is_json(answer.content_type), ""
    try:
        text, extent = _read_text(answer, hidden, strict=declared)
        return completed(kept_result(text, declared=declared, extent=extent))
    except ResultTooLargeError as error:
        advice = "nothing of it was. Have the target answer less, or where it put the rest."
        return completed_without_result(error.code, f"{error} as a result: {advice}")
    except ResultError as error:
        quoted = f": {_quote(text)}" if isinstance(error, NotJsonError) else ""
        return completed_without_result(error.code, _make_printable(f"the answer cannot be read: {error}{quoted}"))


def _read_text(answer: AnswerReader, hidden: HiddenValues, *, strict: bool) -> tuple[str, Extent]:
    """The body, with what nobody may see masked; raises ResultUnreadableError."""
    body, extent = http_body.decode_body(bytes(answer.body), answer.codings, answer.extent)
    text = http_body.read_text(body, answer.content_type, strict=strict and extent is Extent.WHOLE)
    return hidden.hide(text), extent


def _explain(answer: AnswerReader, hidden: HiddenValues) -> str:
    message = hidden.hide(f"HTTP {answer.status} {answer.reason}".strip())
    location = answer.headers.get("location")
    if 300 <= (answer.status or 0) < 400 and location is not None:
        shown = shown_value(masked_url(hidden.hide(location)))
        return _make_printable(f"{message}: redirects are not followed (to {shown})")
    try:
        quoted = _quote(_read_text(answer, hidden, strict=False)[0])
    except ResultError:
        quoted = ""
    return _make_printable(f"{message}: {quoted}" if quoted else message)


def _quote(text: str) -> str:
    return " ".join(text[: 4 * QUOTED_CHARACTERS].split())[:QUOTED_CHARACTERS]


def _make_printable(message: str) -> str:
    """One line of printable characters: a message ends up in logs and terminals."""
    return "".join(letter if letter.isprintable() else "�" for letter in message)

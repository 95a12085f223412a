"""Calls `http` targets: one signed request, no redirects, no proxy, one total time.

It stands on the standard library's HTTP client: the deadline needs the socket from its first packet on, the TLS
handshake included, and the connection must go to an address that was judged beforehand under another name.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from functions.adapters.address_guard import AddressGuard, Destination, UnresolvedError
from functions.adapters.answers import (
    completed,
    completed_without_result,
    failed,
    is_retryable_status,
    retry_after,
    timed_out,
)
from functions.adapters.deadline import Deadline, DeadlineError, within
from functions.adapters.secret_values import SecretError, SecretValues
from functions.adapters.webhook_signature import WebhookSignature
from functions.domain.errors import InvalidFieldError
from functions.domain.result import TOO_LARGE, ResultTooLargeError, kept_result
from functions.domain.target import MASK, check_header_value, is_sensitive
from functions.domain.target_url import shown_value

if TYPE_CHECKING:
    from functions.domain.outcome import Invocation, TargetAnswer
    from functions.ports import Clock

CONNECT_SECONDS = 5.0
"""Longest time for connecting, TLS included, over all addresses of a host."""
KEEPALIVE_SECONDS = 60
"""How long a connection may be silent before the system asks whether the other side is still there."""
RESPONSE_BYTES = 65_536
"""How much of a response is read; the rest is dropped."""
QUOTED_CHARACTERS = 300
"""How much of a failure's response its error message quotes."""
TOO_LARGE_ADVICE = "nothing of it was. Have the target answer less, or where it put the rest."
USER_AGENT = "Gnomon/1"


class HttpTarget:
    def __init__(
        self,
        *,
        guard: AddressGuard,
        secrets: SecretValues,
        webhook_secret_arn: str,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: the system's trusted authorities, unless it is given."""
        self._guard = guard
        self._secrets = secrets
        self._signature = WebhookSignature(secrets, secret_arn=webhook_secret_arn, clock=clock)
        self._clock = clock
        self._given_tls = tls

    def call(self, invocation: Invocation, target: Mapping[str, object]) -> TargetAnswer:
        """Send the request once; what came of it. 2xx is success."""
        try:
            return within(invocation.timeout_seconds, lambda deadline: self._send(invocation, target, deadline))
        except DeadlineError:
            return timed_out(invocation.timeout_seconds)
        except InvalidFieldError as error:
            return failed("TARGET_ERROR", str(error), retryable=False)
        except SecretError as error:
            return failed("NETWORK_ERROR" if error.retryable else "TARGET_ERROR", str(error), retryable=error.retryable)
        except UnresolvedError as error:
            return failed("NETWORK_ERROR", str(error))
        except (OSError, http.client.HTTPException) as error:
            return failed("NETWORK_ERROR", f"{target.get('url')}: {_reason(error)}")

    def _send(self, invocation: Invocation, target: Mapping[str, object], deadline: Deadline) -> TargetAnswer:
        destination = self._guard.destination(str(target["url"]))
        method = str(target.get("method") or "POST")
        # RFC 9110 gives the content of a GET no meaning, and proxies drop or refuse it.
        body = b"" if method == "GET" else invocation.payload.encode()
        own = self._user_headers(target)
        headers = {"user-agent": USER_AGENT} | own | self._own_headers(invocation, method, body)
        tls = self._tls if destination.url.scheme == "https" else None
        connection = _Connection(destination, deadline, tls)
        try:
            connection.putrequest(method, destination.url.resource, skip_host=True)
            connection.putheader("Host", destination.url.authority)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            with connection.getresponse() as response:
                return self._answer(response, _read(response), hidden=_hidden(own, target))
        finally:
            connection.close()

    def _own_headers(self, invocation: Invocation, method: str, body: bytes) -> dict[str, str]:
        scheduled_for = datetime.fromtimestamp(invocation.scheduled_for, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {
            **self._signature.headers(invocation.execution_id, body),
            "Gnomon-Job-Id": invocation.job_id,
            "Gnomon-Run-Id": invocation.run_id,
            "Gnomon-Attempt": str(invocation.attempt),
            "Gnomon-Scheduled-For": scheduled_for,
            "connection": "close",
        }
        if invocation.callback_token is not None:
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

    def _answer(self, response: http.client.HTTPResponse, body: bytes, *, hidden: list[bytes]) -> TargetAnswer:
        whole, body = len(body) <= RESPONSE_BYTES, body[:RESPONSE_BYTES]
        for secret in hidden:
            body = body.replace(secret, MASK.encode())
        if 200 <= response.status < 300:
            return _result(response, body, whole=whole)
        return failed(
            f"HTTP_{response.status}",
            _explained(response, body),
            retryable=is_retryable_status(response.status),
            retry_after=retry_after(response.getheader("Retry-After"), now=self._clock.now()),
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()


class _Connection(http.client.HTTPConnection):
    """A connection to a judged address under the URL's name, watched by the deadline from its first packet on."""

    def __init__(self, destination: Destination, deadline: Deadline, tls: ssl.SSLContext | None) -> None:
        super().__init__(destination.url.host, destination.url.port)
        self._destination = destination
        self._deadline = deadline
        self._tls = tls

    def connect(self) -> None:
        ends = time.monotonic() + min(CONNECT_SECONDS, self._deadline.remaining())
        sock = self._dial(ends)
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self.host, do_handshake_on_connect=False)
                self._deadline.watch(sock)
                sock.settimeout(max(0.001, ends - time.monotonic()))
                sock.do_handshake()
            # From here on the deadline alone ends it.
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def _dial(self, ends: float) -> socket.socket:
        problem = OSError("there is no address")
        for address in self._destination.addresses:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            try:
                self._deadline.watch(sock)
                sock.settimeout(max(0.001, ends - time.monotonic()))
                sock.connect((address, self._destination.url.port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(sock)
            except DeadlineError:
                sock.close()
                raise
            except OSError as error:
                sock.close()
                problem = error
            else:
                return sock
        raise problem


def _keep_alive(sock: socket.socket) -> None:
    """Have the system ask the other side each minute: a NAT forgets connections that are silent for some minutes (AWS
    NAT gateway: 350 s), and a target may think for longer before it answers."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if (option := getattr(socket, name, None)) is not None:  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, option, KEEPALIVE_SECONDS)


def _read(response: http.client.HTTPResponse) -> bytes:
    """The first 64 KB of the body, and a byte more where there is more; raises IncompleteRead when the connection ended
    before the body did."""
    body = response.read(RESPONSE_BYTES + 1)
    if len(body) <= RESPONSE_BYTES and response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body


def _result(response: http.client.HTTPResponse, body: bytes, *, whole: bool) -> TargetAnswer:
    """What is kept of a success. One with too much JSON stays one: the work is done, and a stranger's API cannot
    be told to answer less (docs/decisions/0049-results-are-kept-whole-or-refused.md)."""
    try:
        return completed(kept_result(body, declared=_is_json(response), whole=whole))
    except ResultTooLargeError as error:
        return completed_without_result(TOO_LARGE, f"{error} as a result: {TOO_LARGE_ADVICE}")


def _is_json(response: http.client.HTTPResponse) -> bool:
    """By its media type (RFC 6839, section 3.1)."""
    media_type = response.headers.get_content_type()
    return media_type == "application/json" or media_type.endswith("+json")


def _hidden(headers: Mapping[str, str], target: Mapping[str, object]) -> list[bytes]:
    """Values a target may echo and nobody may see: secrets and sensitive headers, with and without their scheme."""
    written = target.get("headers")
    secrets = (
        {name for name, value in written.items() if isinstance(value, Mapping)}
        if isinstance(written, Mapping)
        else set()
    )
    values = [value for name, value in headers.items() if name in secrets or is_sensitive(name)]
    parts = {part for value in values for part in (value, value.split(" ")[-1]) if len(part) >= 8}
    return [part.encode() for part in sorted(parts, key=len, reverse=True)]


def _explained(response: http.client.HTTPResponse, body: bytes) -> str:
    message = f"HTTP {response.status} {response.reason}".strip()
    if 300 <= response.status < 400:
        message += f": redirects are not followed (to {shown_value(response.getheader('Location'))})"
    elif quoted := " ".join(body[: 4 * QUOTED_CHARACTERS].decode("utf-8", "replace").split()):
        message += f": {quoted[:QUOTED_CHARACTERS]}"
    # One line of printable characters: a message ends up in logs and terminals.
    return "".join(letter if letter.isprintable() else "�" for letter in message)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"could not be connected within {CONNECT_SECONDS:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended within the response"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection ended without a response"
    if isinstance(error, http.client.HTTPException):
        return f"the response cannot be read: {type(error).__name__}"
    return str(getattr(error, "strerror", None) or type(error).__name__)

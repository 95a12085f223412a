"""Connects to a judged address under the URL's name, sends one request, and reads what is answered meanwhile."""

from __future__ import annotations

import itertools
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from functions.adapters.address_guard import Destination
from functions.adapters.deadline import Deadline, DeadlineError
from functions.adapters.http_answer import AnswerReader

CONNECT_SECONDS = 5.0
"""Longest time for connecting, TLS included, over all addresses of a host."""
SHARE_SECONDS = 0.5
"""Shortest part of it that an address is given."""
REFUSAL_SECONDS = 2.0
"""How long the body of an answer that is not a success is waited for: it is only quoted."""
KEEPALIVE_SECONDS = 60
"""How long a connection may be silent before the system asks whether the other side is still there."""

_PART_BYTES = 65_536

T = TypeVar("T")


class ConnectError(OSError):
    """No address could be connected to; the message says why, for each."""


def connect(destination: Destination, deadline: Deadline, tls: ssl.SSLContext | None) -> socket.socket:
    """Connect to the first address that accepts, TLS included; raises ConnectError.

    The addresses share the time: each has its part of what is left, and the next one starts when that is over or the
    one before has failed. IPv6 and IPv4 take turns (RFC 8305, section 4): a network that drops one of them costs one
    part.
    """
    ends = time.monotonic() + min(CONNECT_SECONDS, deadline.remaining())
    addresses = _interleave(destination.addresses)
    problems: list[str] = []
    for position, address in enumerate(addresses):
        left = ends - time.monotonic()
        if left <= 0:
            break
        part = min(left, max(SHARE_SECONDS, left / (len(addresses) - position)))
        try:
            return _connect_to(address, destination, time.monotonic() + part, tls)
        except TimeoutError:
            problem = f"could not be connected within {part:.1f} s"
        except OSError as error:
            problem = describe_error(error)
        problems.append(problem if len(addresses) == 1 else f"{address}: {problem}")
    raise ConnectError("; ".join(problems) or "no time was left to connect")


def exchange(sock: socket.socket, request: bytes, answer: AnswerReader, deadline: Deadline) -> None:
    """Send the request and read the answer, both at the same time, until the deadline.

    Servers that refuse a request often answer before they have read it, and some never read it. So the rest of it is
    sent only as long as there is no answer, or a success.

    Raises:
        DeadlineError: No final status came in time.
        OSError: The connection ended before a final status came, or what came is not HTTP.
    """
    sock.setblocking(False)
    ends = time.monotonic() + deadline.remaining()
    both, refused = _BothWays(sock, request, answer), False
    while (left := ends - time.monotonic()) > 0 and not both.are_done:
        events = both.send() | both.receive()
        if not refused and answer.status is not None and not answer.is_success:
            refused, both.unsent = True, both.unsent[:0]
            ends = min(ends, time.monotonic() + REFUSAL_SECONDS)
        elif not both.are_done:
            _wait_for(sock, events, left)
    if answer.status is None:
        raise both.problem if answer.is_over else DeadlineError


class _BothWays:
    """A request and its answer on a socket that does not block."""

    def __init__(self, sock: socket.socket, request: bytes, answer: AnswerReader) -> None:
        self._sock = sock
        self._answer = answer
        self.unsent = memoryview(request)
        self.problem = OSError("the connection ended without a response")

    @property
    def are_done(self) -> bool:
        return self._answer.is_over and not (self.unsent and self._answer.is_success)

    def send(self) -> int:
        """Send as much as fits; returns the event to wait for, or 0."""
        try:
            while self.unsent:
                sent, event = _attempt(lambda: self._sock.send(self.unsent[:_PART_BYTES]), blocked=select.POLLOUT)
                if sent is None:
                    return event
                self.unsent = self.unsent[sent:]
        except OSError:
            self.unsent = self.unsent[:0]  # whether it was answered all the same, reading will show
        return 0

    def receive(self) -> int:
        """Read what has arrived; returns the event to wait for, or 0."""
        try:
            while not self._answer.is_over:
                data, event = _attempt(lambda: self._sock.recv(_PART_BYTES), blocked=select.POLLIN)
                if data is None:
                    return event
                if data:
                    self._answer.feed(data)
                else:
                    self._answer.end(cleanly=True)
        except OSError as error:
            self.problem = error
            self._answer.end(cleanly=False)
        return 0


def _attempt(action: Callable[[], T], *, blocked: int) -> tuple[T | None, int]:
    """What the action returns, or None and the event to wait for; TLS may have to read in order to send."""
    try:
        return action(), 0
    except ssl.SSLWantReadError:
        return None, select.POLLIN
    except ssl.SSLWantWriteError:
        return None, select.POLLOUT
    except BlockingIOError:
        return None, blocked


def _wait_for(sock: socket.socket, events: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(sock, events)
    poll.poll(seconds * 1_000)


def _interleave(addresses: Sequence[str]) -> list[str]:
    """IPv6 and IPv4 in turns, each in the order given; the family of the first goes first."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    others = [address for address in addresses if address not in first]
    return [address for pair in itertools.zip_longest(first, others) for address in pair if address is not None]


def _connect_to(address: str, destination: Destination, ends: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Raises OSError; TimeoutError at `ends`, by the monotonic clock."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.settimeout(_seconds_until(ends))
        sock.connect((address, destination.url.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_hostname=destination.url.host, do_handshake_on_connect=False)
            sock.settimeout(_seconds_until(ends))
            sock.do_handshake()
    except BaseException:
        sock.close()
        raise
    return sock


def _seconds_until(ends: float) -> float:
    """Seconds until then; never 0, which would mean not to wait at all."""
    return max(0.001, ends - time.monotonic())


def _keep_alive(sock: socket.socket) -> None:
    """Have the system ask the other side each minute: a NAT forgets connections that are silent for some minutes (AWS
    NAT gateway: 350 s), and a target may think for longer before it answers."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if (option := getattr(socket, name, None)) is not None:  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, option, KEEPALIVE_SECONDS)


def describe_error(error: OSError) -> str:
    """What went wrong with a connection, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or type(error).__name__}"
    return str(error.strerror or error) or type(error).__name__

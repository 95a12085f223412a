"""How the addresses of a name share the time to connect, and how a request and its answer share a connection."""

from __future__ import annotations

import contextlib
import itertools
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.adapters import http_connection
from functions.adapters.address_guard import Destination
from functions.adapters.deadline import Deadline
from functions.adapters.http_connection import SHARE_SECONDS, ConnectError, connect
from functions.domain.execution import ExecutionStatus
from functions.domain.target_url import parse_url
from tests.support.odd_server import (
    black_hole,
    drip,
    odd_server,
    read_head,
    read_request,
    read_to_the_end,
    self_signed,
    server_tls,
    wait,
)
from tests.support.sending import Addresses, code, invocation, message, sender

pytestmark = pytest.mark.usefixtures("loopback")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
ADDRESSES = st.lists(
    st.sampled_from(["2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1", "192.0.2.2", "192.0.2.3"]),
    unique=True,
    min_size=1,
)


class Network:
    """Addresses that accept after a while, or refuse after a negative one; others drop packets. It has its own time."""

    def __init__(self, answers: Mapping[str, float] = MappingProxyType({})) -> None:
        self.now = 1_000.0
        self.tried: list[tuple[str, float]] = []
        """Addresses and how long each was given."""
        self._answers = answers

    def monotonic(self) -> float:
        return self.now

    def connect_to(self, address: str, _destination: Destination, ends: float, _tls: object) -> str:
        given = ends - self.now
        self.tried.append((address, given))
        seconds = self._answers.get(address)
        if seconds is None or seconds > given:
            self.now += given
            raise TimeoutError
        self.now += abs(seconds)
        if seconds < 0:
            raise ConnectionRefusedError(111, "Connection refused")
        return address


def connect_by(network: Network, addresses: list[str], seconds: float = 60) -> str | None:
    """The address that is connected to; None where none is."""
    destination = Destination(url=parse_url("https://hooks.test/"), addresses=tuple(addresses))
    deadline = Deadline(0)
    deadline._ends = network.now + seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", network.monotonic)
        patch.setattr(http_connection, "_connect_to", network.connect_to)
        with contextlib.suppress(ConnectError):
            return str(connect(destination, deadline, None))
    return None


@given(ADDRESSES, st.data())
def test_one_address_that_accepts_is_found_wherever_it_stands(addresses: list[str], data: st.DataObject) -> None:
    """The others drop packets: what is left for it is at least the shortest share."""
    good = data.draw(st.sampled_from(addresses))
    network = Network({good: SHARE_SECONDS - 0.01})
    assert connect_by(network, addresses) == good
    assert network.now - 1_000 <= http_connection.CONNECT_SECONDS


@given(ADDRESSES, st.floats(0.6, 60))
def test_shares_are_fair_and_end_with_the_time(addresses: list[str], seconds: float) -> None:
    network = Network()
    assert connect_by(network, addresses, seconds) is None
    budget = min(http_connection.CONNECT_SECONDS, seconds)
    assert sum(given for _, given in network.tried) == pytest.approx(budget)
    fair = max(SHARE_SECONDS, budget / len(addresses))
    assert all(given == pytest.approx(fair) for _, given in network.tried[:-1])


@given(ADDRESSES)
def test_families_take_turns_in_the_order_given(addresses: list[str]) -> None:
    network = Network(dict.fromkeys(addresses, -0.0001))
    assert connect_by(network, addresses) is None
    tried = [address for address, _ in network.tried]
    assert tried[0] == addresses[0]
    for six in (True, False):
        assert [one for one in tried if (":" in one) is six] == [one for one in addresses if (":" in one) is six]
    both = 2 * min(sum(":" in one for one in addresses), sum(":" not in one for one in addresses))
    assert all((":" in one) != (":" in other) for one, other in itertools.pairwise(tried[:both]))


def test_an_address_that_fails_at_once_leaves_its_time_to_the_others() -> None:
    network = Network({"192.0.2.1": -0.001, "192.0.2.2": 4.9})
    assert connect_by(network, ["192.0.2.1", "192.0.2.2"]) == "192.0.2.2"


def test_a_real_address_that_drops_packets_costs_its_share() -> None:
    with odd_server(read_request, OK, address="127.0.0.9") as good, black_hole("127.0.0.8", good.port):
        started = time.monotonic()
        target = {"url": f"http://hooks.test:{good.port}/"}
        answer = sender(guard=Addresses("127.0.0.8", "127.0.0.9")).call(invocation(timeout_seconds=2), target)
        elapsed = time.monotonic() - started
    assert answer.status is ExecutionStatus.COMPLETED
    assert 0.9 <= elapsed < 1.9


def test_an_address_whose_handshake_hangs_costs_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "CONNECT_SECONDS", 2.0)
    certificate = self_signed(tmp_path / "hooks.pem", "hooks.test")
    client = ssl.create_default_context(cafile=str(certificate))
    with (
        odd_server(read_request, OK, address="127.0.0.9", tls=server_tls(certificate)) as good,
        odd_server(wait, address="127.0.0.7", port=good.port),
        odd_server(drip(b"\x16\x03\x03\x40\x00\x02" + b"\x00" * 200, 0.05), address="127.0.0.8", port=good.port),
    ):
        guard = Addresses("127.0.0.7", "127.0.0.8", "127.0.0.9")
        answer = sender(guard=guard, tls=client).call(invocation(), {"url": f"https://hooks.test:{good.port}/"})
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, "{}")


def test_why_each_address_failed_is_told() -> None:
    with black_hole("127.0.0.8") as port:
        target = {"url": f"http://hooks.test:{port}/"}
        answer = sender(guard=Addresses("127.0.0.8", "127.0.0.7")).call(invocation(), target)
    assert (code(answer), answer.retryable) == ("NETWORK_ERROR", True)
    assert "127.0.0.8: could not be connected within 2.5 s; 127.0.0.7: Connection refused" in message(answer)


def test_a_system_without_ipv6_uses_the_other_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    connect_to = http_connection._connect_to

    def no_ipv6(address: str, *arguments: object) -> object:
        if ":" in address:
            raise OSError(97, "Address family not supported by protocol")
        return connect_to(address, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(http_connection, "_connect_to", no_ipv6)
    with odd_server(read_request, OK) as server:
        target = {"url": f"http://hooks.test:{server.port}/"}
        assert sender(guard=Addresses("::1", "127.0.0.1")).call(invocation(), target).result == "{}"


LARGE = json.dumps("x" * 6_000_000)


def test_a_success_that_comes_early_is_sent_all_it_was_promised() -> None:
    with odd_server(read_head, OK, 0.2, read_to_the_end) as server:
        answer = sender().call(invocation(LARGE), {"url": server.url})
        assert server.connections[0].ended.wait(5)
    assert answer.status is ExecutionStatus.COMPLETED
    assert server.requests[0].endswith(LARGE.encode())


def test_a_refusal_that_comes_early_ends_the_sending() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
    with odd_server(read_head, refusal, 0.2, read_to_the_end) as server:
        started = time.monotonic()
        answer = sender().call(invocation(LARGE), {"url": server.url})
        elapsed = time.monotonic() - started
    assert (code(answer), answer.retryable) == ("HTTP_413", False)
    assert "no!" in message(answer)
    assert elapsed < 2
    assert not server.requests[0].endswith(LARGE.encode())


@pytest.mark.parametrize("head", [b"HTTP/1.1 503 Busy\r\nRetry-After: 6\r\n\r\n", b"HTTP/1.1 404 No\r\nA: b\r\n"])
def test_a_refusal_is_not_waited_for(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "REFUSAL_SECONDS", 0.3)
    with odd_server(read_request, head, wait) as server:
        started = time.monotonic()
        answer = sender().call(invocation(timeout_seconds=8), {"url": server.url})
        elapsed = time.monotonic() - started
    assert code(answer) == f"HTTP_{head[9:12].decode()}"
    assert elapsed < 3

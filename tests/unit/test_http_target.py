"""The sender against real servers on 127.0.0.1. tests/unit/test_odd_answers.py has what each odd answer means."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from functions.adapters.address_guard import AddressGuard, Destination
from functions.adapters.hidden_values import HiddenValues
from functions.adapters.http_connection import KEEPALIVE_SECONDS
from functions.adapters.secret_values import SecretError
from functions.domain.circuit import Health
from functions.domain.errors import UnavailableError
from functions.domain.execution import ExecutionStatus
from functions.domain.outcome import TargetAnswer, health_of
from functions.domain.target_url import parse_url
from functions.domain.webhook_key import StoredKeys
from tests.factories import make_rules
from tests.fakes import InMemoryWebhookKeys
from tests.receiver import Exchange, receiving
from tests.support.odd_server import drip, odd_server, read_request, read_to_the_end, self_signed, server_tls, wait
from tests.support.sending import JOB, KEY, OWNER, PAYLOAD, Addresses, Secrets, call, code, invocation, message, sender

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")


def test_a_target_receives_the_payload_signed_and_the_ids() -> None:
    with receiving(lambda exchange: exchange.answer(200, b'{"done": 1.0}')) as receiver:
        answer = call(receiver.url, headers={"X-Trace": "on", "User-Agent": "me"})
    assert (answer.status, answer.result, answer.error) == (ExecutionStatus.COMPLETED, '{"done":1.0}', None)
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/hook?x=1")
    assert request.body == PAYLOAD.encode()
    assert Webhook(f"whsec_{KEY}").verify(request.body, dict(request.headers)) == json.loads(request.body)
    expected = {
        "webhook-id": f"{JOB}-1800000000",
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "accept-encoding": "identity",
        "gnomon-owner": OWNER,
        "gnomon-job-id": JOB,
        "gnomon-run-id": f"{JOB}-1800000000",
        "gnomon-attempt": "2",
        "gnomon-scheduled-for": "2027-01-15T08:00:00Z",
        "x-trace": "on",
        "user-agent": "me",
    }
    assert {name: request.headers.get(name) for name in expected} == expected
    assert set(request.headers) - set(expected) == {"connection", "content-length", *SIGNATURE}


SIGNATURE = {"webhook-timestamp", "webhook-signature"}


@pytest.mark.parametrize("token", [None, "t0ken"])
def test_every_attempt_of_a_run_has_the_same_signed_id(token: str | None) -> None:
    """What a receiver is told to know its work by: the signature covers it, and a forged one is refused."""
    with receiving(lambda exchange: exchange.answer(200)) as receiver:
        for attempt in (1, 2, 30):
            target = {"type": "http", "url": receiver.url}
            sender().call(invocation(attempt=attempt, callback_token=token), target)
    ids = {request.headers["webhook-id"] for request in receiver.requests}
    assert ids == {f"{JOB}-1800000000"}
    assert [request.headers["gnomon-attempt"] for request in receiver.requests] == ["1", "2", "30"]
    for request in receiver.requests:
        Webhook(KEY).verify(request.body, dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Webhook(KEY).verify(request.body, {**request.headers, "webhook-id": f"{JOB}-1800000060"})


def test_a_callback_is_told_the_execution_to_report_on_and_others_are_not() -> None:
    with receiving(lambda exchange: exchange.answer(202)) as receiver:
        sender().call(invocation(callback_token="t0ken"), {"url": receiver.url})
        sender().call(invocation(), {"url": receiver.url})
    told, untold = (
        {name: value for name, value in request.headers.items() if name.startswith("gnomon-")}
        for request in receiver.requests
    )
    own = {"gnomon-execution-id": f"{JOB}-1800000000-0002", "gnomon-callback-token": "t0ken"}
    assert told == untold | own


def test_a_user_agent_is_sent_once() -> None:
    with odd_server(read_request, b"HTTP/1.1 204 No Content\r\n\r\n") as server:
        call(server.url, headers={"User-AGENT": "me"})
        call(server.url)
    with_own, without = (request.lower().count(b"user-agent:") for request in server.requests)
    assert (with_own, without) == (1, 1)


@pytest.mark.parametrize(
    "target",
    [
        {"method": "POST / HTTP/1.1\r\nA: b\r\n\r\nGET"},
        {"headers": {"A: b\r\nC": "d"}},
        {"headers": {"A\n": "d"}},
        {"headers": {"é": "d"}},
    ],
)
def test_nothing_in_a_stored_target_becomes_a_request_of_its_own(target: dict[str, Any]) -> None:
    with receiving(lambda exchange: exchange.answer(200)) as receiver:
        answer = call(receiver.url, **target)
    assert (code(answer), answer.retryable) == ("TARGET_ERROR", False)
    assert receiver.requests == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_other_methods_carry_the_payload(method: str) -> None:
    with receiving(lambda exchange: exchange.answer(204)) as receiver:
        answer = call(receiver.url, method=method)
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, None)
    assert (receiver.requests[0].method, receiver.requests[0].body) == (method, PAYLOAD.encode())


def test_get_carries_no_body_and_signs_that() -> None:
    with receiving(lambda exchange: exchange.answer(200)) as receiver:
        assert call(receiver.url, method="GET").status is ExecutionStatus.COMPLETED
    (request,) = receiver.requests
    assert request.body == b""
    assert not {"content-type", "content-length"} & set(request.headers)
    Webhook(KEY).verify(b"", dict(request.headers), json_parse=False)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (301, False),
        (400, False),
        (404, False),
        (408, True),
        (409, False),
        (410, False),
        (425, True),
        (429, True),
        (500, True),
        (503, True),
    ],
)
def test_a_failure_is_named_by_its_status(status: int, retryable: bool) -> None:
    with receiving(lambda exchange: exchange.answer(status, b"try\nlater\x1b[31m")) as receiver:
        answer = call(receiver.url)
    assert (answer.status, code(answer), answer.retryable) == (ExecutionStatus.FAILED, f"HTTP_{status}", retryable)
    assert message(answer).isprintable()
    assert "try later" in message(answer)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ("Bestellung Müller gibt es nicht".encode(), {}),
        ("Bestellung Müller gibt es nicht".encode("latin-1"), {"Content_Type": "text/plain; charset=latin1"}),
        ("Bestellung Müller gibt es nicht".encode("utf-16"), {"Content_Type": "application/json; charset=utf-16"}),
        (gzip.compress("Bestellung Müller gibt es nicht".encode(), mtime=0), {"Content_Encoding": "gzip"}),
    ],
)
def test_a_refusal_is_quoted_as_it_can_be_read(body: bytes, headers: dict[str, str]) -> None:
    with receiving(lambda exchange: exchange.answer(422, body, **headers)) as receiver:
        assert "Bestellung Müller gibt es nicht" in message(call(receiver.url))


@pytest.mark.parametrize("headers", [{"Content_Encoding": "br"}, {"Content_Encoding": "gzip"}])
def test_a_refusal_that_cannot_be_read_is_not_quoted(headers: dict[str, str]) -> None:
    with receiving(lambda exchange: exchange.answer(503, b"abc", Retry_After="6", **headers)) as receiver:
        answer = call(receiver.url)
    assert (message(answer), answer.retry_after) == ("HTTP 503 Service Unavailable", 6)


def test_a_secret_is_masked_in_what_is_decoded_too() -> None:
    secrets = Secrets(hook="Bearer tok-12345678")
    echo = gzip.compress('{"got": "Bearer tok-12345678"}'.encode("utf-16"), mtime=0)
    headers = {"Content_Type": "application/json; charset=utf-16", "Content_Encoding": "gzip"}
    for status in (200, 403):
        with receiving(lambda exchange, status=status: exchange.answer(status, echo, **headers)) as receiver:
            answer = call(receiver.url, secrets=secrets, headers={"Authorization": {"secretArn": "hook"}})
        shown = answer.result or message(answer)
        assert "***" in shown
        assert "12345678" not in shown


@pytest.mark.case(29)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving(lambda exchange: exchange.answer(200)) as private:
        with receiving(lambda exchange: exchange.answer(status, Location=private.url)) as public:
            answer = call(public.url)
        assert (answer.status, code(answer), answer.retryable) == (ExecutionStatus.FAILED, f"HTTP_{status}", False)
        assert "redirects are not followed" in message(answer)
        assert private.url.replace("?x=1", "?x=***") in message(answer)
        assert private.requests == []


@pytest.mark.case(13)
def test_retry_after_is_read_in_seconds_and_as_a_date() -> None:
    with receiving(lambda exchange: exchange.answer(429, Retry_After="120")) as receiver:
        assert call(receiver.url).retry_after == 120
    with receiving(lambda exchange: exchange.answer(429, Retry_After="99999")) as receiver:
        assert call(receiver.url).retry_after == 99_999
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 120))
    with receiving(lambda exchange: exchange.answer(503, Retry_After=date)) as receiver:
        assert call(receiver.url).retry_after in range(117, 122)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("-5", None), ("soon", None), ("", None), ("1.5", None), ("0", 0), ("0" * 10 + "7", 7), ("9" * 5_000, 10**9),
     ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 99 Jan 2099 00:00:00 GMT", None), ("²", None)],
)  # fmt: skip
def test_a_strange_retry_after_harms_nothing(value: str, seconds: int | None) -> None:
    with receiving(lambda exchange: exchange.answer(503, Retry_After=value)) as receiver:
        assert call(receiver.url).retry_after == seconds


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="this system has another name for it")
def test_a_connection_that_waits_for_long_is_not_forgotten_on_the_way() -> None:
    options = []

    def look(exchange: Exchange) -> None:
        peer = exchange.client_address
        [ours] = [
            each
            for each in gc.get_objects()
            if isinstance(each, socket.socket) and each.fileno() != -1 and each.getsockname() == peer
        ]
        options.append(ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        options.append(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
        exchange.answer(200, b"1")

    with receiving(look) as receiver:
        assert call(receiver.url).status is ExecutionStatus.COMPLETED
    assert options == [1, KEEPALIVE_SECONDS]
    assert KEEPALIVE_SECONDS < 350


def test_a_huge_response_is_read_up_to_64_kb_and_kept_up_to_32() -> None:
    sent = []

    def flood(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(20_000):
                exchange.wfile.write(b"x" * 10_000)
                sent.append(10_000)

    with receiving(flood) as receiver:
        answer = call(receiver.url)
    assert answer.status is ExecutionStatus.COMPLETED
    assert answer.result is not None
    assert len(answer.result.encode()) == 32_768
    assert sum(sent) < 100_000_000


def answering(body: bytes, media_type: str | None) -> TargetAnswer:
    headers = {} if media_type is None else {"Content_Type": media_type}
    with receiving(lambda exchange: exchange.answer(200, body, **headers)) as receiver:
        return call(receiver.url)


DECLARED = ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"]


@pytest.mark.parametrize("media_type", DECLARED)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps("x" * 32_767).encode(), "32769 bytes of JSON; at most 32768 are kept"),
        (json.dumps("x" * 70_000).encode(), "over 65536 bytes of JSON; at most 32768 are kept"),
    ],
)
def test_json_that_is_too_large_to_be_kept_is_a_success_that_says_so(body: bytes, said: str, media_type: str) -> None:
    answer = answering(body, media_type)
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, None)
    assert answer.error is not None
    assert answer.error.code == "RESULT_TOO_LARGE"
    assert said in answer.error.message
    assert "xx" not in answer.error.message


@pytest.mark.parametrize("media_type", [None, "text/plain", "text/html", "application/jsonlines"])
def test_other_answers_are_cut(media_type: str | None) -> None:
    answer = answering(json.dumps("x" * 40_000).encode(), media_type)
    assert answer.error is None
    assert 32_700 < len((answer.result or "").encode()) <= 32_768


def test_a_body_of_exactly_what_is_read_is_whole() -> None:
    body = b'{"a":1}'.ljust(65_536)
    assert answering(body, "application/json").result == '{"a":1}'
    answer = answering(body + b" ", "application/json")
    assert answer.error is not None
    assert answer.error.code == "RESULT_TOO_LARGE", "what is left unread may be anything"


@pytest.mark.parametrize(
    "script",
    [
        [wait],
        [drip(b"HTTP/1.1 200 OK, but slowly: " + b"a" * 1_000, 0.05)],
        [drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.01)],
    ],
)
def test_the_total_time_holds_for_servers_that_hang_or_drip(script: list[Any]) -> None:
    with odd_server(read_request, *script) as server:
        started = time.monotonic()
        answer = call(server.url, timeout_seconds=1)
        elapsed = time.monotonic() - started
    assert (answer.status, code(answer), answer.retryable) == (ExecutionStatus.TIMED_OUT, "TIMEOUT", True)
    assert "1 s" in message(answer)
    assert 0.9 <= elapsed < 1.9


@pytest.mark.parametrize("status", [200, 404])
def test_the_total_time_holds_for_a_body_that_never_ends_and_the_status_counts(status: int) -> None:
    head = b"HTTP/1.1 %d Odd\r\nContent-Type: text/plain\r\n\r\n" % status
    with odd_server(read_request, head, drip(b"a" * 1_000, 0.05)) as server:
        started = time.monotonic()
        answer = call(server.url, timeout_seconds=1)
        elapsed = time.monotonic() - started
    expected = (ExecutionStatus.COMPLETED, None) if status == 200 else (ExecutionStatus.FAILED, "HTTP_404")
    assert (answer.status, code(answer)) == expected
    assert "aaa" in (answer.result or message(answer))
    assert 0.9 <= elapsed < 1.9


def test_a_tls_handshake_that_never_ends_is_within_the_total_time() -> None:
    with odd_server(drip(b"\x16\x03\x03\x40\x00\x02" + b"\x00" * 200, 0.05)) as server:
        started = time.monotonic()
        answer = call(server.url.replace("http:", "https:"), timeout_seconds=1)
    assert answer.status is ExecutionStatus.TIMED_OUT
    assert time.monotonic() - started < 1.9


def test_a_resolver_that_hangs_is_within_the_total_time_and_nothing_is_sent_afterwards() -> None:
    released = threading.Event()
    resolved = threading.Event()
    with receiving(lambda exchange: exchange.answer(200)) as receiver:

        class SlowGuard:
            def destination(self, url: str) -> Destination:
                released.wait(10)
                resolved.set()
                return Destination(url=parse_url(url), addresses=("127.0.0.1",))

        answer = sender(guard=SlowGuard()).call(invocation(timeout_seconds=1), {"url": receiver.url})
        released.set()
        assert resolved.wait(5)
        time.sleep(0.2)
        assert receiver.requests == []
    assert answer.status is ExecutionStatus.TIMED_OUT


def test_a_connection_is_given_up_when_the_time_is_over() -> None:
    with odd_server(read_to_the_end) as server:
        assert call(server.url, timeout_seconds=1).status is ExecutionStatus.TIMED_OUT
        assert server.connections[0].ended.wait(1)


def test_a_closed_port_is_a_network_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = call(f"http://127.0.0.1:{port}/")
    assert (code(answer), answer.retryable) == ("NETWORK_ERROR", True)
    assert "refused" in message(answer)


def test_a_refused_url_is_final_and_an_unknown_name_is_not() -> None:
    answer = call("http://127.0.0.1:4566/")
    assert (code(answer), answer.retryable) == ("TARGET_ERROR", False)
    assert "target.url" in message(answer)

    def unknown(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    guard = AddressGuard(make_rules(), resolve=unknown)
    answer = sender(guard=guard).call(invocation(), {"url": "https://unknown.test/"})
    assert (code(answer), answer.retryable) == ("NETWORK_ERROR", True)
    assert "unknown.test" in message(answer)


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiving(lambda exchange: exchange.answer(200)) as receiver:
        assert call(receiver.url).status is ExecutionStatus.COMPLETED


def test_secrets_are_filled_in_and_an_echo_of_them_is_masked() -> None:
    def echo(exchange: Exchange) -> None:
        names = ("Authorization", "X-Note", "X-Api-Key")
        exchange.answer(200, json.dumps({name: exchange.headers[name] for name in names}).encode())

    secrets = Secrets(hook="Bearer tok-12345678\n", note="n0te-12345678")
    headers = {"Authorization": {"secretArn": "hook"}, "X-Note": {"secretArn": "note"}, "X-Api-Key": "plain-12345678"}
    with receiving(echo) as receiver:
        answer = call(receiver.url, secrets=secrets, headers=headers)
    received = receiver.requests[0].headers
    assert received["authorization"] == "Bearer tok-12345678"
    assert received["x-note"] == "n0te-12345678"
    assert received["x-api-key"] == "plain-12345678"
    assert json.loads(answer.result or "") == {"Authorization": "***", "X-Note": "***", "X-Api-Key": "***"}


@pytest.mark.parametrize(
    ("value", "expected", "retryable"),
    [
        (SecretError("secret hook: ResourceNotFoundException", retryable=False), "TARGET_ERROR", False),
        (SecretError("secret hook: InternalServiceError", retryable=True), "NETWORK_ERROR", True),
        ("tok\r\nX-Evil: 12345", "TARGET_ERROR", False),
    ],
)
def test_a_secret_that_cannot_be_used_sends_nothing(value: Any, expected: str, retryable: bool) -> None:
    with receiving(lambda exchange: exchange.answer(200)) as receiver:
        answer = call(receiver.url, secrets=Secrets(hook=value), headers={"Authorization": {"secretArn": "hook"}})
    assert (code(answer), answer.retryable) == (expected, retryable)
    assert health_of(answer) is Health.UNKNOWN, "nothing is known of a target that was not called"
    assert "Evil" not in message(answer)
    assert receiver.requests == []


def test_a_key_that_cannot_be_read_sends_nothing_and_says_nothing_of_the_target() -> None:
    class Unread(InMemoryWebhookKeys):
        def get(self, owner: str) -> StoredKeys | None:
            raise UnavailableError("not in its form")

    with receiving(lambda exchange: exchange.answer(200)) as receiver:
        answer = sender(keys=Unread()).call(invocation(), {"url": receiver.url})
    assert (code(answer), answer.retryable, health_of(answer)) == ("NETWORK_ERROR", True, Health.UNKNOWN)
    assert receiver.requests == []


def test_time_that_masking_takes_is_not_that_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    hide = HiddenValues.hide

    def slow(self: HiddenValues, text: str) -> str:
        time.sleep(1.6)
        return hide(self, text)

    monkeypatch.setattr(HiddenValues, "hide", slow)
    with receiving(lambda exchange: exchange.answer(200, b'{"done": true}')) as receiver:
        answer = call(receiver.url, timeout_seconds=1)
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, '{"done":true}')


class TestTls:
    """A judged address is called under the URL's name: in SNI, certificate and Host."""

    OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Path:
        return self_signed(tmp_path / "hooks.pem", "hooks.test")

    @staticmethod
    def call(port: int, host: str, trusted: Path | None, payload: str = PAYLOAD) -> TargetAnswer:
        tls = ssl.create_default_context(cafile=str(trusted)) if trusted else None
        target = {"url": f"https://{host}:{port}/a"}
        return sender(guard=Addresses("127.0.0.1"), tls=tls).call(invocation(payload), target)

    def test_the_name_of_the_url_is_asked_for(self, certificate: Path) -> None:
        with odd_server(read_request, self.OK, tls=server_tls(certificate)) as server:
            answer = self.call(server.port, "hooks.test", certificate)
        assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, "{}")
        assert server.names == ["hooks.test"]
        assert f"Host: hooks.test:{server.port}\r\n".encode() in server.requests[0]

    def test_much_is_sent_and_read(self, certificate: Path) -> None:
        answer = b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 60_000
        payload = json.dumps("x" * 3_000_000)
        with odd_server(read_request, answer, tls=server_tls(certificate)) as server:
            kept = self.call(server.port, "hooks.test", certificate, payload).result
        assert len(kept or "") == 32_768
        assert server.requests[0].endswith(payload.encode())

    @pytest.mark.parametrize(("host", "trust"), [("other.test", True), ("hooks.test", False)])
    def test_a_certificate_of_another_name_or_authority_is_refused(
        self, certificate: Path, host: str, trust: bool
    ) -> None:
        with odd_server(read_request, self.OK, tls=server_tls(certificate)) as server:
            answer = self.call(server.port, host, certificate if trust else None)
        assert (code(answer), answer.retryable) == ("NETWORK_ERROR", True)
        assert "certificate" in message(answer)
        assert not any(server.requests)

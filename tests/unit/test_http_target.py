"""The sender against real servers on 127.0.0.1: kind ones, and ones that hang, drip, reset, redirect."""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import socket
import ssl
import struct
import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from standardwebhooks.webhooks import Webhook

from functions.adapters.address_guard import AddressGuard, Destination
from functions.adapters.http_target import KEEPALIVE_SECONDS, HttpTarget
from functions.adapters.secret_values import SecretError
from functions.domain.execution import ExecutionStatus
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.target_url import parse_url
from tests.receiver import Exchange, receiving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")

JOB = "3f1c2a4e-0b5d-4c7e-9a8f-1234567890ab"
RULES = SimpleNamespace(unguarded_origins=("http://127.0.0.1:*", "https://127.0.0.1:*", "!http://127.0.0.1:4566"))
KEY = base64.b64encode(b"k" * 32).decode()


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Secrets:
    def __init__(self, **values: str | Exception) -> None:
        self._values: dict[str, str | Exception] = {"webhook": json.dumps({"current": KEY}), **values}

    def get(self, secret: str) -> str:
        value = self._values[secret]
        if isinstance(value, Exception):
            raise value
        return value


def invocation(payload: str = '{"lat":33.10318374633789,"r":1.0,"t":"é"}', timeout_seconds: int = 10) -> Invocation:
    return Invocation(
        job_id=JOB,
        slot_id="1800000000",
        run_id=f"{JOB}-1800000000",
        execution_id=f"{JOB}-1800000000-0002",
        attempt=2,
        scheduled_for=1_800_000_000,
        payload=payload,
        timeout_seconds=timeout_seconds,
    )


def sender(*, guard: Any = None, secrets: Any = None, tls: ssl.SSLContext | None = None) -> HttpTarget:
    return HttpTarget(
        guard=guard or AddressGuard(RULES),
        secrets=secrets or Secrets(),
        webhook_secret_arn="webhook",
        clock=SystemClock(),
        tls=tls,
    )


def call(url: str, *, timeout_seconds: int = 10, secrets: Any = None, **target: Any) -> TargetAnswer:
    return sender(secrets=secrets).call(
        invocation(timeout_seconds=timeout_seconds), {"type": "http", "url": url, **target}
    )


def code(answer: TargetAnswer) -> str:
    assert answer.error is not None
    return answer.error.code


def message(answer: TargetAnswer) -> str:
    assert answer.error is not None
    return answer.error.message


@contextlib.contextmanager
def raw_server(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """A TCP server on 127.0.0.1 for answers that no HTTP server gives. Takes one connection."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)

    def run() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                serve(connection, over)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        listener.close()
        thread.join()


def test_a_target_receives_the_payload_signed_and_the_ids() -> None:
    with receiving(lambda exchange: exchange.answer(200, b'{"done": 1.0}')) as receiver:
        answer = call(receiver.url, headers={"X-Trace": "on", "User-Agent": "me"})
    assert (answer.status, answer.result, answer.error) == (ExecutionStatus.COMPLETED, '{"done":1.0}', None)
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/hook?x=1")
    assert request.body == invocation().payload.encode()
    assert Webhook(f"whsec_{KEY}").verify(request.body, dict(request.headers)) == json.loads(request.body)
    signed = {"webhook-id": f"{JOB}-1800000000-0002"}
    expected = signed | {
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "accept-encoding": "identity",
        "gnomon-job-id": JOB,
        "gnomon-run-id": f"{JOB}-1800000000",
        "gnomon-attempt": "2",
        "gnomon-scheduled-for": "2027-01-15T08:00:00Z",
        "x-trace": "on",
        "user-agent": "me",
    }
    assert {name: request.headers.get(name) for name in expected} == expected


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_other_methods_carry_the_payload(method: str) -> None:
    with receiving(lambda exchange: exchange.answer(204)) as receiver:
        answer = call(receiver.url, method=method)
    assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, None)
    assert (receiver.requests[0].method, receiver.requests[0].body) == (method, invocation().payload.encode())


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
        (301, True),
        (400, False),
        (404, False),
        (408, True),
        (409, False),
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
    assert status == 301 or "try later" in message(answer)


@pytest.mark.case(29)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving(lambda exchange: exchange.answer(200)) as private:
        with receiving(lambda exchange: exchange.answer(status, Location=private.url)) as public:
            answer = call(public.url)
        assert (answer.status, code(answer)) == (ExecutionStatus.FAILED, f"HTTP_{status}")
        assert "redirects are not followed" in message(answer)
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


def hang(exchange: Exchange) -> None:
    exchange.receiver.stopped.wait(10)


def drip_headers(exchange: Exchange) -> None:
    exchange.drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1_000, 0.05)


def drip_body(exchange: Exchange) -> None:
    exchange.send_response(200)
    exchange.send_header("Content-Length", "1000")
    exchange.end_headers()
    exchange.drip(b"a" * 1_000, 0.05)


def drip_chunks(exchange: Exchange) -> None:
    exchange.protocol_version = "HTTP/1.1"
    exchange.send_response(200)
    exchange.send_header("Transfer-Encoding", "chunked")
    exchange.end_headers()
    exchange.drip(b"1\r\na\r\n" * 500, 0.02)


def continue_for_ever(exchange: Exchange) -> None:
    exchange.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.01)


@pytest.mark.parametrize("respond", [hang, drip_headers, drip_body, drip_chunks, continue_for_ever])
def test_the_total_time_holds_for_servers_that_hang_or_drip(respond: Callable[[Exchange], None]) -> None:
    with receiving(respond) as receiver:
        started = time.monotonic()
        answer = call(receiver.url, timeout_seconds=1)
        elapsed = time.monotonic() - started
    assert (answer.status, code(answer), answer.retryable) == (ExecutionStatus.TIMED_OUT, "TIMEOUT", True)
    assert "1 s" in message(answer)
    assert 0.9 <= elapsed < 1.9


def test_a_tls_handshake_that_never_ends_is_within_the_total_time() -> None:
    def greet_slowly(connection: socket.socket, over: threading.Event) -> None:
        with contextlib.suppress(OSError):
            for byte in b"\x16\x03\x03\x40\x00\x02" + b"\x00" * 200:
                connection.sendall(bytes([byte]))
                if over.wait(0.05):
                    return

    with raw_server(greet_slowly) as port:
        started = time.monotonic()
        answer = call(f"https://127.0.0.1:{port}/", timeout_seconds=1)
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
    ended = threading.Event()

    def wait_for_the_end(connection: socket.socket, _over: threading.Event) -> None:
        connection.settimeout(10)
        while connection.recv(65_536):
            pass
        ended.set()

    with raw_server(wait_for_the_end) as port:
        assert call(f"http://127.0.0.1:{port}/", timeout_seconds=1).status is ExecutionStatus.TIMED_OUT
        assert ended.wait(1)


def test_a_server_that_reads_nothing_is_within_the_total_time() -> None:
    payload = json.dumps("x" * 30_000_000)
    with raw_server(lambda _, over: over.wait(10)) as port:
        answer = sender().call(invocation(payload, timeout_seconds=1), {"url": f"http://127.0.0.1:{port}/"})
    assert answer.status is ExecutionStatus.TIMED_OUT


def reset(connection: socket.socket, _over: threading.Event) -> None:
    connection.recv(65_536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def say(text: bytes) -> Callable[[socket.socket, threading.Event], None]:
    def serve(connection: socket.socket, _over: threading.Event) -> None:
        connection.recv(65_536)
        connection.sendall(text)

    return serve


@pytest.mark.parametrize(
    "serve",
    [
        reset,
        say(b""),
        say(b"SSH-2.0-OpenSSH_9.2\r\n"),
        say(b"HTTP/1.1 abc\r\n\r\n"),
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
        say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        say(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n"),
        say(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000 + b"\r\n\r\n"),
    ],
)
def test_broken_answers_are_network_errors(serve: Callable[[socket.socket, threading.Event], None]) -> None:
    with raw_server(serve) as port:
        answer = call(f"http://127.0.0.1:{port}/")
    assert (answer.status, code(answer), answer.retryable) == (ExecutionStatus.FAILED, "NETWORK_ERROR", True)
    assert f"http://127.0.0.1:{port}/" in message(answer)


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

    guard = AddressGuard(SimpleNamespace(unguarded_origins=()), resolve=unknown)
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
    assert "Evil" not in message(answer)
    assert receiver.requests == []


def test_the_first_address_that_answers_is_used() -> None:
    with receiving(lambda exchange: exchange.answer(200)) as receiver:

        class TwoAddresses:
            def destination(self, url: str) -> Destination:
                return Destination(url=parse_url(url), addresses=("::1", "127.0.0.1"))

        answer = sender(guard=TwoAddresses()).call(invocation(), {"url": f"http://hooks.test:{receiver.port}/"})
    assert answer.status is ExecutionStatus.COMPLETED
    assert receiver.requests[0].headers["host"] == f"hooks.test:{receiver.port}"


class TestTls:
    """A judged address is called under the URL's name: in SNI, certificate and Host."""

    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Path:
        return _self_signed(tmp_path / "hooks.pem", "hooks.test")

    @contextlib.contextmanager
    def server(self, certificate: Path) -> Iterator[tuple[int, list[str | None], list[bytes]]]:
        names: list[str | None] = []
        requests: list[bytes] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.sni_callback = lambda _sock, name, _context: names.append(name)

        def serve(connection: socket.socket, _over: threading.Event) -> None:
            with context.wrap_socket(connection, server_side=True) as secure:
                request = b""
                # Closing with a part unread would reset the connection, and the answer with it.
                while not request.endswith(b"}") and (part := secure.recv(65_536)):
                    request += part
                requests.append(request)
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        with raw_server(serve) as port:
            yield port, names, requests

    @staticmethod
    def call(port: int, host: str, trusted: Path | None) -> TargetAnswer:
        class Judged:
            def destination(self, url: str) -> Destination:
                return Destination(url=parse_url(url), addresses=("127.0.0.1",))

        tls = ssl.create_default_context(cafile=str(trusted)) if trusted else None
        return sender(guard=Judged(), tls=tls).call(invocation(), {"url": f"https://{host}:{port}/a"})

    def test_the_name_of_the_url_is_asked_for(self, certificate: Path) -> None:
        with self.server(certificate) as (port, names, requests):
            answer = self.call(port, "hooks.test", certificate)
        assert (answer.status, answer.result) == (ExecutionStatus.COMPLETED, "{}")
        assert names == ["hooks.test"]
        assert f"Host: hooks.test:{port}\r\n".encode() in requests[0]

    @pytest.mark.parametrize(("host", "trust"), [("other.test", True), ("hooks.test", False)])
    def test_a_certificate_of_another_name_or_authority_is_refused(
        self, certificate: Path, host: str, trust: bool
    ) -> None:
        with self.server(certificate) as (port, _, requests):
            answer = self.call(port, host, certificate if trust else None)
        assert (code(answer), answer.retryable) == ("NETWORK_ERROR", True)
        assert "certificate" in message(answer)
        assert requests == []


def _self_signed(path: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path

"""The table in docs/results.md, row by row: what the sender makes of each odd target is what the page says."""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from functions.adapters import http_connection
from functions.adapters.address_guard import AddressGuard
from functions.domain.outcome import TargetAnswer
from tests.factories import make_rules
from tests.support.odd_server import (
    Step,
    black_hole,
    drip,
    flood,
    half_close,
    odd_server,
    read_head,
    read_request,
    read_to_the_end,
    reset,
    self_signed,
    server_tls,
    wait,
)
from tests.support.pages import rows, section
from tests.support.sending import Addresses, code, invocation, sender

pytestmark = pytest.mark.usefixtures("loopback")

Play = Callable[[], TargetAnswer]

TABLE = {
    row[0]: row[1:]
    for row in rows(section("docs/results.md", "Answers of http targets"))
    if not row[0].startswith("**")
}
"""By what the target does: status, error, retried."""
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n" + b'{"a": 1}'
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
TEXT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = json.dumps({"a": "x" * 70_000}).encode()


def play_script(*script: Step, begin: Step = read_request, seconds: int = 5, payload: str = "{}") -> Play:
    """The sender's answer to a target that reads the request, unless it begins otherwise, and plays this."""

    def play() -> TargetAnswer:
        with odd_server(begin, *script) as server:
            return sender().call(invocation(payload, seconds), {"url": server.url})

    return play


def build_json(body: bytes, *, media_type: bytes = b"application/json", coding: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n" % media_type
    head += b"Content-Encoding: %b\r\n" % coding if coding else b""
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def build_answer(number: int, *headers: bytes, body: bytes = b"no\r\n") -> bytes:
    lines = [b"HTTP/1.1 %d Odd" % number, *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


def play_statuses(*numbers: int, headers: tuple[bytes, ...] = ()) -> list[Play]:
    return [play_script(build_answer(number, *headers)) for number in numbers]


def play_addresses(*addresses: str) -> Play:
    """The sender's answer where a name has these addresses: on 127.0.0.9 a good target listens, 127.0.0.8 drops
    packets, and others refuse the connection."""

    def play() -> TargetAnswer:
        with odd_server(read_request, OK, address="127.0.0.9") as good, black_hole("127.0.0.8", good.port):
            target = {"url": f"http://hooks.test:{good.port}/"}
            return sender(guard=Addresses(*addresses)).call(invocation(timeout_seconds=20), target)

    return play


def play_tls(*addresses: str, trusted: bool = True, wants_certificate: bool = False) -> Play:
    """The sender's answer where a name has these addresses: on 127.0.0.9 a target listens that speaks TLS, on 127.0.0.8
    one that does not."""

    def play() -> TargetAnswer:
        with tempfile.TemporaryDirectory() as folder:
            certificate = self_signed(Path(folder) / "hooks.pem", "hooks.test")
            context = server_tls(certificate)
            if wants_certificate:
                context.verify_mode = ssl.CERT_REQUIRED
            client = ssl.create_default_context(cafile=str(certificate) if trusted else None)
        other = (b"SSH-2.0-OpenSSH_9.2\r\n", read_to_the_end)
        with (
            odd_server(read_request, OK, tls=context, address="127.0.0.9") as good,
            odd_server(*other, address="127.0.0.8", port=good.port),
        ):
            target = {"url": f"https://hooks.test:{good.port}/"}
            return sender(guard=Addresses(*addresses), tls=client).call(invocation(), target)

    return play


def play_resolver(resolve: Callable[[str, int], list[str]]) -> Play:
    guard = AddressGuard(make_rules(unguarded_origins=("http://hooks.test:*",)), resolve=resolve)
    return lambda: sender(guard=guard).call(invocation(timeout_seconds=1), {"url": "http://hooks.test:80/"})


def fail_to_resolve(_host: str, _port: int) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def resolve_too_late(_host: str, _port: int) -> list[str]:
    threading.Event().wait(3)
    return ["127.0.0.1"]


def build_bomb(size: int) -> bytes:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return b"".join([packer.compress(b'{"a":"' + b"x" * size), packer.compress(b'"}'), packer.flush()])


def deflate_raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


ONE = b'{"a": 1}'
NAMED = '{"name": "Müller"}'
LONG_PAYLOAD = json.dumps("x" * 6_000_000)
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nX: y\r\n\r\n"

PLAYS: dict[str, list[Play]] = {
    # before the final status
    "sends `100`, `102` or `103`, once or several times, with or without headers, and then `200`": [
        play_script(b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
        play_script(b"HTTP/1.1 102 Processing\r\n\r\n", 0.05, OK),
        play_script(EARLY + OK),
        play_script(EARLY * 40, 0.05, b"HTTP/1.1 100\r\n\r\n" * 3, 0.05, OK),
        play_script(EARLY, OK, begin=read_head),
        play_script(b"\r\n\r\n" + EARLY + b"\r\n" + OK),
        play_script(EARLY.replace(b"\r\n", b"\n") + OK.replace(b"\r\n", b"\n")),
    ],
    "sends `103` and closes the connection": [play_script(EARLY), play_script(EARLY * 2, reset)],
    "sends `100` again and again until the time is over": [
        play_script(drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 99), seconds=1)
    ],
    "sends more than 1 MB of interim answers": [
        play_script(flood(EARLY * 100, 400)),
        play_script(b"HTTP/1.1 103\r\n", flood(b"A: b\r\n" * 1_000, 400)),
    ],
    "sends `101`, which nobody asked for": [
        play_script(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", wait)
    ],
    "sends `200` before it reads the request": [
        play_script(OK, read_to_the_end, begin=b"", payload=LONG_PAYLOAD),
        play_script(OK, begin=b""),
    ],
    "sends `413` before it reads the request, and never reads it, closes or resets the connection": [
        play_script(build_answer(413), wait, begin=b"", payload=LONG_PAYLOAD),
        play_script(build_answer(413), begin=read_head, payload=LONG_PAYLOAD),
        play_script(build_answer(413), begin=b""),
        play_script(build_answer(413), 0.1, reset, begin=read_head, payload=LONG_PAYLOAD),
    ],
    "sends nothing until the time is over, or never reads the request": [
        play_script(wait, seconds=1),
        play_script(wait, begin=b"", seconds=1, payload=LONG_PAYLOAD),
    ],
    "closes, half-closes or resets the connection without an answer": [
        play_script(),
        play_script(half_close, wait),
        play_script(reset),
        play_script(half_close, begin=read_head, payload=LONG_PAYLOAD),
        play_script(b"HTTP/1.1 20"),
    ],
    "sends something that is not HTTP/1": [
        play_script(text, wait)
        for text in (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/1.1 099 Low\r\n\r\n",
            b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\n",
            b"<html>\n",
        )
    ],
    # status
    "answers `301`, `302`, `303`, `307` or `308`: redirects are not followed": play_statuses(
        301, 302, 303, 307, 308, headers=(b"Location: https://elsewhere.test/",)
    ),
    "answers `300`, `304` or any other 3xx, with or without `Location`": [
        *play_statuses(300, 301, 302, 304, 305, 306, 307, 399),
        *play_statuses(300, 304, 399, headers=(b"Location: /",)),
    ],
    "answers `400`, `401`, `404`, `409`, `410`, `422` or any other 4xx that is not in the next row": play_statuses(
        400, 401, 403, 404, 405, 409, 410, 411, 413, 418, 422, 423, 424, 426, 451, 499
    ),
    "answers `408`, `425` or `429`": play_statuses(408, 425, 429, headers=(b"Retry-After: 6",)),
    "answers `500`, `502`, `503`, `504` or any other 5xx": play_statuses(
        500, 501, 502, 503, 504, 505, 507, 520, 599, headers=(b"Retry-After: 6",)
    ),
    # headers
    "answers `200` with hundreds of headers, very long ones, folded ones, or lines that are not headers": [
        play_script(b"HTTP/1.1 200 OK\r\n" + head + OK.partition(b"\r\n")[2])
        for head in (
            b"".join(b"X-%d: y\r\n" % number for number in range(120)),
            b"Set-Cookie: a=b\r\n" * 900,
            b"A: " + b"b" * 200_000 + b"\r\n",
            b"A: b\r\n\tc\r\n  d\r\n",
            b"no header\r\n: nothing\r\n\xff\xfe: \x00\r\nA\r\n",
            b" folded from nothing\r\n",
        )
    ]
    + [
        play_script(b"HTTP/1.1 200 " + b"k" * 100_000 + OK.partition(b"OK")[2]),
        play_script(b"HTTP/1.1 200" + OK.partition(b"OK")[2]),
    ],
    "answers `200` with more than 1 MB of headers": [play_script(JSON_HEAD, flood(b"A: b\r\n" * 1_000, 400), OK)],
    "answers `200`, and the connection ends within the headers": [
        play_script(JSON_HEAD),
        play_script(b"HTTP/1.1 200 OK\r\n"),
        play_script(JSON_HEAD + b"Content-Le", reset),
        play_script(JSON_HEAD, drip(b"A: " + b"b" * 999), seconds=1),
    ],
    "answers `404`, and the connection ends within the headers": [
        play_script(b"HTTP/1.1 404 Not Found\r\n"),
        play_script(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5", reset),
    ],
    # body
    "answers `200` and leaves the connection open after the last byte of the body": [
        play_script(OK, wait),
        play_script(JSON_HEAD + b"Connection: keep-alive\r\n" + CHUNKED + b"8\r\n" + ONE + b"\r\n0\r\n\r\n", wait),
        play_script(TEXT_HEAD + b"Content-Length: 0\r\n\r\n", wait),
    ],
    "answers `200` in chunks, with trailers, broken trailers or none": [
        play_script(JSON_HEAD + CHUNKED + b'3;a=b\r\n{"a\r\n005 \r\n": 1}\r\n0\r\n' + trailers, *more)
        for trailers, *more in (
            [b"\r\n"],
            [b"Checksum: 1\r\nOther: 2\r\n\r\n"],
            [b"no trailer\xff\r\n\x00"],
            [b"A: " + b"b" * 100_000],
            [b""],
            [b"", reset],
            [b"", wait],
        )
    ],
    "answers `204` or `205` and sends a body all the same": [
        play_script(
            b"HTTP/1.1 %d Odd\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n" % number + ONE, wait
        )
        for number in (204, 205)
    ],
    "answers `200` with declared JSON, and the body ends too early: by its `Content-Length`, by its chunks, "
    "by a reset, or by the attempt's time": [
        play_script(JSON_HEAD + b"Content-Length: 10\r\n\r\n" + b'{"a": 1'),
        play_script(JSON_HEAD + b"Content-Length: 10\r\n\r\n" + ONE),
        play_script(JSON_HEAD + b"Content-Length: 10\r\n\r\n"),
        play_script(JSON_HEAD + b"Content-Length: 10\r\n\r\n" + b"12", 0.05, reset),
        play_script(JSON_HEAD + CHUNKED + b'5\r\n{"a'),
        play_script(JSON_HEAD + CHUNKED + b'8\r\n{"a": 1}\r\n'),
        play_script(JSON_HEAD + CHUNKED + b'8\r\n{"a": 1}\r\nzz\r\n0\r\n\r\n'),
        play_script(JSON_HEAD + CHUNKED + b'7\r\n{"a": 1}\r\n0\r\n\r\n'),
        play_script(JSON_HEAD + CHUNKED + b"-8\r\n" + ONE + b"\r\n0\r\n\r\n"),
        play_script(JSON_HEAD + b"\r\n" + ONE, 0.05, reset),
        play_script(JSON_HEAD + b"Content-Length: 1000\r\n\r\n", drip(b"[" + b"1," * 499), seconds=1),
        play_script(JSON_HEAD + CHUNKED, drip(b"1\r\n1\r\n" * 500), seconds=1),
        play_script(JSON_HEAD + b"\r\n1", wait, seconds=1),
    ],
    "answers `200` with text, and the body ends too early": [
        play_script(TEXT_HEAD + b"Content-Length: 10\r\n\r\nabc"),
        play_script(TEXT_HEAD + CHUNKED + b"3\r\nabc\r\nzz\r\n"),
        play_script(TEXT_HEAD + b"\r\nabc", 0.05, reset),
        play_script(TEXT_HEAD + b"Content-Length: 10\r\n\r\n", drip(b"a" * 999), seconds=1),
    ],
    "answers `200` with declared JSON of more than 32 768 bytes, or without an end": [
        play_script(build_json(json.dumps("x" * 32_767).encode())),
        play_script(build_json(LARGE)),
        play_script(JSON_HEAD + b"\r\n[", flood(b"1," * 1_000, 10_000)),
        play_script(JSON_HEAD + CHUNKED, flood(b"3e8\r\n" + b"1," * 500 + b"\r\n", 10_000)),
    ],
    "answers `200` with text without an end": [play_script(TEXT_HEAD + b"\r\n", flood(b"x" * 10_000, 10_000))],
    "answers `404`, and the body ends too early or has broken chunks": [
        play_script(b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nno"),
        play_script(b"HTTP/1.1 404 Not Found\r\n" + CHUNKED + b"zz\r\n"),
        play_script(b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\n", wait),
        play_script(b"HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
    ],
    "answers `503` with `Retry-After`, and the body ends too early or never": [
        play_script(b"HTTP/1.1 503 Busy\r\nRetry-After: 6\r\nContent-Length: 99\r\n\r\nno"),
        play_script(b"HTTP/1.1 503 Busy\r\nRetry-After: 6\r\nContent-Length: 99\r\n\r\nno", 0.05, reset),
        play_script(b"HTTP/1.1 503 Busy\r\nRetry-After: 6\r\n" + CHUNKED, drip(b"1\r\na\r\n" * 500)),
        play_script(b"HTTP/1.1 503 Busy\r\nRetry-After: 6\r\n\r\n", flood(b"x" * 10_000, 10_000)),
        play_script(b"HTTP/1.1 503 Busy\r\n" + b"A: b\r\n" * 300 + b"Retry-After: 6\r\n\r\n"),
    ],
    # coding and characters
    "answers `200` with JSON in `gzip` or `deflate`, also in several parts or one in the other": [
        play_script(build_json(gzip.compress(ONE), coding=b"gzip")),
        play_script(build_json(gzip.compress(ONE), coding=b"X-GZIP")),
        play_script(build_json(zlib.compress(ONE), coding=b"deflate")),
        play_script(build_json(deflate_raw(ONE), coding=b"deflate")),
        play_script(build_json(gzip.compress(ONE[:3]) + gzip.compress(ONE[3:]), coding=b"gzip")),
        play_script(build_json(gzip.compress(zlib.compress(ONE)), coding=b"deflate, gzip")),
        play_script(build_json(gzip.compress(zlib.compress(ONE)), coding=b"deflate\r\nContent-Encoding: gzip")),
        play_script(build_json(ONE, coding=b"identity")),
        play_script(JSON_HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + gzip.compress(ONE)),
        play_script(build_json(gzip.compress(ONE) + b"\0" * 9, coding=b"gzip")),
    ],
    "answers `200` with JSON in another coding, in more than three, or in broken or unfinished `gzip`": [
        play_script(build_json(ONE, coding=b"br")),
        play_script(build_json(ONE, coding=b"zstd, gzip")),
        play_script(build_json(ONE, coding=b", ".join([b"gzip"] * 4_000))),
        play_script(build_json(b"\x1f\x8b not", coding=b"gzip")),
        play_script(build_json(ONE, coding=b"gzip")),
        play_script(build_json(ONE, coding=b"deflate")),
        play_script(build_json(gzip.compress(ONE)[:-4], coding=b"gzip")),
        play_script(build_json(gzip.compress(ONE)[:-8] + b"\0" * 8, coding=b"gzip")),
    ],
    "answers `200` with a few KB of `gzip` that unpack to more than 65 536 bytes of JSON": [
        play_script(build_json(build_bomb(50_000_000), coding=b"gzip")),
        play_script(build_json(gzip.compress(build_bomb(50_000_000)), coding=b"gzip, gzip")),
        play_script(build_json(build_bomb(65_536 - 7), coding=b"gzip")),
    ],
    "answers `200` with JSON in the character set that it declares, with or without a byte order mark": [
        play_script(build_json(NAMED.encode(encoding), media_type=b"application/json; charset=" + charset))
        for encoding, charset in (
            ("latin-1", b"iso-8859-1"),
            ("latin-1", b'"ISO-8859-1"'),
            ("cp1252", b"windows-1252; a=b"),
            ("utf-16", b"utf-16"),
            ("utf-16-le", b"UTF-16LE"),
            ("utf-16-be", b"utf-16"),
            ("utf-32", b"utf-32"),
            ("utf-8-sig", b"utf-8"),
            ("utf-8", b"UTF8"),
            ("utf-16", b""),
            ("gb18030", b"gb18030"),
        )
    ]
    + [
        play_script(
            build_json(gzip.compress(NAMED.encode("latin-1")), media_type=b"a/b+json;charset=latin1", coding=b"gzip")
        )
    ],
    "answers `200` with JSON in an unknown character set, or with bytes that are not of the declared one": [
        play_script(build_json(NAMED.encode("latin-1"), media_type=b"application/json" + charset))
        for charset in (b"", b"; charset=utf-8", b"; charset=us-ascii", b"; charset=klingon", b"; charset=idna")
    ],
    "answers `200` with declared JSON that is not JSON, or that JSON cannot carry (`NaN`, `1e400`, over 100 levels)": [
        play_script(build_json(body))
        for body in (
            b"OK",
            b"{'a': 1}",
            b'{"a": 1',
            b"[NaN]",
            b"1e400",
            b"[" * 101 + b"]" * 101,
            b"[" * 30_000,
            b"9" * 5_000,
            b'"\\ud800"',
            b"x" * 40_000,
        )
    ],
    "answers `200` with an empty body, whatever it declares": [
        play_script(build_json(b"")),
        play_script(build_json(b" \r\n")),
        play_script(build_json(b"", coding=b"gzip")),
        play_script(JSON_HEAD + CHUNKED + b"0\r\n\r\n"),
        play_script(JSON_HEAD + b"\r\n"),
    ],
    # connection
    "has several addresses, of which the first ones refuse the connection, drop packets or fail in TLS": [
        play_addresses("127.0.0.7", "127.0.0.9"),
        play_addresses("::1", "127.0.0.9"),
        play_addresses("127.0.0.8", "127.0.0.9"),
        play_addresses("127.0.0.8", "127.0.0.7", "127.0.0.8", "127.0.0.9"),
        play_addresses("127.0.0.8", "::1", "127.0.0.9"),
        play_tls("127.0.0.8", "127.0.0.9"),
    ],
    "has only addresses that refuse the connection or drop packets": [
        play_addresses("127.0.0.7"),
        play_addresses("127.0.0.8", "::1"),
    ],
    "sends a TLS alert, speaks no TLS, or has a certificate that is not trusted": [
        play_tls("127.0.0.9", wants_certificate=True),
        play_tls("127.0.0.9", trusted=False),
        play_tls("127.0.0.8"),
    ],
    "has a name that cannot be resolved": [play_resolver(fail_to_resolve), play_resolver(lambda _host, _port: [])],
    "has a name that is not resolved until the time is over": [play_resolver(resolve_too_late)],
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "CONNECT_SECONDS", 1.6)
    monkeypatch.setattr(http_connection, "REFUSAL_SECONDS", 0.3)


RESULTS = {
    "sends `100`, `102` or `103`, once": '{"a":1}',
    "sends `200` before it reads": '{"a":1}',
    "answers `200` with hundreds of headers": '{"a":1}',
    "answers `200` in chunks": '{"a":1}',
    "answers `200` with JSON in `gzip` or `deflate`": '{"a":1}',
    "answers `200` with JSON in the character set": '{"name":"Müller"}',
    "has several addresses": '{"a":1}',
}
"""What is kept of answers by what their row begins with. Of others with an error nothing is."""


def test_every_row_is_played() -> None:
    assert list(PLAYS) == list(TABLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "number"), [(what, number) for what, plays in PLAYS.items() for number in range(len(plays))]
)
def test_an_answer_means_what_the_page_says(what: str, number: int) -> None:
    answer = PLAYS[what][number]()

    status_, error, retried = TABLE[what]
    assert answer.status.value == status_
    assert re.fullmatch("None" if error == "–" else error.replace("xx", r"\d\d"), str(code(answer))), answer.error
    kept = next((kept for begin, kept in RESULTS.items() if what.startswith(begin)), None)
    assert answer.result == kept or (kept is None and error == "–")
    if retried != "–":
        assert answer.retryable is retried.startswith("yes")
        assert answer.retry_after == (6 if "Retry-After" in retried else None)

"""Random answers over real connections: interim answers, headers, codings, character sets, framings, lengths, cuts."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.adapters import http_connection
from functions.domain.execution import ExecutionStatus
from tests.support.odd_server import odd_server, read_request
from tests.support.sending import code, invocation, sender

pytestmark = pytest.mark.usefixtures("loopback")

CODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate, gzip": lambda data: gzip.compress(zlib.compress(data)),
}
FINAL = [200, 201, 202, 299, 301, 304, 400, 404, 410, 425, 429, 500, 503, 599]
RETRIED = {425, 429, 500, 503, 599}


@dataclass(frozen=True)
class Answer:
    status: int
    value: object
    sent: list[bytes]
    """As it leaves, in these parts."""
    is_whole: bool


def add_headers(draw: st.DrawFn, most: int) -> bytes:
    line = draw(st.sampled_from([b"X: y", b"Link: </a>; rel=preload", b"A: " + b"b" * 5_000, b"odd", b"\xff: \x00"]))
    return (line + b"\r\n") * draw(st.integers(0, most))


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    text = b""
    for number in draw(st.lists(st.integers(100, 199).filter(lambda one: one != 101), max_size=6)):
        text += b"HTTP/1.1 %d Interim\r\n%b\r\n" % (number, add_headers(draw, 10))
    status = draw(st.sampled_from(FINAL))
    charset = draw(st.sampled_from(["utf-8", "iso-8859-1", "utf-16", "windows-1252"]))
    name = draw(st.text(st.characters(max_codepoint=126, min_codepoint=32) | st.sampled_from("äöü"), max_size=2_000))
    value = {"n": draw(st.integers()), "name": name}
    coding = draw(st.sampled_from(list(CODERS)))
    body = CODERS[coding](json.dumps(value, ensure_ascii=False).encode(charset))
    head = f"HTTP/1.1 {status} Odd\r\nContent-Type: application/json; charset={charset}\r\n".encode()
    head += f"Content-Encoding: {coding}\r\nRetry-After: 6\r\n".encode()
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if framing == "length":
        head, content = head + b"Content-Length: %d\r\n" % len(body), body
    elif framing == "chunked":
        size = draw(st.integers(1, len(body)))
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        content = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n"
        head, content = (
            head + b"Transfer-Encoding: chunked\r\n",
            content + draw(st.sampled_from([b"\r\n", b"", b"A\r\n"])),
        )
    else:
        content = body
    # Where the connection ends the body, only its coding or its JSON shows a cut: some of it has to be there.
    missing = draw(st.sampled_from([0, 0, draw(st.integers(4, len(content) - 1))])) if len(content) > 4 else 0
    content = content[: len(content) - missing]
    text += head + add_headers(draw, 150) + b"\r\n" + content
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    places = [0, *cuts, len(text)]
    return Answer(status, value, [text[start:end] for start, end in itertools.pairwise(places)], not missing)


@pytest.mark.slow
@settings(max_examples=150)
@given(answers())
def test_a_final_status_decides_and_json_is_what_was_sent_or_nothing(answer: Answer) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_connection, "REFUSAL_SECONDS", 0.2)
        with odd_server(read_request, *answer.sent) as server:
            outcome = sender().call(invocation(), {"url": server.url})
    if answer.status >= 300:
        assert (outcome.status, code(outcome)) == (ExecutionStatus.FAILED, f"HTTP_{answer.status}")
        assert (outcome.retryable, outcome.retry_after) == (answer.status in RETRIED, 6)
        return
    assert outcome.status is ExecutionStatus.COMPLETED
    if answer.is_whole:
        assert outcome.error is None
        assert json.loads(outcome.result or "") == answer.value
    else:
        assert (outcome.result, code(outcome)) == (None, "RESULT_UNREADABLE")

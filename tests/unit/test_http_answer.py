"""The reader of answers, without a connection: random answers, cut and split anywhere."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functions.adapters import http_answer
from functions.adapters.http_answer import LINE_BYTES, LINES_BYTES, RESPONSE_BYTES, AnswerReader, NotHttpError
from functions.domain.result import Extent


@dataclass(frozen=True)
class Answer:
    """An answer as it is sent, and what is in it."""

    interim: bytes
    status: int
    headers: bytes
    """The status line and all headers, with the empty line."""
    content: bytes
    """As it is framed."""
    body: bytes
    ends_by_itself: bool

    @property
    def text(self) -> bytes:
        return self.interim + self.headers + self.content


OTHER = frozenset({101, 204, 205, 304})
LINE = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
NAMES = st.sampled_from(
    [b"Link", b"Set-Cookie", b"X-\xff", b"Content-Type", b"Retry-After", b"Date", b"no header here"]
)
HEADER = st.one_of(
    st.tuples(NAMES, LINE).map(b": ".join), LINE.map(lambda line: b"X" + line), LINE.map(lambda line: b"\t" + line)
)


def headed(line: bytes, headers: list[bytes], end: bytes) -> bytes:
    return end.join([line, *headers, b"", b""])


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    end = draw(st.sampled_from([b"\r\n", b"\n"]))
    reason = draw(st.sampled_from([b"", b" ", b" OK", b" M\xfcde", b" 500 Really"]))
    interim = b""
    for number in draw(st.lists(st.integers(100, 199).filter(lambda one: one != 101), max_size=5)):
        interim += headed(b"HTTP/1.1 %d%b" % (number, reason), draw(st.lists(HEADER, max_size=5)), end)
    status = draw(st.integers(200, 599).filter(lambda one: one not in OTHER))
    body = draw(st.binary(max_size=300))
    headers = [
        header
        for header in draw(st.lists(HEADER, max_size=4)) * draw(st.integers(1, 40))
        if header.lower().split(b":")[0].strip() not in (b"content-length", b"transfer-encoding")
    ]
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    content = body
    if framing == "length":
        headers.append(b"content-LENGTH:%d" % len(body))
    elif framing == "chunked":
        headers.append(b"Transfer-Encoding: Chunked")
        content, left = b"", body
        while left:
            size = draw(st.integers(1, len(left)))
            extension = draw(st.sampled_from([b"", b";a=b", b" ", b" ;c"]))
            content, left = content + b"%x%b%b%b%b" % (size, extension, end, left[:size], end), left[size:]
        content += b"0" + end
    return Answer(
        interim, status, headed(b"HTTP/1.1 %d%b" % (status, reason), headers, end), content, body, framing != "close"
    )


def read(text: bytes, cuts: list[int] | None = None, *, cleanly: bool = True) -> AnswerReader:
    reader = AnswerReader()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts or [])})
    for start, end in itertools.pairwise(places):
        reader.feed(text[start:end])
    reader.end(cleanly=cleanly)
    return reader


@given(answers(), st.lists(st.integers(0, 100_000), max_size=20), st.binary(max_size=50))
def test_an_answer_is_read_alike_however_it_is_split_and_whatever_follows(
    answer: Answer, cuts: list[int], more: bytes
) -> None:
    text = answer.text + more * answer.ends_by_itself
    reader = read(text, cuts, cleanly=not answer.ends_by_itself)
    assert (reader.status, bytes(reader.body), reader.extent) == (answer.status, answer.body, Extent.WHOLE)
    assert reader.is_over


@pytest.mark.slow
@given(answers(), st.data())
def test_a_final_status_that_has_come_stays(answer: Answer, data: st.DataObject) -> None:
    """Whatever comes behind its line, in the place of what should."""
    line = answer.headers.index(b"\n") + 1
    kept = data.draw(st.integers(0, len(answer.headers) - line))
    text = answer.interim + answer.headers[: line + kept] + data.draw(st.binary(max_size=200))
    reader = read(text, cleanly=data.draw(st.booleans()))
    assert reader.status == answer.status
    assert reader.is_over


@given(answers(), st.data())
def test_a_body_that_is_cut_is_known_to_be_and_is_the_beginning(answer: Answer, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, max(0, len(answer.content) - 1)))
    reader = read(answer.interim + answer.headers + answer.content[:kept], cleanly=False)
    assert reader.status == answer.status
    assert answer.body.startswith(bytes(reader.body))
    if kept < len(answer.content) - 2 or not answer.ends_by_itself:  # the line end of the last chunk says nothing
        assert reader.extent is Extent.CUT


@given(st.binary(max_size=300).map(lambda data: b"HTTP/1." * (len(data) % 2) + data))
@example(b"HTTP/1.1 200")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\nab")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\nContent-Length: 1\r\n\r\nab")
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 5_000 + b"\r\nab")
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\nab")
@example(b"HTTP/1.1 200 OK\r\n: a\r\n b\r\n\r\n")
def test_nothing_that_comes_is_an_unforeseen_error(data: bytes) -> None:
    with contextlib.suppress(NotHttpError):
        read(data)


@pytest.mark.parametrize(
    ("length", "body", "extent"),
    [
        (b"2", b"ab", Extent.WHOLE),
        (b"0", b"", Extent.WHOLE),
        (b"002", b"ab", Extent.WHOLE),
        (b"2, 2", b"ab", Extent.WHOLE),
        (b"9", b"abcdef", Extent.CUT),
        (b"9" * 5_000, b"abcdef", Extent.CUT),
        (b"two", b"abcdef", Extent.WHOLE),
        (b"-2", b"abcdef", Extent.WHOLE),
        (b"", b"abcdef", Extent.WHOLE),
    ],
)
def test_a_length_that_makes_no_sense_is_none(length: bytes, body: bytes, extent: Extent) -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\nabcdef")
    assert (bytes(reader.body), reader.extent) == (body, extent)


@pytest.mark.parametrize("chunks", [b"2\r\nabc\r\n0\r\n\r\n", b"2\r\nabx\r\n0\r\n\r\n", b"2\r\nab0\r\n\r\n"])
def test_a_chunk_of_another_length_ends_the_reading(chunks: bytes) -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert (reader.status, bytes(reader.body), reader.extent) == (200, b"ab", Extent.CUT)


@pytest.mark.parametrize(
    ("headers", "codings"),
    [
        (b"", []),
        (b"Content-Encoding: GZIP\r\n", ["gzip"]),
        (b"Content-Encoding: deflate , gzip\r\n", ["deflate", "gzip"]),
        (b"Content-Encoding: deflate\r\nX: y\r\nContent-Encoding: gzip\r\n", ["deflate", "gzip"]),
        (b"Content-Encoding: deflate\r\nTransfer-Encoding: gzip, chunked\r\n", ["deflate", "gzip"]),
        (b"Content-Encoding: identity\r\nTransfer-Encoding: identity\r\n", []),
        (b"Content-Encoding:\r\n br\r\n", ["br"]),
    ],
)
def test_codings_are_listed_from_the_inside_out(headers: bytes, codings: list[str]) -> None:
    assert read(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n").codings == codings


@pytest.mark.slow
@pytest.mark.parametrize(
    "endless",
    [
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n", b" a,\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 1_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"a" * 100 + b"\r\nb\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 1_000),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"b" * 1_000),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", b"b" * 1_000),
    ],
)
def test_reading_ends_and_takes_little_memory(endless: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    begin, part = endless
    limit = 200_000
    monkeypatch.setattr(http_answer, "LINES_BYTES", limit)
    tracemalloc.start()
    reader, fed = AnswerReader(), 0
    reader.feed(begin)
    while not reader.is_over:
        reader.feed(part * 50)
        fed += len(part) * 50
        assert fed < 2 * (limit + RESPONSE_BYTES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.extent is not Extent.WHOLE
    assert len(reader.body) <= RESPONSE_BYTES
    assert all(len(value) <= 2 * LINE_BYTES for value in reader.headers.values())
    assert peak < 500_000


@pytest.mark.slow
@pytest.mark.parametrize("part", [b"HTTP/1.1 103 Early\r\n\r\n", b"\r\n", b"HTTP/1.1 100\r\n" + b"A: b\r\n" * 40])
def test_interim_answers_without_an_end_are_no_answer(part: bytes) -> None:
    with pytest.raises(NotHttpError, match="no final status"):
        read(part * (2 * LINES_BYTES // len(part)))

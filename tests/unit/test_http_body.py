"""Bodies without their codings, as text: all that can be read, within limits, and no other value for the rest."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.adapters.http_answer import RESPONSE_BYTES
from functions.adapters.http_body import decode_body, is_json, read_text
from functions.domain.result import Extent, ResultUnreadableError, kept_result


def deflate_raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def compress_in_parts(data: bytes) -> bytes:
    """Several members, as `gzip` makes of files that are appended to each other."""
    return b"".join(gzip.compress(data[at : at + 50]) for at in range(0, len(data), 50)) or gzip.compress(b"")


CODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", compress_in_parts),
    ("deflate", zlib.compress),
    ("deflate", deflate_raw),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
UNICODE = st.sampled_from(
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)


@given(st.binary(max_size=2_000), st.lists(st.sampled_from(CODERS), max_size=3))
def test_what_was_coded_comes_back(data: bytes, coders: list[tuple[str, Callable[[bytes], bytes]]]) -> None:
    body = data
    for _, code in coders:
        body = code(body)
    assert decode_body(body, [name for name, _ in coders], Extent.WHOLE) == (data, Extent.WHOLE)


@given(st.binary(min_size=1, max_size=500), st.sampled_from(CODERS), st.data())
def test_a_coded_body_that_is_cut_is_its_beginning_and_known_to_be_cut(
    data: bytes, coder: tuple[str, Callable[[bytes], bytes]], drawn: st.DataObject
) -> None:
    name, code = coder
    body = (gzip.compress if name == "x-gzip" else code)(data)
    body = body[: drawn.draw(st.integers(1, len(body) - 1))]
    with contextlib.suppress(ResultUnreadableError):
        beginning, extent = decode_body(body, [name], Extent.WHOLE)
        assert extent is Extent.CUT
        assert data.startswith(beginning)


@given(st.binary(max_size=300), st.lists(st.sampled_from(["gzip", "deflate"]), min_size=1, max_size=3))
def test_what_was_never_coded_is_unreadable_or_nothing(data: bytes, codings: list[str]) -> None:
    with contextlib.suppress(ResultUnreadableError):
        body, _ = decode_body(data, codings, Extent.WHOLE)
        assert len(body) <= RESPONSE_BYTES


@pytest.mark.parametrize("codings", [["br"], ["zstd", "gzip"], ["gzip", "gzip", "gzip", "gzip"], ["gzip", "compress"]])
def test_other_codings_are_unreadable(codings: list[str]) -> None:
    with pytest.raises(ResultUnreadableError, match=r"gzip and deflate can be read|4 times over"):
        decode_body(gzip.compress(b"{}"), codings, Extent.WHOLE)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_bomb_takes_little_memory_and_time(layers: int) -> None:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    body = b"".join(packer.compress(b" " * 1_000_000) for _ in range(200)) + packer.flush()
    for _ in range(layers - 1):
        body = gzip.compress(body, 9)
    body = body[:RESPONSE_BYTES]
    tracemalloc.start()
    started = time.process_time()
    unpacked, extent = decode_body(body, ["gzip"] * layers, Extent.WHOLE)
    elapsed = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert extent is Extent.LONGER
    assert len(unpacked) == RESPONSE_BYTES
    assert peak < 2_000_000
    assert elapsed < 1


def test_very_many_empty_parts_take_little_time() -> None:
    body = (gzip.compress(b"") * 4_000)[:RESPONSE_BYTES]
    started = time.process_time()
    assert decode_body(body, ["gzip"], Extent.LONGER) == (b"", Extent.LONGER)
    assert time.process_time() - started < 1


@given(JSON, UNICODE, st.sampled_from(["", "; charset=utf-8", '; charset="UTF-16"', "; a=b; CHARSET = utf-32"]))
def test_json_in_any_form_of_unicode_is_read_as_what_it_is(value: object, encoding: str, charset: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    body = text.encode(encoding)
    read = kept_result(read_text(body, f"application/json{charset}", strict=True), declared=True)
    assert read == kept_result(text, declared=True)


@given(
    st.text(), st.sampled_from(["iso-8859-1", "windows-1252", "koi8-r", "Shift_JIS", "euc-kr", "gb18030", "us-ascii"])
)
def test_json_in_other_character_sets_is_what_was_written_or_refused(text: str, charset: str) -> None:
    body = json.dumps([text], ensure_ascii=False).encode(charset, "ignore")
    written = body.decode(charset)
    assert read_text(body, f"application/json; charset={charset}", strict=True) == written


@given(st.binary(max_size=200), st.text(max_size=60))
def test_no_body_and_no_declaration_is_an_unforeseen_error(body: bytes, content_type: str) -> None:
    declared = f"application/json; charset={content_type}"
    assert isinstance(read_text(body, declared, strict=False), str)
    with contextlib.suppress(ResultUnreadableError):
        read_text(body, declared, strict=True)


@pytest.mark.parametrize(
    "charset", ["idna", "punycode", "unicode_escape", "rot13", "hex", "zip", "undefined", "klingon"]
)
def test_what_is_no_character_set_is_not_used(charset: str) -> None:
    content_type = f"text/plain; charset={charset}"
    assert read_text("Mü".encode(), content_type, strict=False) == "Mü"
    with pytest.raises(ResultUnreadableError, match=f"character set {charset} is unknown"):
        read_text(b"{}", content_type, strict=True)


@pytest.mark.parametrize(
    ("content_type", "declares"),
    [
        ("application/json", True),
        (" Application/JSON ; charset=utf-8", True),
        ("application/problem+json", True),
        ("application/vnd.a.b+JSON;q=1", True),
        ("application/jsonlines", False),
        ("application/json-seq", False),
        ("text/json+html", False),
        ("text/plain; a=application/json", False),
        ("", False),
        (";", False),
    ],
)
def test_json_is_declared_by_the_media_type(content_type: str, declares: bool) -> None:
    assert is_json(content_type) is declares

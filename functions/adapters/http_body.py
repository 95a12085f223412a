"""Makes text of an answer's body: takes its codings off, within limits, and reads its characters as declared."""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Sequence

from functions.adapters.http_answer import RESPONSE_BYTES
from functions.domain.result import Extent, ResultUnreadableError

CODINGS = 3
"""Most codings, one in the other."""

_GZIP = b"\x1f\x8b"
_MEDIA_TYPE = re.compile(r"[ \t]*([^ \t;]*)")
_CHARSET = re.compile(r";[ \t]*charset[ \t]*=[ \t]*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_READABLE = re.compile(
    r"ascii|utf-8|utf-(16|32)(-[bl]e)?|iso8859-\d+|cp125\d|cp932|cp949|koi8-[ru]|mac-roman|tis-620"
    r"|shift_jis|euc_(jp|kr)|iso2022_jp|big5|gb2312|gbk|gb18030"
)
"""Python's names of the character sets that are read, all of them in linear time (unlike `idna` and `punycode`)."""


def is_json(content_type: str) -> bool:
    """Whether a media type declares JSON (RFC 6839, section 3.1)."""
    match = _MEDIA_TYPE.match(content_type)
    media_type = "" if match is None else match[1].lower()
    return media_type == "application/json" or media_type.endswith("+json")


def decode_body(body: bytes, codings: Sequence[str], extent: Extent) -> tuple[bytes, Extent]:
    """The first 64 KB of a body without its codings, of which the innermost comes first.

    Raises ResultUnreadableError for codings other than gzip and deflate, more than three, and data that are neither.
    """
    if len(codings) > CODINGS:
        raise ResultUnreadableError(f"it is coded {len(codings)} times over")
    for coding in reversed(codings):
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise ResultUnreadableError(f"it is coded as {coding[:40]}; gzip and deflate can be read")
        if body:
            body, extent = _inflate(body, coding, extent)
    return body, extent


def read_text(body: bytes, content_type: str, *, strict: bool) -> str:
    """A body as text in the character set of its Content-Type: UTF-8 where it names none, or none that is known.

    With `strict` the body is JSON: one in UTF-8, UTF-16 or UTF-32 tells by its first characters which, and
    ResultUnreadableError is raised for an unknown character set, and for bytes that are not of it.
    """
    match = _CHARSET.search(content_type)
    declared = "utf-8" if match is None else match[1]
    charset = _find_charset(declared)
    if not strict:
        return body.decode(charset or "utf-8", "replace").removeprefix("\ufeff")
    if charset is None:
        raise ResultUnreadableError(f"its character set {declared} is unknown")
    if charset.startswith("utf-"):
        charset = json.detect_encoding(body)
    try:
        return body.decode(charset).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise ResultUnreadableError(f"its bytes are not {charset}") from None


def _find_charset(name: str) -> str | None:
    """Python's name of a character set; None for one that is unknown, or not read."""
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return None
    return known if _READABLE.fullmatch(known) else None


def _inflate(body: bytes, coding: str, extent: Extent) -> tuple[bytes, Extent]:
    rest, result = body, bytearray()
    while True:
        stream = zlib.decompressobj(_window(coding, rest))
        try:
            result += stream.decompress(rest, RESPONSE_BYTES + 1 - len(result))
        except zlib.error:
            raise ResultUnreadableError(f"its {coding} is broken") from None
        rest = stream.unused_data
        if not stream.eof or len(result) > RESPONSE_BYTES or not rest.startswith(_GZIP):
            break
    if len(result) > RESPONSE_BYTES:
        del result[RESPONSE_BYTES:]
        return bytes(result), Extent.LONGER
    if not stream.eof and extent is Extent.WHOLE:
        extent = Extent.CUT
    return bytes(result), extent


def _window(coding: str, data: bytes) -> int:
    """How zlib is told what it reads. By `deflate` some send zlib's format, as they should, others what is inside."""
    if coding != "deflate":
        return zlib.MAX_WBITS | 16
    has_header = len(data) > 1 and data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS

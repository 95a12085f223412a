"""Reads an HTTP/1 answer as it arrives (RFC 9112): its final status, a few headers, the beginning of its body.

The final status counts whatever comes before or after it (docs/decisions/0060-the-final-status-decides.md): interim
answers are passed over, limits cut what is too long, and an error behind the status line only ends the reading.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator

from functions.domain.result import Extent

RESPONSE_BYTES = 65_536
"""How much of a body is read."""
LINE_BYTES = 16_384
"""How much of a line is looked at: of the status line, a header, the size of a chunk. The rest is passed over."""
LINES_BYTES = 1_048_576
"""How much is read in lines, of interim answers and chunks too. After that nothing more is read."""

_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t]+(.*))?", re.DOTALL)
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?", re.DOTALL)
_SWITCHING = b"101"
"""The one status below 200 that no other answer follows: what comes then is not HTTP any more."""
_LENGTH = re.compile(r"(\d+)\s*(?:,.*)?")
_WITHOUT_BODY = frozenset({101, 204, 205, 304})
_LISTS = frozenset({"content-encoding", "transfer-encoding"})
_READ = _LISTS | {"content-length", "content-type", "location", "retry-after"}
"""Headers that mean something to the sender; of others nothing is kept, however many there are."""


class NotHttpError(OSError):
    """No answer of HTTP/1 came; the message says what is wrong."""


class _EndedError(Exception):
    """Nothing more is there to be read."""


class AnswerReader:
    """Takes the bytes of one answer as they arrive."""

    def __init__(self) -> None:
        self.status: int | None = None
        """The final one; None until its line has arrived."""
        self.reason = ""
        self.headers: dict[str, str] = {}
        """Names in lower case. Of a repeated header the first, of a repeated list all."""
        self.body = bytearray()
        self.extent = Extent.CUT
        self.is_over = False
        """Whether nothing more needs to arrive."""
        self._buffer = bytearray()
        self._ended = False
        self._cleanly = False
        self._left = LINES_BYTES
        self._reading = self._read()
        next(self._reading)

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def codings(self) -> list[str]:
        """What the body is coded in, the innermost first: `gzip`, say."""
        return [coding for coding in self._parse_list("content-encoding") + self._transfer if coding != "chunked"]

    @property
    def _transfer(self) -> list[str]:
        return self._parse_list("transfer-encoding")

    def feed(self, data: bytes) -> None:
        """Take what has arrived. Raises NotHttpError where that is no answer."""
        self._buffer += data
        next(self._reading, None)

    def end(self, *, cleanly: bool) -> None:
        """The connection has ended: by the other side's end of all data, or by an error."""
        self._ended, self._cleanly = True, cleanly
        next(self._reading, None)

    def _read(self) -> Generator[None]:
        try:
            yield from self._read_head()
            yield from self._read_body()
            self.extent = Extent.WHOLE
        except _EndedError:
            if self.status is None and not self._ended:
                raise NotHttpError(f"no final status within {LINES_BYTES} bytes") from None
        finally:
            self.is_over = True

    def _read_head(self) -> Generator[None]:
        while self.status is None:
            line = yield from self._read_line()
            match = _STATUS.fullmatch(line)
            if match is not None and (match[1] >= b"200" or match[1] == _SWITCHING):
                self.status, self.reason = int(match[1]), (match[2] or b"").decode("latin-1").strip()
            elif match is not None and match[1] >= b"100":
                yield from self._read_headers({})
            elif line:
                raise NotHttpError("the answer is not HTTP/1")
        yield from self._read_headers(self.headers)

    def _read_headers(self, kept: dict[str, str]) -> Generator[None]:
        """Read headers up to the empty line; those that count go into `kept`."""
        name = ""
        while line := (yield from self._read_line()):
            text = line.decode("latin-1")
            if text[0] in " \t":  # the rest of the header before, folded (RFC 9112, section 5.2)
                more = f" {text.strip()}"
            else:
                name, colon, value = (part.strip() for part in text.partition(":"))
                name = name.lower()
                if not colon or name not in _READ or (name in kept and name not in _LISTS):
                    name = ""
                more = f", {value}" if name in kept else value
            if name and len(kept.get(name, "")) < LINE_BYTES:
                kept[name] = kept.get(name, "") + more

    def _read_body(self) -> Generator[None]:
        if self.status in _WITHOUT_BODY:
            return
        length = _LENGTH.fullmatch(self.headers.get("content-length", "unknown"))
        if "chunked" in self._transfer:
            yield from self._read_chunks()
        elif length is not None and not self._transfer:
            # Cut to 18 digits, it is still longer than anything that is read.
            yield from self._take(int(length[1].lstrip("0")[:18] or 0))
        else:
            yield from self._take_the_rest()

    def _read_chunks(self) -> Generator[None]:
        """Up to the chunk of no bytes: trailers behind it say nothing that counts."""
        while True:
            match = _CHUNK.fullmatch((yield from self._read_line()))
            if match is None:
                raise _EndedError
            size = int(match[1], 16)
            if size == 0:
                return
            yield from self._take(size)
            if (yield from self._read_line()):
                raise _EndedError

    def _take_the_rest(self) -> Generator[None]:
        try:
            yield from self._take(sys.maxsize)
        except _EndedError:
            if self.extent is Extent.LONGER or not self._cleanly:
                raise

    def _take(self, size: int) -> Generator[None]:
        """Let the body grow by so many bytes."""
        while True:
            part = self._buffer[:size]
            del self._buffer[: len(part)]
            self.body += part
            size -= len(part)
            if len(self.body) > RESPONSE_BYTES:
                del self.body[RESPONSE_BYTES:]
                self.extent = Extent.LONGER
                raise _EndedError
            if size == 0:
                return
            yield from self._wait_for_more()

    def _read_line(self) -> Generator[None, None, bytes]:
        """The next line without its end, or as much of it as is looked at."""
        line = bytearray()
        while True:
            end = self._buffer.find(b"\n") + 1
            part = self._buffer[: end or len(self._buffer)]
            del self._buffer[: len(part)]
            self._left -= len(part)
            if self._left < 0:
                raise _EndedError
            line += part[: LINE_BYTES - len(line)]
            if end:
                return bytes(line).rstrip(b"\r\n")
            yield from self._wait_for_more()

    def _wait_for_more(self) -> Generator[None]:
        if self._ended:
            raise _EndedError
        yield

    def _parse_list(self, header: str) -> list[str]:
        """What a list names, but for `identity`, which changes nothing."""
        parts = [part.strip().lower() for part in self.headers.get(header, "").split(",")]
        return [part for part in parts if part not in ("", "identity")]

"""Hides what was sent to a target and must not be shown, wherever the target's answer repeats it.

An answer may spell a value in another way than it was sent: escaped as JSON, HTML or a URL does, or in base64 or hex.

The work is bounded, whatever a job sends and a target answers. What is beyond the bounds is hidden as a whole.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from functions.adapters.escapes import readings
from functions.domain.masking import MASK, is_shown

WORD_CHARACTERS = 8
"""A shorter value is hidden as a whole word only: inside other words it is there by chance."""
TINY_CHARACTERS = 4
"""A shorter value is hidden only where it is given as a value, such as a whole JSON string: `a` and `1` are everywhere.
Shorter numbers and parts of values stay."""
MOST_VALUES = 1_000
"""Most values that are looked for. Where there are more, every answer is hidden as a whole."""
MOST_COMPARISONS = 500_000
"""Most comparisons of places in one answer with spellings that begin alike, long ones counted more. An answer that
takes more is hidden as a whole."""
HIDDEN_AS_A_WHOLE = f"{MASK} (hidden as a whole: it takes too long to find what it repeats of the request)"

_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_END = "\0"
"""Between the strings of a JSON answer, which are searched as one text."""
_BEFORE_VALUES = frozenset(("", _END, '"', "'", "=", ":", ">", "\n"))
_AFTER_VALUES = frozenset(("", _END, '"', "'", "&", ";", ",", "<", "\r", "\n"))
_BEFORE_TINY = _BEFORE_VALUES | {" "}
_SEPARATORS = re.compile(r"[;,&]")


class HiddenValues:
    """What of a request must not be shown."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        few = set(islice((value for value in values if value.strip()), MOST_VALUES + 1))
        self._search = None if len(few) > MOST_VALUES else _Search(few)

    @classmethod
    def of_request(cls, headers: Mapping[str, str], target: Mapping[str, object], *more: str | None) -> HiddenValues:
        """Of what was sent: secrets, headers and query parameters, whole and in the parts that a receiver takes them
        apart into.

        Args:
            headers: The target's headers, with their secrets filled in.
            target: The target as it is stored.
            more: Other values to hide, None for none.
        """
        written = target.get("headers")
        references = written if isinstance(written, Mapping) else {}
        sent = [
            value for name, value in headers.items() if not is_shown(name) or isinstance(references.get(name), Mapping)
        ]
        hidden = {value for value in more if value} | set(sent)
        for value in sent:
            hidden.update(part for part in _parts(value) if len(part) >= TINY_CHARACTERS)
            if len(hidden) > MOST_VALUES:
                break
        for parameter in str(target.get("url", "")).partition("?")[2].split("&"):
            name, sign, value = parameter.partition("=")
            text = value if sign else name
            hidden |= {text, unquote_plus(text)}
        return cls(hidden)

    def hide(self, text: str) -> str:
        """The text with `***` for each of the values, whatever its spelling. JSON stays JSON.

        HIDDEN_AS_A_WHOLE instead of the text where finding the values would take too long.
        """
        if not text or (self._search is not None and self._search.is_empty):
            return text
        try:
            if self._search is None:
                raise _TooMuchWorkError
            return _hide(text, self._search)
        except _TooMuchWorkError:
            return json.dumps(HIDDEN_AS_A_WHOLE) if _is_json(text) else HIDDEN_AS_A_WHOLE


class _TooMuchWorkError(Exception):
    pass


class _Where(enum.IntEnum):
    """Where a spelling counts."""

    ANYWHERE = enum.auto()
    AS_WORD = enum.auto()
    AS_VALUE = enum.auto()
    IN_BASE64 = enum.auto()
    """Anywhere, and the base64 characters around it tell of the value, too."""


class _Spelling(NamedTuple):
    text: str
    where: _Where


def _parts(value: str) -> Iterator[str]:
    """What a receiver makes of a header: credentials without their scheme, parameters and cookies."""
    scheme, space, credentials = value.partition(" ")
    if space:
        yield credentials.strip()
        yield value.rsplit(" ", maxsplit=1)[-1]
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(credentials.strip(), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            decoded = ""
        yield decoded
        yield decoded.partition(":")[2]
    for part in _SEPARATORS.split(value):
        yield part.partition("=")[2].strip(' "')
        yield part.strip()


def _spellings(value: str) -> Iterator[_Spelling]:
    where = _Where.ANYWHERE
    if len(value) < WORD_CHARACTERS:
        where = _Where.AS_WORD if len(value) >= TINY_CHARACTERS else _Where.AS_VALUE
    raw = value.encode(errors="replace")
    for text in {value, value.replace(" ", "+"), raw.decode("latin-1"), raw.hex(), raw.hex().upper()}:
        yield _Spelling(text, where)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        yield _Spelling(whole, where)
        yield _Spelling(whole.rstrip("="), where)
        for before in range(3):
            # The value inside longer bytes that were encoded as a whole: without the characters that depend on them.
            inner = encode(bytes(before) + raw).decode()
            core = inner[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
            if len(core) >= WORD_CHARACTERS:
                yield _Spelling(core, _Where.IN_BASE64)


class _Bucket:
    """Spellings that begin alike."""

    def __init__(self, spellings: Iterable[_Spelling]) -> None:
        self.spellings = sorted(spellings, key=lambda one: (-len(one.text), one))
        self.texts = tuple({one.text: None for one in self.spellings})
        self.work = 1 + sum(1 + len(text) // 32 for text in self.texts)


class _Search:
    """Finds all spellings in one pass over a text, by their first characters."""

    def __init__(self, values: Iterable[str]) -> None:
        buckets: dict[str, set[_Spelling]] = {}
        for spelling in (spelling for value in values for spelling in _spellings(value)):
            buckets.setdefault(spelling.text[:TINY_CHARACTERS], set()).add(spelling)
        self._tiny = frozenset(head for head in buckets if len(head) < TINY_CHARACTERS)
        self._tiny_heads = frozenset(head[0] for head in self._tiny)
        self._buckets = {head: _Bucket(spellings) for head, spellings in buckets.items() if head not in self._tiny}

    @property
    def is_empty(self) -> bool:
        return not self._buckets and not self._tiny

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where something is to be hidden, in order, without overlaps; raises _TooMuchWorkError."""
        spans: list[tuple[int, int]] = []
        left = MOST_COMPARISONS
        for reading in readings(text):
            found, left = self._found(reading.text, left)
            spans += ((reading.places[start], reading.places[end]) for start, end in found)
        return _merged(spans)

    def _found(self, text: str, left: int) -> tuple[list[tuple[int, int]], int]:
        """The spans of one reading, and how much work is left after it."""
        spans = list(self._found_tiny(text)) if self._tiny else []
        encoded = 0  # the end of the last characters of base64 that are hidden
        for start, bucket in self._candidates(text):
            left -= bucket.work
            if left < 0:
                raise _TooMuchWorkError
            if not text.startswith(bucket.texts, start):
                continue
            left -= 4 * bucket.work
            for spelling in bucket.spellings:
                if not text.startswith(spelling.text, start):
                    continue
                end = start + len(spelling.text)
                if spelling.where is _Where.IN_BASE64:
                    if start >= encoded:
                        spans.append(_widened(text, start, end))
                        encoded = spans[-1][1]
                elif _counts(text, start, end, spelling.where):
                    spans.append((start, end))
        return spans, left

    def _candidates(self, text: str) -> Iterator[tuple[int, _Bucket]]:
        heads, size = self._buckets, TINY_CHARACTERS
        for start in [at for at in range(len(text) - size + 1) if text[at : at + size] in heads]:
            yield start, heads[text[start : start + size]]

    def _found_tiny(self, text: str) -> Iterator[tuple[int, int]]:
        heads = self._tiny_heads
        pairs = zip(_END + text, text, strict=False)
        for start in [at for at, (before, first) in enumerate(pairs) if first in heads and before in _BEFORE_TINY]:
            for end in range(start + 1, min(start + TINY_CHARACTERS, len(text) + 1)):
                if text[start:end] in self._tiny and _counts(text, start, end, _Where.AS_VALUE):
                    yield start, end


def _hide(text: str, search: _Search) -> str:
    """Raises _TooMuchWorkError."""
    try:
        value = json.loads(text)
        texts = list(_texts(value))
        joined = _END.join(texts)
        spans = search.spans(joined)
        if not spans:
            return text
        return json.dumps(_rebuilt(value, iter(_shown(joined, texts, spans))), ensure_ascii=False)
    except (ValueError, RecursionError):
        [shown] = _shown(text, [text], search.spans(text))
        return shown


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _shown(joined: str, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Each of the texts with the mask for what the spans have of it."""
    starts = [start for start, _ in spans]
    for begin, text in zip(accumulate((len(text) + 1 for text in texts), initial=0), texts, strict=False):
        at, end, shown = begin, begin + len(text), []
        for first, last in _spans_in(spans, starts, begin, end):
            shown += [joined[at : max(first, at)], MASK]
            at = min(last, end)
        yield "".join([*shown, joined[at:end]]) if shown else text


def _spans_in(
    spans: Sequence[tuple[int, int]], starts: Sequence[int], begin: int, end: int
) -> Iterator[tuple[int, int]]:
    at = max(bisect_right(starts, begin) - 1, 0)
    while at < len(spans) and spans[at][0] < end:
        if spans[at][1] > begin:
            yield spans[at]
        at += 1


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    """With the characters of base64 around it."""
    while start and text[start - 1] in _BASE64:
        start -= 1
    while end < len(text) and text[end] in _BASE64:
        end += 1
    return start, end


def _counts(text: str, start: int, end: int, where: _Where) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if where is _Where.AS_VALUE:
        if before == " ":
            before = text[max(start - 2, 0) : start - 1]
        return before in _BEFORE_VALUES and after in _AFTER_VALUES
    return where is not _Where.AS_WORD or not (before.isalnum() or after.isalnum())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _rebuilt(value: Any, shown: Iterator[str]) -> Any:
    """The value with the texts that are shown, which come in the order of `_texts`."""
    if isinstance(value, str):
        return next(shown)
    if isinstance(value, dict):
        return {next(shown): _rebuilt(inner, shown) for inner in value.values()}
    if isinstance(value, list):
        return [_rebuilt(inner, shown) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
        return MASK if next(shown) != text and len(text) >= TINY_CHARACTERS else value
    return value

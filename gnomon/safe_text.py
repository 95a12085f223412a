"""Text of others on a terminal: nothing in it moves the cursor, turns the direction of writing, or hides."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode: control, format, surrogate, line and paragraph separators."""
_JOINERS = "\u200c\u200d"
"""Format characters that writing and emoji need; they join what stands beside them and do nothing else."""


def printable(value: object, *, keep: str = "") -> str:
    """The text with control, format and separator characters as escapes, `\\u202e`; those in `keep` stay."""
    text = str(value)
    return text if text.isprintable() else "".join(_shown(letter, keep) for letter in text)


def json_text(document: Any, *, indent: int | None = None, encoding: str | None = "utf-8") -> str:
    """The document as JSON whose characters are all safe to show and known to the encoding: the others are escaped,
    which is the same JSON."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return json.dumps(document, indent=indent)
    return "".join(_escaped(letter) if _is_unsafe(letter) else letter for letter in text)


def _is_unsafe(letter: str) -> bool:
    return letter not in _JOINERS and letter != "\n" and unicodedata.category(letter) in _UNSAFE


def _escaped(letter: str) -> str:
    """As JSON escapes it, with two surrogates where one is not enough."""
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _shown(letter: str, keep: str) -> str:
    if letter in keep or letter in _JOINERS or unicodedata.category(letter) not in _UNSAFE:
        return letter
    return letter.encode("unicode_escape").decode()

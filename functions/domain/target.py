"""What a target document may say: its fields and its headers.

A target is the contract's JSON object: `{"type": "http" | "handler" | "lambda" | "sqs" | "worker", …}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functions.domain.errors import InvalidFieldError
from functions.domain.target_access import check_access, wrong
from functions.domain.target_url import check_url, one_of

if TYPE_CHECKING:
    from functions.domain.target_access import TargetRules

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""Methods of an `http` target, POST by default. GET carries no body, and then the payload is not sent."""

HEADERS = 30
"""Headers a target may set."""
HEADER_CHARACTERS = 4_096
"""Longest value of a header."""

_OURS = re.compile(r"webhook-.*|gnomon-.*")
_NOT_SETTABLE = frozenset(
    {
        # hop by hop (RFC 9110, section 7.6.1)
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # written by the sender
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
    }
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")

_HANDLER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORKER_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAME_RULE = "must have 1 to 64 letters, digits, '.', '-' or '_'"


def check_target(target: Mapping[str, Any], rules: TargetRules, owner: str) -> None:
    """Check what a target of this owner's job says, beyond the types of its fields; nothing is resolved or called.

    Raises InvalidFieldError with the field's dotted path and a message naming the value and the rule.
    """
    kind = target.get("type")
    if kind == "http":
        check_url(target.get("url"), rules)
        _one_of("target.method", target.get("method", "POST"), METHODS)
        check_headers(target.get("headers") or {})
    elif kind == "handler":
        if not isinstance(name := target.get("name"), str) or not _HANDLER.fullmatch(name):
            raise wrong("target.name", name, _NAME_RULE)
    elif kind == "worker":
        if not isinstance(queue := target.get("queue"), str) or not _WORKER_QUEUE.fullmatch(queue):
            raise wrong("target.queue", queue, _NAME_RULE)
    elif kind not in ("lambda", "sqs"):
        raise wrong("target.type", kind, f"must be one of {one_of(('handler', 'http', 'lambda', 'sqs', 'worker'))}")
    check_access(target, rules, owner)


def check_headers(headers: Mapping[str, Any]) -> None:
    """Check the headers a target sets. Values are strings or `{"secretArn": …}`; no message shows a value."""
    if len(headers) > HEADERS:
        raise InvalidFieldError(
            "target.headers", f"target.headers has {len(headers)} entries; at most {HEADERS} are allowed."
        )
    seen: set[str] = set()
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise wrong("target.headers", name, "is no name of a header")
        field = f"target.headers.{name}"
        lower = name.lower()
        # Receivers behind WSGI, CGI or PHP read `_` as `-`.
        folded = lower.replace("_", "-")
        if folded in _NOT_SETTABLE or _OURS.fullmatch(folded):
            raise InvalidFieldError(field, f"{field} is written by the sender and cannot be set.")
        if folded in seen:
            raise InvalidFieldError(field, f"{field} is set twice: names of headers differ by more than case, - and _.")
        seen.add(folded)
        if not isinstance(value, Mapping):
            check_header_value(field, value)
        elif set(value) != {"secretArn"}:
            raise InvalidFieldError(field, f'{field} must be a string or {{"secretArn": …}}.')


def check_header_value(field: str, value: object) -> None:
    """Raises InvalidFieldError, without the value, for what cannot stand in a header: line breaks above all."""
    if not isinstance(value, str):
        raise InvalidFieldError(field, f'{field} must be a string or {{"secretArn": …}}.')
    if len(value) > HEADER_CHARACTERS:
        raise InvalidFieldError(field, f"{field} has {len(value)} characters; at most {HEADER_CHARACTERS} are allowed.")
    if not _HEADER_VALUE.fullmatch(value):
        raise InvalidFieldError(field, f"{field} must be printable ASCII without line breaks.")


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise wrong(field, value, f"must be one of {one_of(allowed)}")

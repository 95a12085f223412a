"""What a target document may say: its fields, its headers, and which of their values are shown.

A target is the contract's JSON object: `{"type": "http" | "handler" | "lambda" | "sqs" | "worker", …}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functions.domain.errors import InvalidFieldError
from functions.domain.target_access import check_access, wrong
from functions.domain.target_url import check_url, one_of, parse_url

if TYPE_CHECKING:
    from functions.domain.target_access import TargetRules

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""Methods of an `http` target, POST by default. GET carries no body, and then the payload is not sent."""

MASK = "***"
"""Stands for a header's value in every answer, event and log."""

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
_SENSITIVE = re.compile(r"(proxy-)?authorization|(set-)?cookie|(.*[-_])?(key|token|secret|password|apikey)")

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
        if lower in _NOT_SETTABLE or _OURS.fullmatch(lower):
            raise InvalidFieldError(field, f"{field} is written by the sender and cannot be set.")
        if lower in seen:
            raise InvalidFieldError(field, f"{field} is set twice: names of headers do not differ by case.")
        seen.add(lower)
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


def is_sensitive(header: str) -> bool:
    """Whether a header's plain value is masked: Authorization, Cookie, and names that end in key, token or secret."""
    return _SENSITIVE.fullmatch(header.lower()) is not None


def masked_target(target: Mapping[str, Any]) -> dict[str, Any]:
    """The target as it may be shown: plain values of sensitive headers are `***`, names of secrets stay."""
    shown = dict(target)
    if isinstance(headers := target.get("headers"), Mapping):
        shown["headers"] = {
            name: MASK if isinstance(value, str) and is_sensitive(name) else value for name, value in headers.items()
        }
    return shown


def unmasked(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """`new` with each `***` of a sensitive header replaced by the value `old` has for it.

    For a client that sends back what it was shown. Raises InvalidFieldError where `old` (None for a new job) has
    no plain value of that header, or leads to another origin: whoever may change a job but was never shown the value
    must not have it sent elsewhere.
    """
    target = dict(new)
    headers = new.get("headers")
    if not isinstance(headers, Mapping):
        return target
    stored = (old or {}).get("headers") or {}
    known = {name.lower(): value for name, value in stored.items()}
    restored: dict[str, Any] = {}
    for name, value in headers.items():
        restored[name] = value
        if value == MASK and is_sensitive(name):
            field = f"target.headers.{name}"
            if (kept := known.get(name.lower())) is None:
                raise InvalidFieldError(field, f"{field} is {MASK}, and there is no stored value it could stand for.")
            if parse_url(new.get("url")).origin != parse_url((old or {}).get("url")).origin:
                raise InvalidFieldError(field, f"{field} is {MASK}, but the URL leads elsewhere now: write the value.")
            restored[name] = kept
    target["headers"] = restored
    return target


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise wrong(field, value, f"must be one of {one_of(allowed)}")

"""Which parts of a target are shown to callers, and how a mask that comes back keeps the stored value.

Plain values of headers and of query parameters are secrets until proven otherwise: no list of names can know them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from functions.domain.errors import InvalidFieldError

MASK = "***"
"""Stands for a hidden value in every answer, event, message and log."""

SHOWN_HEADERS = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-language",
        "cache-control",
        "content-language",
        "content-type",
        "prefer",
        "user-agent",
        "x-team",
    }
)
"""Headers whose plain values are shown, in lower case."""

_USER = re.compile(r"//[^/?#]*@")


def is_shown(header: str) -> bool:
    """Whether a header's plain value is shown."""
    return header.lower() in SHOWN_HEADERS


def masked_url(url: str) -> str:
    """The URL with `***` for each value of its query, for a user before its host, and for a fragment."""
    url, hash_mark, fragment = url.partition("#")
    base, question_mark, query = url.partition("?")
    shown = _USER.sub(f"//{MASK}@", base) + question_mark + "&".join(_masked_parameter(one) for one in query.split("&"))
    return shown + hash_mark + (MASK if fragment else "")


def masked_target(target: Mapping[str, Any]) -> dict[str, Any]:
    """The target as it may be shown: `***` for plain values of headers and of the query. Names of secrets stay."""
    shown = dict(target)
    if isinstance(url := target.get("url"), str):
        shown["url"] = masked_url(url)
    if isinstance(headers := target.get("headers"), Mapping):
        shown["headers"] = {
            name: MASK if isinstance(value, str) and not is_shown(name) else value for name, value in headers.items()
        }
    return shown


def unmasked(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """`new` with each `***` of a header or a query parameter replaced by the value that `old` has for it.

    For a client that sends back what it was shown. Raises InvalidFieldError where `old` (None for a new job) has no
    such value, or has another method or another URL up to its `?`: a caller who may change the job but was never shown
    the value must not have it sent elsewhere.
    """
    target, stored = dict(new), old or {}
    kept_apart = _destination(new) != _destination(stored)
    if isinstance(url := new.get("url"), str):
        target["url"] = _unmasked_url(url, stored, kept_apart=kept_apart)
    if not isinstance(headers := new.get("headers"), Mapping):
        return target
    known = {name.lower(): value for name, value in (stored.get("headers") or {}).items()}
    target["headers"] = {
        name: _kept(f"target.headers.{name}", f"target.headers.{name}", known.get(name.lower()), kept_apart=kept_apart)
        if value == MASK and not is_shown(name)
        else value
        for name, value in headers.items()
    }
    return target


def _unmasked_url(url: str, stored: Mapping[str, Any], *, kept_apart: bool) -> str:
    base, question_mark, query = url.partition("?")
    known: dict[str | None, list[str]] = {}
    for name, value in map(_parameter, str(stored.get("url", "")).partition("?")[2].split("&")):
        known.setdefault(name, []).append(value)
    parameters = []
    for name, value in map(_parameter, query.split("&")):
        values = known.get(name) or [""]
        kept = values.pop(0) if len(values) > 1 else values[0]
        if value == MASK:
            where = f"target.url with {MASK}" if name is None else f"target.url with {name[:64]}={MASK}"
            value = _kept("target.url", where, kept, kept_apart=kept_apart)  # noqa: PLW2901 - the value of this parameter
        parameters.append(value if name is None else f"{name}={value}")
    return base + question_mark + "&".join(parameters)


def _kept(field: str, where: str, value: object, *, kept_apart: bool) -> Any:
    if not isinstance(value, str | Mapping) or value == "":
        raise InvalidFieldError(field, f"{where}: there is no stored value that {MASK} could stand for.")
    if kept_apart:
        raise InvalidFieldError(
            field, f"{where}: {MASK} keeps the stored value only for the same URL up to its query and the same method."
        )
    return value


def _destination(target: Mapping[str, Any]) -> tuple[object, ...]:
    return str(target.get("url", "")).partition("?")[0], target.get("method") or "POST"


def _masked_parameter(parameter: str) -> str:
    name, value = _parameter(parameter)
    return (MASK if value else "") if name is None else f"{name}={MASK if value else ''}"


def _parameter(parameter: str) -> tuple[str | None, str]:
    """Name and value; a parameter without `=` is a value without a name."""
    name, sign, value = parameter.partition("=")
    return (name, value) if sign else (None, name)

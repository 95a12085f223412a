"""Which Python handlers a release has, and what a job may name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from functions.domain.errors import InvalidFieldError
from functions.domain.target_url import shown_value

SHOWN_NAMES = 20
"""Names that a refusal lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHandlers:
    names: Collection[str]
    broken: Collection[str] = ()
    """Why modules of handlers cannot be imported: what they would register besides is not known."""


def check_handler(name: str, known: KnownHandlers | None) -> None:
    """Raise InvalidFieldError("target.name", …) for a handler that the release does not have; None: nobody knows."""
    if known is None or name in known.names:
        return
    names = sorted(known.names)
    listed = ", ".join(names[:SHOWN_NAMES]) or "none"
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    broken = "".join(f" Not imported: {why}." for why in sorted(known.broken)[:3])
    raise InvalidFieldError(
        "target.name",
        f"target.name {shown_value(name)} is not a handler of this release. It has: {listed}{more}.{broken}",
    )

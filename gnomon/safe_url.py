"""Where a secret may be sent."""

from __future__ import annotations

from typing import TypedDict

import httpx


def is_safe_url(url: str) -> bool:
    """Whether a token may be sent there: over TLS, or without leaving this machine."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return bool(parsed.host) and (parsed.scheme == "https" or (parsed.scheme == "http" and _is_loopback(parsed)))


class Trust(TypedDict):
    """Options of httpx.Client."""

    verify: bool
    trust_env: bool


def trust(url: str) -> Trust:
    """No proxy stands before this machine; without TLS no certificates are needed, and reading them takes 50 ms."""
    parsed = httpx.URL(url)
    return {"verify": parsed.scheme == "https", "trust_env": not _is_loopback(parsed)}


def _is_loopback(url: httpx.URL) -> bool:
    return url.host in {"127.0.0.1", "localhost", "::1"}

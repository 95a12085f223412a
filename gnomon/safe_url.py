"""Where a secret may be sent."""

from __future__ import annotations

import httpx


def is_safe_url(url: str) -> bool:
    """Whether a token may be sent there: over TLS, or without leaving this machine."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return bool(parsed.host) and (parsed.scheme == "https" or (parsed.scheme == "http" and is_loopback(parsed)))


def is_loopback(url: httpx.URL) -> bool:
    return url.host in {"127.0.0.1", "localhost", "::1"}

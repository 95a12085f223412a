"""Guard against calls into private networks (SSRF): which addresses an `http` target may be connected to.

A name is resolved once, every address is judged, and the connection goes to a judged address: a name that resolves
to another address a moment later (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from functions.adapters.deadline import Deadline, DeadlineError, within
from functions.domain.target_url import (
    TargetUrl,
    UrlRules,
    check_addresses,
    check_url,
    is_unguarded,
    parse_url,
)

Resolve = Callable[[str, int], Sequence[str]]
"""Addresses of a host for a port; raises OSError."""

CREATE_SECONDS = 0.5
"""How long the answer to a caller waits for a name to be resolved."""
CREATE_RESOLUTIONS = 16
"""Names that are being resolved for callers at the same time. A resolver that hangs keeps its place until it gives up,
so a request with many names waits for no more than these."""


class UnresolvedError(Exception):
    """The host could not be resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A URL and the addresses a connection for it may go to, best first."""

    url: TargetUrl
    addresses: tuple[str, ...]


def system_addresses(host: str, port: int) -> list[str]:
    """The system's resolver; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class AddressGuard:
    def __init__(self, rules: UrlRules, *, resolve: Resolve = system_addresses) -> None:
        self._rules = rules
        self._resolve = resolve
        self._places = threading.BoundedSemaphore(CREATE_RESOLUTIONS)

    def check(self, url: str) -> None:
        """For create: raise InvalidFieldError("target.url", …) for a URL that leads to an address that is not public.

        A host that cannot be resolved now, or not within half a second, is accepted: the name may exist by the time of
        the run, and `destination` judges it again before anything is sent.
        """
        check_url(url, self._rules)
        target = parse_url(url)
        if target.address is not None or is_unguarded(target, self._rules):
            return
        if not self._places.acquire(blocking=False):
            return

        def judge(_: Deadline) -> None:
            try:
                self.destination(url)
            finally:
                self._places.release()

        with contextlib.suppress(UnresolvedError, DeadlineError):
            within(CREATE_SECONDS, judge)

    def destination(self, url: str) -> Destination:
        """For sending: where to connect. Blocks as long as the resolver does.

        Raises InvalidFieldError("target.url", …) for what the rules refuse, UnresolvedError when there is no address.
        """
        check_url(url, self._rules)
        target = parse_url(url)
        addresses = [target.host] if target.address is not None else self._addresses(target)
        if not is_unguarded(target, self._rules):
            check_addresses(url, addresses)
        return Destination(url=target, addresses=tuple(addresses))

    def _addresses(self, target: TargetUrl) -> list[str]:
        try:
            # A scope ("fe80::1%eth0") belongs to link-local addresses, which are judged without it.
            addresses = [address.partition("%")[0] for address in self._resolve(target.host, target.port)]
        except (OSError, UnicodeError) as error:
            raise UnresolvedError(f"{target.host} could not be resolved: {error}") from error
        if not addresses:
            raise UnresolvedError(f"{target.host} has no address")
        return addresses

"""Where an `http` target may point: the form of its URL, the stage's free origins, and which addresses are public.

Pure: nothing is resolved here. The guard in functions/adapters/address_guard.py adds the resolution.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from functions.domain.errors import InvalidFieldError
from functions.domain.masking import masked_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

URL_CHARACTERS = 2_048
"""Longest URL a target may have."""

URL_FIELD = "target.url"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_FORBIDDEN = re.compile(r"[^\x21-\x7e]|\\")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]*)?")

# IANA special-purpose address registries (RFC 6890 and its updates). Listed here rather than taken from
# `ipaddress.is_global` alone, whose answers differ between Python 3.11 and 3.13.
_CLOSED_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_OPEN_V6 = ipaddress.IPv6Network("2000::/3")
# Teredo lies in 2001::/23, 6to4 is 2002::/16: both carry an IPv4 address inside, and nobody serves webhooks on them.
_CLOSED_V6 = tuple(
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class UrlRules(Protocol):
    """What a stage says about URLs; `settings.TargetRules` is one."""

    @property
    def unguarded_origins(self) -> tuple[str, ...]:
        """Origins that skip the guard, `http://127.0.0.1:*` with any port; one that begins with `!` takes it back."""
        ...

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of all other origins."""
        ...


class TargetUrl(NamedTuple):
    """A URL whose form was checked."""

    scheme: str
    host: str
    """Lower case, without brackets and without the dot at the end."""
    port: int
    resource: str
    """Path and query, as the request line carries them."""

    @property
    def address(self) -> Address | None:
        """The host, where it is an address and no name."""
        if ":" not in self.host and not self.host[-1:].isdigit():
            return None  # What the exception below says too, more slowly.
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """Value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"


def check_url(url: object, rules: UrlRules) -> None:
    """Raises InvalidFieldError("target.url", …) for a URL that no resolution is needed to refuse."""
    target = parse_url(url)
    if is_unguarded(target, rules):
        return
    if target.scheme != "https":
        free = [entry for entry in rules.unguarded_origins if not entry.startswith("!")]
        beside = f", or with {' or '.join(free)}" if free else ""
        raise refused(url, f"must begin with https:// on this stage{beside}")
    if target.host == "localhost" or target.host.endswith(".localhost"):
        raise refused(url, "must not name this machine: localhost is not public")
    if target.address is not None:
        check_addresses(url, [target.host])
    if target.port not in rules.ports:
        allowed = " or ".join(str(port) for port in sorted(rules.ports))
        raise refused(url, f"has port {target.port}: on this stage it must be {allowed}")


def parse_url(url: object) -> TargetUrl:
    """Read an absolute http or https URL; raises InvalidFieldError("target.url", …) where its form is not allowed.

    Hosts are names, dotted decimal IPv4 or IPv6 in brackets. Other spellings of addresses (`127.1`, `0x7f000001`,
    `2130706433`), which resolvers read each in its own way, are refused.
    """
    if not isinstance(url, str):
        raise refused(url, "must be a string")
    if len(url) > URL_CHARACTERS:
        raise refused(url, f"must have at most {URL_CHARACTERS} characters")
    if _FORBIDDEN.search(url):
        raise refused(
            url,
            "must be ASCII without spaces and backslashes: write others percent-encoded, and host names as punycode",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise refused(url, "has no host or port that can be read") from error
    scheme = parts.scheme
    if scheme not in _PORTS or not url[len(scheme) :].startswith("://"):
        raise refused(url, "must be an absolute URL that begins with https://")
    if "@" in parts.netloc:
        raise refused(url, "must not carry a user or password: send them as a header with a secretArn")
    if "#" in url:
        raise refused(url, "must not have a fragment")
    if port == 0 or parts.netloc.endswith(":"):
        raise refused(url, "must have a port from 1 to 65535, or none")
    resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return TargetUrl(scheme, _host(url, parts), port or _PORTS[scheme], resource)


def _host(url: str, parts: SplitResult) -> str:
    if "[" in parts.netloc or "]" in parts.netloc:
        # Not parts.hostname: it drops what stands before and after the brackets.
        match = _BRACKETED.fullmatch(parts.netloc)
        try:
            return str(ipaddress.IPv6Address(match[1])) if match else _no_host(url)
        except ValueError:
            return _no_host(url)
    host = parts.hostname or ""
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return _no_host(url)
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError as error:
            raise refused(url, "must write an IPv4 address as four decimal numbers") from error
    return name


def _no_host(url: str) -> str:
    raise refused(url, "must have a host: a name, an IPv4 address or an IPv6 address in brackets")


def is_unguarded(url: TargetUrl, rules: UrlRules) -> bool:
    """Whether the stage lists the URL's origin, and does not take it back with `!`."""
    listed = [entry for entry in rules.unguarded_origins if _matches(url, entry.removeprefix("!"))]
    return bool(listed) and not any(entry.startswith("!") for entry in listed)


def _matches(url: TargetUrl, entry: str) -> bool:
    origin, any_port = (entry.removesuffix(":*"), True) if entry.endswith(":*") else (entry, False)
    listed = _listed(origin)
    return (listed.scheme, listed.host) == (url.scheme, url.host) and (any_port or listed.port == url.port)


@functools.cache
def _listed(origin: str) -> TargetUrl:
    return parse_url(origin)


def check_addresses(url: object, addresses: Iterable[str]) -> None:
    """Raises InvalidFieldError unless every address is public.

    The message names none: what a name resolves to inside a private network is nobody's business outside.
    """
    if not all(is_public(ipaddress.ip_address(text)) for text in addresses):
        raise refused(url, "must lead to public addresses only")


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet (IANA special-purpose registries).

    IPv4 inside IPv6 (mapped, NAT64) is judged as the IPv4 address it stands for; 6to4 and Teredo never pass.
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or _behind_nat64(address)
        if inner is None:
            return (
                address in _OPEN_V6 and not any(address in closed for closed in _CLOSED_V6) and not address.is_multicast
            )
        address = inner
    return address.is_global and not any(address in closed for closed in _CLOSED_V4)


def _behind_nat64(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def refused(url: object, rule: str) -> InvalidFieldError:
    """The error for a URL: it shows the URL (without user, password and values of its query) and the rule."""
    shown = masked_url(url) if isinstance(url, str) else url
    return InvalidFieldError(URL_FIELD, f"{URL_FIELD} {shown_value(shown)} {rule}.")


def shown_value(value: object) -> str:
    """A value for a message: its JSON, cut at 64 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 64 else f"{text[:63]}…"


def one_of(words: Sequence[str]) -> str:
    """The words, quoted, for a message that names a list."""
    return ", ".join(f'"{word}"' for word in words)

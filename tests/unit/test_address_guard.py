from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from functions.adapters.address_guard import (
    CREATE_RESOLUTIONS,
    CREATE_SECONDS,
    AddressGuard,
    UnresolvedError,
    system_addresses,
)
from functions.domain.errors import InvalidFieldError
from functions.parallel import for_all
from tests.factories import make_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED = make_rules()
LOCAL = make_rules(unguarded_origins=("http://127.0.0.1:*", "http://receiver.test:*", "!http://127.0.0.1:4566"))

SCENARIO_29 = [
    "http://169.254.169.254/",
    "https://[::ffff:169.254.169.254]/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://127.1/",
    "https://localhost./",
    "https://10.0.0.1/",
    "https://100.64.0.1/",
    "https://user:pw@host/",
    "file:///etc/passwd",
    "https://mixed.test/",
]


class Names:
    """A resolver that counts, and knows some names."""

    def __init__(self, **names: list[str]) -> None:
        self._names = names
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        try:
            return self._names[host.removesuffix(".test")]
        except KeyError:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None


@pytest.fixture
def names() -> Names:
    return Names(
        open=["93.184.215.14", "2606:4700::1111"],
        mixed=["93.184.215.14", "10.0.0.7"],
        linklocal=["fe80::1%eth0"],
        metadata=["::ffff:169.254.169.254"],
        receiver=["127.0.0.1"],
        nothing=[],
    )


@pytest.mark.case(29)
@pytest.mark.parametrize("url", SCENARIO_29)
@pytest.mark.parametrize("rules", [CLOSED, LOCAL], ids=["closed", "local"])
def test_scenario_29_is_refused_at_create_and_at_send(url: str, rules: object, names: Names) -> None:
    guard = AddressGuard(rules, resolve=names)
    for judge in (guard.check, guard.destination):
        with pytest.raises(InvalidFieldError) as caught:
            judge(url)
        assert caught.value.field == "target.url"
        assert url.replace("user:pw", "***") in caught.value.message


def test_one_private_address_among_public_ones_refuses_the_name(names: Names) -> None:
    with pytest.raises(InvalidFieldError, match="public addresses only") as caught:
        AddressGuard(CLOSED, resolve=names).check("https://mixed.test/")
    assert "10.0.0.7" not in caught.value.message, "what a name resolves to inside is not told"
    with pytest.raises(InvalidFieldError, match="public addresses only") as caught:
        AddressGuard(CLOSED, resolve=names).destination("https://mixed.test/")
    assert "10.0.0.7" not in caught.value.message


@pytest.mark.parametrize("host", ["linklocal.test", "metadata.test"])
def test_private_addresses_in_other_clothes_are_refused(host: str, names: Names) -> None:
    with pytest.raises(InvalidFieldError, match="public"):
        AddressGuard(CLOSED, resolve=names).destination(f"https://{host}/")


def test_a_public_name_leads_to_its_addresses_after_one_resolution(names: Names) -> None:
    destination = AddressGuard(CLOSED, resolve=names).destination("https://open.test:8443/a?b")
    assert destination.addresses == ("93.184.215.14", "2606:4700::1111")
    assert destination.url.authority == "open.test:8443"
    assert names.asked == [("open.test", 8443)]


def test_an_address_is_not_resolved(names: Names) -> None:
    assert AddressGuard(CLOSED, resolve=names).destination("https://[2606:4700::1111]/").addresses == (
        "2606:4700::1111",
    )
    assert names.asked == []


@pytest.mark.parametrize("host", ["unknown.test", "nothing.test"])
def test_a_name_without_addresses_is_accepted_at_create_and_no_answer_at_send(host: str, names: Names) -> None:
    guard = AddressGuard(CLOSED, resolve=names)
    guard.check(f"https://{host}/")
    with pytest.raises(UnresolvedError, match=host):
        guard.destination(f"https://{host}/")


@pytest.mark.parametrize(
    "error", [socket.gaierror(-3, "again"), TimeoutError(), UnicodeError("label"), OSError(5, "x")]
)
def test_whatever_keeps_a_name_from_being_resolved_refuses_no_job(error: Exception) -> None:
    def fail(_host: str, _port: int) -> list[str]:
        raise error

    AddressGuard(CLOSED, resolve=fail).check("https://next-week.test/")


def test_a_name_that_cannot_be_resolved_is_judged_by_its_form_all_the_same(names: Names) -> None:
    guard = AddressGuard(CLOSED, resolve=names)
    for url in (
        "http://unknown.test/",
        "https://unknown.test:0/",
        "https://user@unknown.test/",
        "https://x.localhost/",
    ):
        with pytest.raises(InvalidFieldError):
            guard.check(url)


class Hanging:
    """A resolver that never answers until it is let go, but for some names."""

    def __init__(self, **names: list[str]) -> None:
        self._names = names
        self.over = threading.Event()
        self.asked = 0

    def __call__(self, host: str, _port: int) -> list[str]:
        self.asked += 1
        if (known := self._names.get(host.removesuffix(".test"))) is not None:
            return known
        self.over.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    resolver = Hanging(private=["10.0.0.7"])
    yield resolver
    resolver.over.set()


def test_a_resolver_that_hangs_does_not_hold_up_create(hanging: Hanging) -> None:
    guard = AddressGuard(CLOSED, resolve=hanging)
    started = time.monotonic()
    guard.check("https://slow.test/")
    assert time.monotonic() - started < 2 * CREATE_SECONDS + 1
    with pytest.raises(InvalidFieldError, match="public addresses only"):
        guard.check("https://private.test/")


def test_many_names_that_hang_hold_up_one_request_no_longer_than_one(hanging: Hanging) -> None:
    guard = AddressGuard(CLOSED, resolve=hanging)
    started = time.monotonic()
    for_all(guard.check, [f"https://slow{number}.test/" for number in range(200)])
    assert time.monotonic() - started < 2 * CREATE_SECONDS + 2
    assert hanging.asked <= CREATE_RESOLUTIONS
    hanging.over.set()
    while hanging.asked == CREATE_RESOLUTIONS:
        guard.check("https://slow.test/")
        time.sleep(0.01)
    with pytest.raises(InvalidFieldError, match="public addresses only"):
        guard.check("https://private.test/")


def test_unguarded_origins_are_not_judged_and_not_resolved_at_create(names: Names) -> None:
    guard = AddressGuard(LOCAL, resolve=names)
    guard.check("http://127.0.0.1:8000/")
    guard.check("http://receiver.test:9000/")
    assert names.asked == []
    assert guard.destination("http://receiver.test:9000/").addresses == ("127.0.0.1",)
    with pytest.raises(InvalidFieldError, match="https"):
        guard.check("http://127.0.0.1:4566/")


@pytest.mark.usefixtures("loopback")
def test_the_systems_resolver_gives_each_address_once() -> None:
    assert system_addresses("127.0.0.1", 80) == ["127.0.0.1"]

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.errors import InvalidFieldError
from functions.domain.target_url import check_url, is_public, is_unguarded, parse_url
from tests.factories import make_rules

CLOSED = make_rules()
LOCAL = make_rules(unguarded_origins=("http://127.0.0.1:*", "!http://127.0.0.1:4566"))


def refusal(url: object, rules: object = CLOSED) -> str:
    with pytest.raises(InvalidFieldError) as caught:
        check_url(url, rules)
    assert caught.value.field == "target.url"
    assert "target.url" in caught.value.message
    return caught.value.message


SCENARIO_29 = {
    "http://169.254.169.254/": "must begin with https://",
    "https://[::ffff:169.254.169.254]/": "public",
    "http://0x7f000001/": "four decimal numbers",
    "http://2130706433/": "four decimal numbers",
    "http://127.1/": "four decimal numbers",
    "https://localhost./": "localhost",
    "https://10.0.0.1/": "10.0.0.1",
    "https://100.64.0.1/": "100.64.0.1",
    "https://user:pw@host/": "user or password",
    "file:///etc/passwd": "https://",
}


@pytest.mark.case(29)
@pytest.mark.parametrize(("url", "rule"), SCENARIO_29.items())
@pytest.mark.parametrize("rules", [CLOSED, LOCAL], ids=["closed", "local"])
def test_scenario_29_urls_are_refused_naming_the_value_and_the_rule(url: str, rule: str, rules: object) -> None:
    message = refusal(url, rules)
    assert rule in message
    assert (url if "@" not in url else "https://***@host/") in message
    assert "pw@" not in message


@pytest.mark.parametrize(
    "url",
    [
        "https://[fd00:ec2::254]/",
        "https://[::1]/",
        "https://[::127.0.0.1]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[2002:a9fe:a9fe::]/",
        "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
        "https://[fe80::1]/",
        "https://[ff02::1]/",
        "https://0.0.0.0/",
        "https://127.0.0.1/",
        "https://192.0.0.8/",
        "https://198.18.0.1/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://a.localhost/",
        "https://LOCALHOST/",
        "https://0177.0.0.1/",
        "https://1.2.3.4.5/",
        "https://0x7f.1/",
        "https://example.0x1/",
        "https://[fe80::1%25eth0]/",
        "https://[::1]x/",
        "https://x[::1]/",
        "https://[127.0.0.1]/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://example.com:/",
        "https://example.com:x/",
        "https://example..com/",
        "https://-example.com/",
        "https://ex%61mple.com/",
        "https://exämple.com/",
        "https://example.com/ü",
        "https://example.com/a b",
        "https://example.com/\r\nX: y",
        "https://example.com/#part",
        "https://@example.com/",
        "https:///etc",
        "https:example.com",
        "https:/example.com",
        "//example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "",
        "https://" + "a" * 64 + ".com/",
        "https://example.com/" + "a" * 2_048,
        None,
        7,
    ],
)
def test_other_urls_that_are_refused(url: object) -> None:
    assert len(refusal(url)) < 300


@pytest.mark.parametrize(
    ("url", "origin", "resource"),
    [
        ("https://example.com", "https://example.com", "/"),
        ("HTTPS://Hooks.Example.COM.:443/a/b?c=d&e", "https://hooks.example.com", "/a/b?c=d&e"),
        ("https://example.com:8443?x", "https://example.com:8443", "/?x"),
        ("https://8.8.8.8/", "https://8.8.8.8", "/"),
        ("https://[2606:4700:4700:0::1111]:8443/", "https://[2606:4700:4700::1111]:8443", "/"),
        ("https://[::ffff:8.8.8.8]/", None, "/"),
        ("https://xn--exmple-cua.com/%C3%BC", "https://xn--exmple-cua.com", "/%C3%BC"),
        ("https://my_host.example.com/", "https://my_host.example.com", "/"),
    ],
)
def test_urls_that_are_allowed(url: str, origin: str | None, resource: str) -> None:
    check_url(url, CLOSED)
    target = parse_url(url)
    assert target.resource == resource
    assert origin is None or target.origin == origin


@pytest.mark.parametrize(
    ("url", "free"),
    [
        ("http://127.0.0.1:8000/x", True),
        ("http://127.0.0.1/x", True),
        ("http://127.0.0.1:4566/", False),
        ("https://127.0.0.1:8000/", False),
        ("http://127.0.0.2:8000/", False),
        ("http://localhost:8000/", False),
        ("http://127.0.0.1.example.com:8000/", False),
    ],
)
def test_only_the_listed_origins_skip_the_guard(url: str, free: bool) -> None:
    assert is_unguarded(parse_url(url), LOCAL) is free
    if free:
        check_url(url, LOCAL)
    else:
        refusal(url, LOCAL)
    refusal(url, CLOSED)


@pytest.mark.parametrize("url", ["https://example.com/", "https://example.com:443/", "https://example.com:8443/"])
def test_ports_of_https_are_allowed(url: str) -> None:
    check_url(url, CLOSED)
    check_url(url, LOCAL)


@pytest.mark.parametrize("port", [1, 22, 25, 80, 444, 3306, 6379, 8080, 8442, 65_535])
@pytest.mark.parametrize("host", ["example.com", "93.184.215.14", "[2606:4700::1111]"])
def test_other_ports_are_refused_naming_those_that_are_allowed(host: str, port: int) -> None:
    for rules in (CLOSED, LOCAL):
        assert f"has port {port}: on this stage it must be 443 or 8443" in refusal(f"https://{host}:{port}/", rules)


def test_a_stage_may_list_other_ports() -> None:
    rules = make_rules(ports=(443, 9_443))
    check_url("https://example.com:9443/", rules)
    assert "443 or 9443" in refusal("https://example.com:8443/", rules)
    assert "must be 443." in refusal("https://example.com:8443/", make_rules(ports=(443,)))


def test_an_origin_without_a_port_means_its_default_port() -> None:
    rules = make_rules(unguarded_origins=("https://hooks.internal",))
    assert is_unguarded(parse_url("https://hooks.internal:443/"), rules)
    assert not is_unguarded(parse_url("https://hooks.internal:8443/"), rules)


@given(st.ip_addresses(v=4))
def test_ipv4_inside_ipv6_is_judged_as_itself(address: ipaddress.IPv4Address) -> None:
    mapped = ipaddress.IPv6Address(f"::ffff:{address}")
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) + int(address))
    assert is_public(mapped) == is_public(translated) == is_public(address)


@given(st.ip_addresses())
def test_no_private_address_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if address.is_private or address.is_multicast or address.is_link_local or address.is_loopback:
        assert not is_public(address) or getattr(address, "ipv4_mapped", None)


@given(st.text(max_size=60).map(lambda text: f"https://{text}") | st.text(max_size=40))
def test_any_text_is_read_or_refused_and_never_breaks(text: str) -> None:
    with contextlib.suppress(InvalidFieldError):
        target = parse_url(text)
        assert parse_url(target.origin + target.resource) == target

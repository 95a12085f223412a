"""What of a target is shown, and when a mask keeps what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.errors import InvalidFieldError
from functions.domain.masking import MASK, SHOWN_HEADERS, masked_target, masked_url, unmasked

SECRET = {"secretArn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:gnomon-a"}
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True).filter(
    lambda name: name.lower() not in SHOWN_HEADERS
)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40).filter(
    lambda text: text != MASK
)
PARAMETERS = st.lists(
    st.tuples(
        st.from_regex(r"[a-z_.]{0,8}", fullmatch=True) | st.none(),
        st.from_regex(r"[A-Za-z0-9%+:/?@;.-]{0,30}", fullmatch=True),
    ),
    max_size=6,
)


def http(url: str = "https://example.com/hook", **more: Any) -> dict[str, Any]:
    return {"type": "http", "url": url, **more}


def with_query(parameters: list[tuple[str | None, str]]) -> str:
    query = "&".join(value if name is None else f"{name}={value}" for name, value in parameters)
    return f"https://example.com/hook?{query}"


@pytest.mark.parametrize(
    "name",
    ["Authorization", "COOKIE", "XAuthToken", "X-Auth", "AuthKey", "X-ApiKeyV2", "X-Signature", "accesstoken",
     "X-Session", "X-Credential", "X-Trace", "Forwarded"],
)  # fmt: skip
def test_plain_values_of_all_headers_but_a_few_are_masked(name: str) -> None:
    headers = {name: "s3cret", "X-Team": "billing", "accept": "text/csv", "User-Agent": "me", "X-Other": SECRET}
    target = http(headers=headers)
    assert masked_target(target)["headers"] == {**headers, name: MASK}
    assert target["headers"][name] == "s3cret"


@given(st.dictionaries(NAMES, VALUES, max_size=5), PARAMETERS)
def test_what_is_shown_has_no_value_and_stands_for_all_when_it_comes_back(
    headers: dict[str, str], parameters: list[tuple[str | None, str]]
) -> None:
    if len({name.lower() for name in headers}) != len(headers):
        return
    target = http(with_query(parameters), headers=headers, method="PUT")
    shown = masked_target(target)
    assert set(shown["headers"].values()) <= {MASK}
    query = shown["url"].partition("?")[2]
    assert {part.partition("=")[2] for part in query.split("&") if "=" in part} <= {MASK, ""}
    assert {part for part in query.split("&") if "=" not in part} <= {MASK, ""}
    assert unmasked(shown, target) == target


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a", "https://example.com/a"),
        ("https://example.com/a?", "https://example.com/a?"),
        ("https://example.com/?api_key=S", "https://example.com/?api_key=***"),
        ("https://example.com/?S", "https://example.com/?***"),
        ("https://example.com/?a=S;b=T&c=&d=U=V?W", "https://example.com/?a=***&c=&d=***"),
        ("https://me:pw@example.com/?a=1#S", "https://***@example.com/?a=***#***"),
        ("https://example.com/#a?b=S", "https://example.com/#***"),
    ],
)
def test_values_of_a_query_are_masked(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_targets_without_url_and_headers_are_shown_as_they_are() -> None:
    for target in ({"type": "handler", "name": "echo"}, http(headers=None)):
        assert masked_target(target) == target
        assert unmasked(target, http(headers={"X-Key": "v"})) == target


def test_a_mask_keeps_the_value_of_its_name() -> None:
    old = http(
        "https://example.com/hook?a=1&a=2&k=3&4", headers={"X-Key": "abc", "X-Ref": SECRET, "Accept": "text/csv"}
    )
    new = http(
        "https://example.com/hook?***&k=***&a=***&n=5&a=***", headers={"x-key": MASK, "X-Ref": MASK, "Accept": MASK}
    )
    assert unmasked(new, old) == http(
        "https://example.com/hook?4&k=3&a=1&n=5&a=2", headers={"x-key": "abc", "X-Ref": SECRET, "Accept": MASK}
    )


@pytest.mark.parametrize(
    "old", [None, {"type": "handler", "name": "echo"}, http("https://example.com/hook?c=1", headers={"X-Trace": "1"})]
)
@pytest.mark.parametrize(
    ("new", "field"),
    [
        (http(headers={"Authorization": MASK}), "target.headers.Authorization"),
        (http("https://example.com/hook?b=***"), "target.url"),
        (http("https://example.com/hook?***"), "target.url"),
    ],
)
def test_a_mask_without_a_stored_value_is_refused(old: dict[str, Any] | None, new: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidFieldError, match=r"no stored value") as caught:
        unmasked(new, old)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://evil.example/hook"},
        {"url": "http://example.com/hook"},
        {"url": "https://example.com:8443/hook"},
        {"url": "https://example.com.evil.io/hook"},
        {"url": "https://example.com/hook/"},
        {"url": "https://example.com/other"},
        {"url": "https://example.com/Hook"},
        {"method": "GET"},
        {"method": "PATCH"},
    ],
)
def test_a_mask_is_not_sent_elsewhere(change: dict[str, Any]) -> None:
    old = http("https://example.com/hook?k=query-secret", headers={"X-Note": "header-secret"})
    by_header = http(headers={"X-Note": MASK}) | change
    by_query = {"type": "http", "url": "https://example.com/hook"} | change
    by_query["url"] += "?k=***"
    for new, field in ((by_header, "target.headers.X-Note"), (by_query, "target.url")):
        with pytest.raises(InvalidFieldError, match="same URL") as caught:
            unmasked(new, old)
        assert caught.value.field == field
        assert "secret" not in caught.value.message
    written = http(headers={"X-Note": "new"}) | change
    assert unmasked(written, old) == written


def test_another_query_and_a_spelled_out_default_method_keep_the_values_of_headers() -> None:
    old = http("https://example.com/hook?a=1", headers={"X-Note": "v"})
    new = http("https://example.com/hook?b=2", headers={"X-Note": MASK}, method="POST")
    assert unmasked(new, old)["headers"] == {"X-Note": "v"}

"""Client credentials, and tokens that are renewed: before they expire, and when the API refuses them."""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.client import Client, ClientCredentials
from gnomon.errors import CredentialsError, GnomonApiError, UnreachableError, UsageError
from gnomon.tokens import FixedToken, RereadToken, checked
from tests.served import served

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "https://login.example.com/oauth2/token"


@dataclass
class Authority:
    """A token endpoint: `token-1`, `token-2`, … in turn, each for `life` seconds; before that, its answers."""

    life: Any = 3600
    answers: list[httpx.Response | type[httpx.TransportError]] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    now: float = 1000.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, httpx.Response):
                return answer
            raise answer("gone", request=request)
        document = {"access_token": f"token-{len(self.requests)}", "token_type": "Bearer", "expires_in": self.life}
        return httpx.Response(200, json=document)

    def credentials(self, **options: Any) -> ClientCredentials:
        return ClientCredentials(
            *("machine", "s3cret", URL),
            transport=httpx.MockTransport(self),
            sleep=self.slept.append,
            uniform=lambda _low, high: high,
            clock=lambda: self.now,
            **options,
        )


def refusal(status: int = 400, error: str = "invalid_client") -> httpx.Response:
    return httpx.Response(status, json={"error": error})


def test_the_exchange_is_that_of_the_standard() -> None:
    authority = Authority()
    assert authority.credentials(scope="gnomon/read gnomon/write").current() == "token-1"
    (request,) = authority.requests
    assert (request.method, str(request.url)) == ("POST", URL)
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.headers["authorization"] == f"Basic {base64.b64encode(b'machine:s3cret').decode()}"
    assert parse_qs(request.content.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["gnomon/read gnomon/write"],
    }


def test_id_and_secret_are_form_encoded_before_they_are_a_user_and_a_password() -> None:
    authority = Authority()
    transport = httpx.MockTransport(authority)
    ClientCredentials("a:b", "p@ss é", URL, transport=transport).current()
    sent = authority.requests[0].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent) == b"a%3Ab:p%40ss%20%C3%A9"


def test_a_token_is_kept_until_shortly_before_it_expires() -> None:
    authority = Authority(life=3600)
    credentials = authority.credentials()
    assert {credentials.current() for _ in range(5)} == {"token-1"}
    authority.now += 3539
    assert credentials.current() == "token-1"
    authority.now += 1
    assert credentials.current() == "token-2"


@pytest.mark.parametrize("life", [None, "3600", 0, -5, True, [1]])
def test_a_token_without_a_life_is_kept_until_it_is_refused(life: Any) -> None:
    authority = Authority(life=life)
    credentials = authority.credentials()
    credentials.current()
    authority.now += 1e9
    assert credentials.current() == "token-1"
    assert credentials.renewed("token-1") == "token-2"


def test_while_the_endpoint_is_away_a_valid_token_serves_and_nobody_waits() -> None:
    authority = Authority(life=100)
    credentials = authority.credentials()
    credentials.current()
    authority.now += 95
    authority.answers = [httpx.ConnectError]
    assert {credentials.current() for _ in range(4)} == {"token-1"}
    assert len(authority.requests) == 2  # tried once, and not with each request
    assert authority.slept == []
    authority.now += 6
    assert credentials.current() == "token-3"


@pytest.mark.parametrize("broken", [httpx.ConnectError, httpx.ReadTimeout, httpx.Response(503), httpx.Response(429)])
def test_without_a_token_the_exchange_is_tried_with_backoff(broken: Any) -> None:
    authority = Authority(answers=[broken] * 3)
    assert authority.credentials().current() == "token-4"
    assert authority.slept == [1.0, 2.0, 4.0]
    authority = Authority(answers=[broken] * 4)
    with pytest.raises(UnreachableError, match=r"No access token from https://login\.example\.com"):
        authority.credentials().current()
    assert len(authority.requests) == 4


def test_the_endpoint_s_retry_after_is_honoured() -> None:
    authority = Authority(answers=[httpx.Response(429, headers={"Retry-After": "7"})])
    authority.credentials().current()
    assert authority.slept == [7.0]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (refusal(), "400: invalid_client"),
        (refusal(401), "401: invalid_client"),
        (httpx.Response(400, json={"error": "x", "error_description": "unknown scope"}), "400: unknown scope"),
        (httpx.Response(404, text="<html>"), "404: no access token"),
        (httpx.Response(200, text="<html>"), "200: no access token"),
        (httpx.Response(200, json=["odd"]), "200: no access token"),
        (httpx.Response(200, json={"access_token": 5}), "200: no access token"),
        (httpx.Response(302, headers={"Location": "http://evil.example.com"}), "302: no access token"),
    ],
)
def test_what_the_endpoint_refuses_is_told_at_once_and_the_secret_goes_nowhere_else(
    answer: httpx.Response, says: str
) -> None:
    authority = Authority(answers=[answer])
    with pytest.raises(CredentialsError, match=says) as caught:
        authority.credentials().current()
    assert len(authority.requests) == 1
    assert "GNOMON_CLIENT_SECRET" in str(caught.value.advice)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://login.example.com/token", "ftp://127.0.0.1", "login", ""])
def test_no_secret_leaves_this_machine_unencrypted(url: str) -> None:
    with pytest.raises(UsageError, match="Token URL"):
        ClientCredentials("a", "b", url)


@pytest.mark.parametrize("token", ["", " ", "two words", "tö", "a\nb", "a\x00"])
def test_what_cannot_be_a_token_is_refused_before_it_is_sent(token: str) -> None:
    with pytest.raises(UsageError):
        checked(token)
    with pytest.raises(UsageError):
        Authority(answers=[httpx.Response(200, json={"access_token": token})]).credentials().current()
    assert checked(" eyJ.x-_ \n") == "eyJ.x-_"


# --- in a client ---


@dataclass
class Api:
    """Takes the tokens that are valid."""

    valid: set[str]
    seen: list[str] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        self.seen.append(token)
        if token not in self.valid:
            return httpx.Response(401, json={"message": "Unauthorized"})
        return httpx.Response(200, json={"id": "7d1f"})

    def client(self, tokens: Any) -> Client:
        return Client("http://127.0.0.1:1", tokens, transport=httpx.MockTransport(self), sleep=lambda _: None)


CALLS: list[Callable[[Client], object]] = [
    lambda client: client.get_job("1"),
    lambda client: client.create_job({}),
    lambda client: client.pause_job("1"),
    lambda client: client.update_job("1", {}, etag='"1"'),
    lambda client: client.delete_job("1"),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_token_is_replaced_and_the_request_made_once_more(call: Callable[[Client], object]) -> None:
    """Also one that must not be made twice: nothing was done."""
    authority, api = Authority(), Api({"token-2"})
    call(api.client(authority.credentials()))
    assert api.seen == ["token-1", "token-2"]


@pytest.mark.parametrize("call", CALLS)
def test_a_request_is_made_once_more_only(call: Callable[[Client], object]) -> None:
    authority, api = Authority(), Api(set())
    with pytest.raises(GnomonApiError, match="UNAUTHORIZED"):
        call(api.client(authority.credentials()))
    assert api.seen == ["token-1", "token-2"]


def test_a_fixed_token_is_sent_once() -> None:
    api = Api(set())
    with pytest.raises(GnomonApiError):
        api.client("mine").get_job("1")
    assert api.seen == ["mine"]


def test_a_token_that_others_renew_is_read_again() -> None:
    api, written = Api({"b"}), ["a"]
    client = api.client(RereadToken(lambda: written[0]))
    with pytest.raises(GnomonApiError):
        client.get_job("1")
    written[0] = "b"
    client.get_job("1")
    assert api.seen == ["a", "a", "b"]


def test_a_file_that_is_gone_for_a_while_does_no_harm() -> None:
    written: list[str] = ["a"]

    def read() -> str:
        if not written:
            raise UsageError("no file")
        return written[0]

    tokens = RereadToken(read)
    written.clear()
    assert tokens.renewed("a") is None
    assert tokens.current() == "a"


def test_only_what_may_change_is_renewable() -> None:
    kinds = (FixedToken("a"), RereadToken(lambda: "a"), Authority().credentials())
    assert [kind.renewable for kind in kinds] == [False, True, True]


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 500), st.booleans(), st.booleans()), max_size=30), st.integers(1, 400))
def test_no_token_is_sent_that_has_expired_while_another_may_be_had(
    steps: list[tuple[float, bool, bool]], life: int
) -> None:
    """Whenever time passes, the endpoint is away, or the API forgets its tokens."""
    authority = Authority(life=life)
    made: dict[str, float] = {}
    original = authority.__call__

    def issue(request: httpx.Request) -> httpx.Response:
        answer = original(request)
        if answer.status_code == 200:
            made[answer.json()["access_token"]] = authority.now + life
        return answer

    credentials = ClientCredentials(
        *("a", "b", URL),
        transport=httpx.MockTransport(issue),
        sleep=lambda _: None,
        clock=lambda: authority.now,
    )
    for passes, is_away, is_refused in steps:
        authority.now += passes
        authority.answers = [httpx.Response(503)] * 4 if is_away else []
        try:
            token = credentials.current()
        except UnreachableError:
            assert is_away
            continue
        assert authority.now < made[token]
        if is_refused and not is_away:
            assert credentials.renewed(token) not in (None, token)


# --- by several threads, over real HTTP ---


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("is_refused", [False, True])
def test_threads_share_one_exchange(is_refused: bool) -> None:
    exchanges: list[float] = []

    def slow(_request: httpx.Request) -> httpx.Response:
        exchanges.append(time.monotonic())
        time.sleep(0.2)
        return httpx.Response(200, json={"access_token": f"t{len(exchanges)}", "expires_in": 3600})

    with served(slow) as url:
        credentials = ClientCredentials("a", "b", f"{url}/oauth2/token")
        if is_refused:
            credentials.current()
        got = together(12, (lambda: credentials.renewed("t1")) if is_refused else credentials.current)

    assert len(exchanges) == 1 + is_refused
    assert set(got) == {f"t{1 + is_refused}"}


@pytest.mark.usefixtures("loopback")
def test_threads_share_a_failure_too() -> None:
    """Else each would try in turn, for as long as all of them together."""
    tried: list[float] = []

    def away(_request: httpx.Request) -> httpx.Response:
        tried.append(time.monotonic())
        time.sleep(0.1)
        return httpx.Response(503)

    with served(away) as url:
        credentials = ClientCredentials("a", "b", url, attempts=2, sleep=lambda _: None)
        got = together(8, credentials.current)

    assert len(tried) <= 4
    assert all(isinstance(one, UnreachableError) for one in got)


def together(count: int, call: Callable[[], Any]) -> list[Any]:
    """What each of so many threads gets, or what it raises."""
    results: list[Any] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        barrier.wait()
        try:
            results.append(call())
        except UnreachableError as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results

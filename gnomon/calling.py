"""Calls of the API: what is sent, what is repeated, and what an answer means."""

from __future__ import annotations

import json
import random
import time
import uuid
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

from gnomon.answers import api_error, not_ours, retry_after, unreachable
from gnomon.errors import UsageError
from gnomon.paging import Pages
from gnomon.safe_url import is_safe_url, trust
from gnomon.tokens import Bearer, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gnomon.tokens import Tokens

_BUSY = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 60.0
_OWN_FAULT = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)
"""Requests that cannot be sent, however often."""


class Caller:
    """One API, one caller. Not for use from several threads at once.

    Calls raise GnomonApiError for what the API refuses, UnreachableError when no answer comes, CredentialsError when
    there is no token. Calls that may be repeated safely are repeated, at most `attempts` times in all, with backoff:
    reads, replacements, deletions, and what carries an idempotency key, on 429, 502, 503, 504, a refused connection, a
    timeout and a lost answer; all others on 429 alone, which says that nothing was done. `Retry-After` is honoured, up
    to a minute. A refused token is replaced once a request where there is another.
    """

    def __init__(
        self,
        api_url: str,
        token: str | Tokens,
        *,
        timeout_seconds: float = 30.0,
        attempts: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`token`: an access token, or where tokens come from, such as ClientCredentials."""
        if not is_safe_url(api_url):
            raise UsageError(
                f"API URL {api_url!r} is neither https:// nor http:// on this machine.",
                advice="The token would travel unencrypted: use the https:// address of the stack's output.",
            )
        self._attempts = attempts
        self._sleep = sleep
        self._uniform = uniform
        self._clock = clock
        self.tokens = tokens_of(token)
        self._http = httpx.Client(
            base_url=api_url.rstrip("/"),
            auth=Bearer(self.tokens),
            headers={"Accept": "application/json"},
            timeout=timeout_seconds,
            transport=transport,
            **trust(api_url),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _keyed(
        self, path: str, body: Mapping[str, Any] | None, key: str | None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        headers = {"Idempotency-Key": key or str(uuid.uuid4()), **(headers or {})}
        return self._call("POST", path, body=body, headers=headers, repeatable=True)

    def _pages(self, path: str, filters: Mapping[str, Any], page_size: int, *, cursor: str | None = None) -> Pages[Any]:
        def read(size: int, cursor: str | None) -> dict[str, Any]:
            page = self._call("GET", path, query={**filters, "limit": size, "cursor": cursor})
            if not isinstance(page.get("data"), list):
                raise not_ours(self._http.base_url, "a list without `data`")
            return page  # type: ignore[no-any-return]  # it is a dict

        return Pages(read, page_size=page_size, cursor=cursor)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """`repeatable`: whether the call may be made twice; by its method where nothing is said."""
        response = self._answer(method, path, query=query, body=body, headers=headers, repeatable=repeatable)
        if response is None or not response.content:
            return None
        try:
            answer = response.json()
        except (ValueError, RecursionError):
            raise not_ours(response.url, f"{response.status_code} with something that is not JSON") from None
        if not isinstance(answer, dict):
            raise not_ours(response.url, f"{response.status_code} with JSON that is not an object")
        return answer

    def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> httpx.Response | None:
        """The answer of a call that succeeded; None for a deletion that had been done before."""
        for name, value in (headers or {}).items():
            if not value.isascii() or not value.isprintable():
                raise UsageError(f"{name} takes printable ASCII characters only, got {value!a:.64}.")
        request = self._http.build_request(
            method,
            path,
            params={name: value for name, value in (query or {}).items() if value is not None},
            content=None if body is None else _json(body),
            headers={**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})},
        )
        repeatable = method in {"GET", "PUT", "DELETE"} if repeatable is None else repeatable
        response, repeated = self._send(request, repeatable=repeatable)
        # The deletion whose answer was lost, or came as 503, has been done: there is nothing left.
        if method == "DELETE" and repeated and response.status_code == httpx.codes.NOT_FOUND:
            return None
        if not response.is_success:
            raise api_error(response)
        return response

    def _send(self, request: httpx.Request, *, repeatable: bool) -> tuple[httpx.Response, bool]:
        """The answer, and whether the request was sent more than once."""
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            asked: float | None = None
            try:
                response = self._http.send(request)
            except httpx.RequestError as error:
                if last or not repeatable or isinstance(error, _OWN_FAULT):
                    raise unreachable(request, error) from error
            else:
                busy = response.status_code in _BUSY and (repeatable or response.status_code == 429)
                if last or not busy:
                    return response, attempt > 1
                asked = retry_after(response.headers.get("Retry-After"), now=self._clock())
            drawn = self._uniform(0.5, 1.0) * 2 ** (attempt - 1)
            self._sleep(min(drawn if asked is None else asked, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")


def segment(name: str, what: str) -> str:
    """A name in its place of a path, which it cannot leave; raises UsageError for an empty one."""
    if not name:
        raise UsageError(f"The {what} is empty.")
    quoted = quote(name, safe="", errors="replace")
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


def if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"If-Match": etag}


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"The body cannot be written as JSON: {error}.") from error

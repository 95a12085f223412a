"""Access tokens: one that is given, one that is read again, and those that client credentials are exchanged for."""

from __future__ import annotations

import functools
import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import httpx

from gnomon.answers import retry_after
from gnomon.errors import CredentialsError, UnreachableError, UsageError
from gnomon.safe_url import is_safe_url, trust

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_BUSY = frozenset({429, 500, 502, 503, 504})
_LONGEST_WAIT = 30.0
_EARLY_SECONDS = 60.0
"""A token is replaced this long before it expires, or a tenth of its life."""

_log = logging.getLogger("gnomon.tokens")


class Tokens(Protocol):
    """Where a client has its access tokens from. Safe for use from several threads."""

    @property
    def renewable(self) -> bool:
        """Whether another token may come in the place of one that is refused, now or later."""

    def current(self) -> str:
        """The token to send. Raises UnreachableError or CredentialsError where there is none."""

    def renewed(self, refused: str) -> str | None:
        """Another token than the one that the API refused; None where there is none now."""


class FixedToken:
    """The one token there is."""

    renewable = False

    def __init__(self, token: str) -> None:
        self._token = checked(token)

    def current(self) -> str:
        return self._token

    def renewed(self, refused: str) -> str | None:  # noqa: ARG002 - as the protocol has it
        return None


class RereadToken:
    """A token that others renew, as `make up` does in its stack file: it is read again when the API refuses it."""

    renewable = True

    def __init__(self, read: Callable[[], str]) -> None:
        """`read` raises UsageError where there is none."""
        self._read = read
        self._token = checked(read())

    def current(self) -> str:
        return self._token

    def renewed(self, refused: str) -> str | None:
        try:
            self._token = checked(self._read())
        except UsageError as error:
            _log.warning("the access token cannot be read again: %s", error)
            return None
        return None if self._token == refused else self._token


@dataclass(frozen=True, slots=True)
class _Held:
    token: str
    renew_at: float
    """Of the clock, as `expires_at`."""
    expires_at: float


class ClientCredentials:
    """Tokens of a machine: OAuth 2.0 client credentials (RFC 6749, section 4.4), exchanged at the token endpoint.

    A token is kept until shortly before it expires, and replaced when the API refuses it. While the endpoint is away
    the token that is held serves as long as it is valid; without one each request tries `attempts` times, with backoff.
    """

    renewable = True

    def __init__(  # noqa: PLR0913 - three are needed, the others are for tests and odd endpoints
        self,
        client_id: str,
        client_secret: str,
        token_url: str,
        *,
        scope: str | None = None,
        timeout_seconds: float = 10.0,
        attempts: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`scope`: several with a space between; left out, all that the client may have."""
        if not is_safe_url(token_url):
            raise UsageError(
                f"Token URL {token_url!r} is neither https:// nor http:// on this machine.",
                advice="The client secret would travel unencrypted: use the https:// address.",
            )
        self._form = {"grant_type": "client_credentials", **({} if scope is None else {"scope": scope})}
        self._url = token_url
        self._attempts = attempts
        self._sleep = sleep
        self._uniform = uniform
        self._clock = clock
        # A connection for each exchange: there is one an hour, say. RFC 6749, section 2.3.1: id and secret are
        # form-encoded before they become a user name and a password.
        self._connected = functools.partial(
            httpx.Client,
            auth=httpx.BasicAuth(quote(client_id, safe=""), quote(client_secret, safe="")),
            headers={"Accept": "application/json"},
            timeout=timeout_seconds,
            transport=transport,
            **trust(token_url),
        )
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._retry_at = 0.0
        self._failure: tuple[float, UnreachableError | CredentialsError] | None = None

    def current(self) -> str:
        asked = self._clock()
        with self._lock:
            held, now = self._held, self._clock()
            if held is not None and now < held.renew_at:
                return held.token
            if held is None or now >= held.expires_at:
                return self._exchange(asked, self._attempts)
            if now >= self._retry_at:
                try:
                    return self._exchange(asked, 1)
                except (UnreachableError, CredentialsError) as error:
                    _log.warning("no new access token yet, the present one serves on: %s", error)
                    self._retry_at = self._clock() + self._uniform(0.5, 1.0) * _EARLY_SECONDS / 6
            return held.token

    def renewed(self, refused: str) -> str | None:
        asked = self._clock()
        with self._lock:
            if self._held is not None and self._held.token != refused:
                return self._held.token  # another thread was faster
            self._held = None
            token = self._exchange(asked, self._attempts)
        return None if token == refused else token

    def _exchange(self, asked: float, attempts: int) -> str:
        """A new token. Who waited while another thread tried in vain does not try for itself."""
        if self._failure is not None and asked < self._failure[0]:
            raise self._failure[1]
        try:
            held = self._ask(attempts)
        except (UnreachableError, CredentialsError) as error:
            self._failure = (self._clock(), error)
            raise
        self._held, self._failure = held, None
        return held.token

    def _ask(self, attempts: int) -> _Held:
        for attempt in range(1, attempts + 1):
            asked: float | None = None
            begun = self._clock()
            try:
                with self._connected() as http:
                    response = http.post(self._url, data=self._form)
            except httpx.RequestError as error:
                problem = str(error) or type(error).__name__
            else:
                if response.status_code not in _BUSY:
                    return self._read(response, begun)
                problem = f"it answered {response.status_code}"
                asked = retry_after(response.headers.get("Retry-After"), now=time.time())
            if attempt < attempts:
                drawn = self._uniform(0.5, 1.0) * 2 ** (attempt - 1)
                self._sleep(min(drawn if asked is None else asked, _LONGEST_WAIT))
        raise UnreachableError(
            f"No access token from {self._url}: {problem}.",
            advice="The token endpoint may be down, or GNOMON_TOKEN_URL may be wrong.",
        )

    def _read(self, response: httpx.Response, begun: float) -> _Held:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            answer = {}
        token, life = answer.get("access_token"), answer.get("expires_in")
        if not response.is_success or not isinstance(token, str):
            said = answer.get("error_description") or answer.get("error") or "no access token in its answer"
            raise CredentialsError(f"{self._url} answered {response.status_code}: {said}.")
        if not isinstance(life, int | float) or isinstance(life, bool) or not life > 0:
            life = float("inf")  # until it is refused
        early = min(_EARLY_SECONDS, life / 10)
        return _Held(checked(token), renew_at=begun + life - early, expires_at=begun + life)


def checked(token: str) -> str:
    """The token without white space around it; raises UsageError for what cannot be one."""
    text = token.strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(
            "The access token is empty, or has characters that a token cannot have.",
            advice="Give the token alone: eyJ…, without `Bearer`.",
        )
    return text


def tokens_of(token: str | Tokens) -> Tokens:
    """A token as it is, or where tokens come from."""
    return FixedToken(token) if isinstance(token, str) else token


class Bearer(httpx.Auth):
    """Sends the token, and once more with another one when it is refused: nothing was done then."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._tokens.current()
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        fresh = self._tokens.renewed(token)
        if fresh is not None:
            request.headers["Authorization"] = f"Bearer {fresh}"
            yield request

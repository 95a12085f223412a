"""Calls of a worker, which outlive an API that is away and a token that is refused."""

from __future__ import annotations

import itertools
import random
import threading
from typing import TYPE_CHECKING, TypeVar

from gnomon.errors import CredentialsError, GnomonApiError, GnomonError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gnomon.work_client import WorkClient

_LONGEST_PAUSE = 30.0

Answer = TypeVar("Answer")


class WorkCalls:
    """A client for each thread, made by `connect`, and made again when the API refuses its token."""

    def __init__(self, connect: Callable[[], WorkClient]) -> None:
        self._connect = connect
        self._threads = threading.local()
        self._open: set[WorkClient] = set()
        self.is_known = False
        """Whether a call has succeeded: until then a failure to connect is the caller's, then it is an outage."""

    @property
    def client(self) -> WorkClient:
        """This thread's own."""
        client: WorkClient | None = getattr(self._threads, "client", None)
        if client is not None:
            return client
        try:
            self._threads.client = client = self._connect()
            self._open.add(client)
        except Exception as error:  # users' code
            if not self.is_known:
                raise
            raise UnreachableError(f"no connection: {type(error).__name__}: {error}") from error
        return client

    def reconnect(self) -> None:
        """Have this thread connect again with its next call."""
        client: WorkClient | None = getattr(self._threads, "client", None)
        if client is not None:
            self._open.discard(client)
            client.close()
        self._threads.client = None

    def close(self) -> None:
        """Close the clients of all threads."""
        while self._open:
            self._open.pop().close()

    @property
    def are_renewable(self) -> bool:
        """Whether another token may come in the place of one that was refused."""
        try:
            return self.client.tokens.renewable
        except UnreachableError:
            return True

    def ask(
        self,
        call: Callable[[WorkClient], Answer],
        *,
        until: threading.Event,
        kept: Callable[[GnomonError], None] | None = None,
    ) -> Answer:
        """The answer, however long the API is away, unless `until` is set; raises what the API refuses for good.

        With `kept`, which is told of the first failure, that the caller is refused is not for good: a token may be
        renewed, a role given back.
        """
        for attempt in itertools.count():
            try:
                return call(self.client)
            except (UnreachableError, CredentialsError, GnomonApiError) as error:
                if is_unauthorized(error):
                    self.reconnect()
                    if attempt == 0:
                        continue
                if until.is_set() or not (_passes(error) or (kept is not None and _is_refused(error))):
                    raise
                if kept is not None and attempt <= 1:
                    kept(error)
                    kept = _nothing
            until.wait(pause_seconds(attempt))
        raise AssertionError("counting has no end")


def pause_seconds(failures: int) -> float:
    """Before another try: it doubles up to half a minute, jittered."""
    return random.uniform(0.5, 1.0) * min(2.0 ** min(failures, 5), _LONGEST_PAUSE)  # noqa: S311 - no secret


def is_unauthorized(error: GnomonError) -> bool:
    """Whether there is no token, or none that the API takes."""
    return isinstance(error, CredentialsError) or (isinstance(error, GnomonApiError) and error.status == 401)


def _is_refused(error: GnomonError) -> bool:
    """Whether it is the caller that is refused, not the call."""
    return is_unauthorized(error) or (isinstance(error, GnomonApiError) and error.status == 403)


def _passes(error: GnomonError) -> bool:
    """Whether the API is away, or too busy."""
    is_busy = isinstance(error, GnomonApiError) and error.status in (429, 500, 502, 503, 504)
    return is_busy or isinstance(error, UnreachableError)


def _nothing(_error: GnomonError) -> None:
    """The first failure was told."""

"""What signing the calls of owners' jobs needs of the world. As in ports.py, each docstring is the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from functions.domain.webhook_key import StoredKeys, WebhookKeys

if TYPE_CHECKING:
    from collections.abc import Callable


class WebhookKeyStore(Protocol):
    """The keys by which the calls of each owner's jobs are signed. Raises UnavailableError for what cannot be read."""

    def get(self, owner: str) -> StoredKeys | None: ...

    def create(self, owner: str, keys: WebhookKeys) -> StoredKeys:
        """Store the keys unless the owner has some; returns those that are stored."""
        ...

    def replace(self, owner: str, read: StoredKeys, keys: WebhookKeys) -> StoredKeys:
        """Store `keys` in the place of `read`, in one step and unless another call has replaced that; returns what is
        stored then."""
        ...


def made_keys(store: WebhookKeyStore, owner: str, *, new_secret: Callable[[], str], now: float) -> StoredKeys:
    """The owner's keys, made where there are none yet."""
    stored = store.get(owner)
    if stored is None:
        stored = store.create(owner, WebhookKeys(secret=new_secret(), created_at=int(now)))
    return stored

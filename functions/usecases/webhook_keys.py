"""An owner's webhook key: read it, rotate it (docs/webhooks.md)."""

from __future__ import annotations

from functions.domain.caller import Caller
from functions.domain.errors import ConflictError, NotFoundError
from functions.domain.webhook_key import StoredKeys, WebhookKeys
from functions.key_ports import made_keys
from functions.usecases.services import Services

MINE = "me"
"""Stands for the caller's own owner, and is the name of none."""


def read_key(services: Services, caller: Caller, owner: str) -> tuple[str, WebhookKeys]:
    """The owner and its keys, made where there are none. For callers who may change what it owns: with the secret they
    could sign calls as this owner's jobs.

    Raises NotFoundError and ForbiddenError.
    """
    name = _named(services, caller, owner)
    return name, _stored(services, name).keys


def rotate_key(services: Services, caller: Caller, owner: str, *, keep_seconds: int) -> tuple[str, WebhookKeys]:
    """Give the owner a new secret. Those before sign for so long beside it. Raises as `read_key`, and ConflictError
    where another call rotates it now, or it was rotated too often."""
    name = _named(services, caller, owner)
    stored = _stored(services, name)
    wanted = stored.keys.rotated(services.new_webhook_secret(), keep_seconds=keep_seconds, now=services.clock.now())
    if services.webhook_keys.replace(name, stored, wanted).keys != wanted:
        raise ConflictError("Another call rotated the key at the same time. Read it to get the new one.")
    return name, wanted


def _named(services: Services, caller: Caller, owner: str) -> str:
    name = caller.owner if owner == MINE else owner
    caller.must_change(name)
    if not caller.acts_for(name) and name not in services.owners.all():
        raise NotFoundError("There is no such owner of jobs.")
    return name


def _stored(services: Services, owner: str) -> StoredKeys:
    now = services.clock.now()
    return made_keys(services.webhook_keys, owner, new_secret=services.new_webhook_secret, now=now)

"""The configurations of job types: everybody reads them, admins change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functions.domain.caller import Caller
from functions.domain.errors import CorruptDefinitionError, NotFoundError
from functions.domain.job_type import StoredTypeConfig
from functions.ports import Page
from functions.usecases.services import Services


def read_config(services: Services, job_type: str) -> StoredTypeConfig:
    """Raises NotFoundError for a type that has none: its jobs follow the stage."""
    config = services.retry_configs.get(job_type)
    if config is None:
        raise _none(job_type)
    return config


def list_configs(services: Services, *, limit: int, cursor: str | None) -> Page[StoredTypeConfig]:
    return services.retry_configs.list(limit=limit, cursor=cursor)


def must_administer(caller: Caller) -> None:
    """Raises ForbiddenError for all but admins."""
    caller.must_administer("the configuration of a job type")


def put_config(services: Services, caller: Caller, job_type: str, document: Mapping[str, Any]) -> StoredTypeConfig:
    """Store the configuration, checked before, in the place of the one that was there; the one that is there where it
    says the same. Raises ForbiddenError."""
    must_administer(caller)
    stored = _stored(services, job_type)
    if stored is not None and stored.document == document:
        return stored
    config = StoredTypeConfig(
        job_type=job_type, document=document, updated_at=int(services.clock.now()), updated_by=caller.id
    )
    services.retry_configs.put(config)
    return config


def _stored(services: Services, job_type: str) -> StoredTypeConfig | None:
    """None for one that cannot be read, too: it is replaced."""
    try:
        return services.retry_configs.get(job_type)
    except CorruptDefinitionError:
        return None


def delete_config(services: Services, caller: Caller, job_type: str) -> None:
    """Raises ForbiddenError, and NotFoundError for a type that has none."""
    must_administer(caller)
    if not services.retry_configs.delete(job_type):
        raise _none(job_type)


def _none(job_type: str) -> NotFoundError:
    return NotFoundError(f"There is no retry configuration of the job type {job_type}.")

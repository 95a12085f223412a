"""Job types' configurations in the memory of a function, for a few seconds each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.errors import CorruptDefinitionError
from functions.domain.job_type import TypeConfig

if TYPE_CHECKING:
    from functions.ports import Clock, RetryConfigs

logger = logging.getLogger(__name__)

REMEMBERED_SECONDS = 15
"""How long a change of a type's configuration may go unnoticed."""
REMEMBERED_TYPES = 1_000


class _Known(NamedTuple):
    config: TypeConfig
    until: float
    failing: bool
    """It could not be read when it was last looked for, which was told."""


class RememberedJobTypes:
    """JobTypes over the stored configurations. Two threads that ask at once may both read: no harm."""

    def __init__(self, configs: RetryConfigs, *, clock: Clock, defaults: TypeConfig) -> None:
        self._configs = configs
        self._clock = clock
        self._defaults = defaults
        self._known: dict[str, _Known] = {}

    def get(self, job_type: str | None) -> TypeConfig:
        if job_type is None:
            return self._defaults
        now, known = self._clock.now(), self._known.get(job_type)
        if known is not None and now < known.until:
            return known.config
        read = self._read(job_type, known)
        last = self._defaults if known is None else known.config
        config = last if read is None else read
        if len(self._known) >= REMEMBERED_TYPES:
            self._known.clear()
        self._known[job_type] = _Known(config, now + REMEMBERED_SECONDS, failing=read is None)
        return config

    def _read(self, job_type: str, known: _Known | None) -> TypeConfig | None:
        try:
            stored = self._configs.get(job_type)
            config = self._defaults if stored is None else TypeConfig.read(stored.document).over(self._defaults)
        except (ClientError, BotoCoreError, CorruptDefinitionError):
            if known is None or not known.failing:
                logger.warning("configuration of the job type %s cannot be read", job_type, exc_info=True)
            return None
        return config

"""The handlers of this release, from the manifest that the bundle's check wrote: no module of handlers is imported."""

from __future__ import annotations

import json
import logging
from functools import cache
from pathlib import Path

from functions.domain.handler_names import KnownHandlers

logger = logging.getLogger(__name__)

MANIFEST = Path(__file__).parents[1] / "jobs" / "_manifest.json"


@cache
def bundled_handlers(file: Path = MANIFEST) -> KnownHandlers | None:
    """None where there is no manifest, as in the sources, or it cannot be read: then every name may be one."""
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        return KnownHandlers(names=frozenset(manifest["handlers"]), broken=tuple(manifest["broken"].values()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        logger.exception("the manifest of handlers cannot be read")
        return None

"""Ids that follow from a seed: a story that was drawn from one is the same whenever it is told."""

from __future__ import annotations

import contextlib
import random
import secrets
import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def ids_of(seed: int) -> Iterator[None]:
    """Meanwhile, every id that tests and product draw follows from the seed."""
    drawn = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=drawn.getrandbits(128), version=4))
        patch.setattr(secrets, "token_bytes", lambda count=32: drawn.randbytes(count))
        yield

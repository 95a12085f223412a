"""Previews without a stack: the functions' own calculation, run as a process of its own.

The client is installed without the functions, and never imports them. In the project's folder they are beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx

from gnomon.answers import api_error
from gnomon.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gnomon.shapes import Preview

_PROJECT = Path(__file__).resolve().parents[1]
_MODULE = "functions.api.local_preview"


def is_at_hand() -> bool:
    """Whether the functions are beside the client."""
    return (_PROJECT / Path(*_MODULE.split("."))).with_suffix(".py").is_file()


def preview(query: Mapping[str, Any]) -> Preview:
    """What the API would answer to these parameters; raises GnomonApiError as a client does, and UsageError where the
    functions cannot run."""
    given = {name: value for name, value in query.items() if value is not None}
    url = httpx.URL("https://localhost/v1/schedule/preview", params=given)
    command = [sys.executable, "-m", _MODULE, url.query.decode()]
    done = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, check=False, timeout=60)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise UsageError(
            f"The schedule cannot be calculated here: {last}",
            advice="Use the program that `make setup` installs, .venv/bin/gnomon, or name a stack with --api-url.",
        ) from None
    response = httpx.Response(found["status"], json=found["answer"], request=httpx.Request("GET", url))
    if response.is_error:
        raise api_error(response)
    return cast("Preview", found["answer"])

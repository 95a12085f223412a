"""Example: removes files from a directory of the function's scratch space once they are old enough."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from functions.jobs import NonRetryable, Run, job

_EVERY = 1_000
"""Files between two reports of progress."""


@job("expire-files")
def expire_files(payload: Any, run: Run) -> dict[str, int]:
    """Remove the files of `{"directory", "olderThanSeconds"}`; the directory's name is relative to /tmp.

    Returns how many were removed and how many stay. Repeating it is harmless. A payload that makes no sense, or a
    directory elsewhere, is NonRetryable; a directory that does not exist has no files.
    """
    try:
        name, seconds = payload["directory"], float(payload["olderThanSeconds"])
        root = Path(tempfile.gettempdir()).resolve()
        directory = (root / name).resolve()
    except (KeyError, TypeError, ValueError) as error:
        raise NonRetryable('the payload must be {"directory": name, "olderThanSeconds": number}') from error
    if root not in directory.parents:
        raise NonRetryable(f"{name!r} is not inside {root}")
    files = [path for path in directory.iterdir() if path.is_file()] if directory.is_dir() else []
    old = [path for path in files if path.stat().st_mtime < time.time() - seconds]
    for number, path in enumerate(old):
        if number % _EVERY == 0:
            run.report_progress(100 * number / len(old), f"{number} of {len(old)} removed")
        path.unlink(missing_ok=True)
    return {"removed": len(old), "kept": len(files) - len(old)}

"""Imports one module of functions/jobs as Lambda would, and writes what came of it. `infra.handlers` runs it in its own
process, with an interpreter that sees nothing but the bundle.

    python -I -S -B import_handlers.py <module> <file for the answer> <folder on sys.path>…
"""

import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    module, answer, *folders = sys.argv[1:]
    sys.path[:0] = folders
    sys.argv = [""]
    import importlib  # noqa: PLC0415 - after the path is set

    from functions.jobs import registry  # noqa: PLC0415 - of the bundle

    # As they are before the module may replace them. Its threads and exit functions are not waited for.
    dumps, write, leave = json.dumps, Path(answer).write_text, os._exit
    said: dict[str, object] = {}
    try:
        importlib.import_module(f"functions.jobs.{module}")
    except BaseException as error:  # noqa: BLE001 - whatever a module raises
        frames = traceback.extract_tb(error.__traceback__)
        said = {"error": type(error).__name__, "message": str(error), "place": _place(error, frames)}
        said["missing"] = error.name if isinstance(error, ModuleNotFoundError) else None
        said["environ"] = isinstance(error, KeyError) and frames[-1].filename in ("<frozen os>", os.__file__)
    said["handlers"] = registry.registered()
    write(dumps(said), encoding="utf-8")
    leave(0)


def _place(error: BaseException, frames: traceback.StackSummary) -> str | None:
    """The line of the bundle's own code where it happened, as `functions/jobs/reports.py:3`."""
    lines = [(frame.filename, frame.lineno) for frame in frames]
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "", error.lineno))
    ours = [(file.rpartition("/functions/")[2], line) for file, line in lines if "/functions/" in file]
    ours = [(file, line) for file, line in ours if file != "jobs/registry.py"]
    return f"functions/{ours[-1][0]}:{ours[-1][1]}" if ours else None


if __name__ == "__main__":
    main()

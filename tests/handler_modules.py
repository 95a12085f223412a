"""Modules of handlers as people write them, working and broken, and a bundle that has them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES = Path(__file__).parents[1] / "functions"
HANDLER = """
from functions.jobs import job


@job("{name}")
def handler(payload, run):
    return "{name}"
"""
BEFORE, AFTER = "before", "after"
"""Whether it goes wrong before the handler is registered, or after."""

BROKEN = {
    "missing": ("import requests_that_nobody_packaged", "ModuleNotFoundError", "requirements/functions.in"),
    "missing_part": ("import json.of_another_library", "ModuleNotFoundError", "requirements/functions.in"),
    "missing_name": ("from json import no_such_function", "ImportError", "inside the handler"),
    "of_development": ("import pytest", "ModuleNotFoundError", "requirements/functions.in"),
    "of_the_client": ("import gnomon.client", "ModuleNotFoundError", "functions may import functions alone"),
    "syntax": ("def close(:", "SyntaxError", "Correct the syntax"),
    "indentation": ("def close():\nreturn 1", "IndentationError", "Correct the syntax"),
    "variable": (
        'import os\nSECRET = os.environ["GNOMON_OF_THE_CALLER"]',
        "KeyError",
        "inside the handler, with a default",
    ),
    "value": ("LIMIT = int('many')", "ValueError", "inside the handler"),
    "base": ("class Stop(BaseException):\n    pass\n\n\nraise Stop('now')", "Stop", "inside the handler"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt", "inside the handler"),
    "group": ("raise BaseExceptionGroup('all', [SystemExit(1)])", "BaseExceptionGroup", "inside the handler"),
    "exits": ("import sys\nsys.exit(3)", "SystemExit: 3", "must not exit"),
    "quits": ("quit()", "NameError", "inside the handler"),
    "recursion": ("def deep():\n    return deep()\n\n\ndeep()", "RecursionError", "inside the handler"),
    "coroutine": (
        "from functions.jobs import job as other\n\n\n@other('coroutine')\nasync def later(payload, run): ...",
        "TypeError",
        "inside the handler",
    ),
    "name": ("from functions.jobs import job as other\n\nother('a name')(print)", "ValueError", "inside the handler"),
}
"""By module: what goes wrong in it, how that is named, and a part of the advice."""

DYING = {
    "ends": ("import os\nos._exit(4)", "ends the process with status 4"),
    "killed": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "ends the process with status -9"),
    "aborts": ("import os\nos.abort()", "ends the process with status -6"),
    "loops": ("while True:\n    pass", "takes more than"),
    "sleeps": ("import time\ntime.sleep(3600)", "takes more than"),
}
"""Modules whose import ends the process, or never ends."""

WORKING = {
    "plain": "",
    "prints": "import sys\nprint('{\"handlers\": {}}' * 1000)\nprint('x' * 200_000, file=sys.stderr)",
    "listens": "import socket\nserver = socket.create_server(('127.0.0.1', 0))",
    "threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
    "children": "import subprocess\nsubprocess.Popen(['sleep', '600'])",
    "at_exit": "import atexit, time\natexit.register(time.sleep, 600)",
    "region": "import os\nREGION = os.environ['AWS_REGION']",
    "client": "import boto3\nS3 = boto3.client('s3')",
    "logs": "import logging\nlogging.basicConfig(level='DEBUG')\nlogging.error('at import')",
    "reads": "from pathlib import Path\nTEXT = Path(__file__).read_text()",
    "moves": "import os, sys\nos.chdir('/')\nsys.path.clear()",
    "closes": "import sys\nsys.stdout.close()\nsys.stderr.close()",
    "replaces": "import json, sys\njson.dumps = print\nsys.modules.pop('json')",
}


def source(name: str, trouble: str, where: str = AFTER) -> str:
    """A module that registers `name`, with some lines before or after."""
    handler = HANDLER.format(name=name)
    return f"{trouble}\n{handler}" if where == BEFORE else f"{handler}\n\n{trouble}\n"


def bundle_of(folder: Path, modules: Mapping[str, str]) -> Path:
    """A folder as the bundle is, with these modules of handlers by name and source."""
    jobs = folder / "functions" / "jobs"
    jobs.mkdir(parents=True)
    (folder / "functions" / "__init__.py").touch()
    for name in ("__init__", "registry", "running"):
        shutil.copy(SOURCES / "jobs" / f"{name}.py", jobs)
    for name, text in modules.items():
        file = jobs / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder

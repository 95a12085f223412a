"""Checks the Python handlers of a bundle before it is deployed: which module registers what, and which is broken.

Each module of functions/jobs is imported in a process of its own, as Lambda would import it: from the bundle and the
packages of Lambda's runtime, without the packages and variables of the machine that builds.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.settings import TELEMETRY_VARIABLES, JobsSettings

MANIFEST = "_manifest.json"
"""Name of the file in functions/jobs of the bundle; functions/jobs/registry.py and the API read it."""
IMPORT_SECONDS = 20.0
"""How long the import of one module may take."""
RUNTIME_PACKAGES = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
"""What Lambda's Python runtime has beside the standard library."""
PROBE = Path(__file__).with_name("import_handlers.py")
_ENGINE = {"registry", "running"}
"""Modules of functions/jobs that are not the user's."""
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DECORATOR = re.compile(rf"^\s*@(?:[\w.]+\.)?job\(\s*[\"']({_NAME.pattern})[\"']", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of importing one module."""

    module: str
    handlers: Mapping[str, Sequence[str]]
    """By name, the modules that registered each; of a module that failed also those that its source names."""
    error: str | None = None
    """What went wrong, with its place; None for a module that was imported."""
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    modules: Sequence[Imported]

    @property
    def owners(self) -> dict[str, list[str]]:
        """Modules by the names of handlers."""
        found: dict[str, set[str]] = {}
        for one in self.modules:
            for name, owners in one.handlers.items():
                found.setdefault(name, set()).update(owners)
        return {name: sorted(owners) for name, owners in sorted(found.items())}

    def manifest(self) -> str:
        broken = {one.module: _with_place(one) for one in self.modules if one.error}
        return json.dumps({"handlers": self.owners, "broken": broken}, indent=1)

    def report(self) -> str:
        """What does not work, module by module, and what to do; empty where everything does."""
        owners = self.owners
        parts = []
        for one in self.modules:
            if one.error is not None:
                names = ", ".join(name for name, among in owners.items() if one.module in among) or "none that is known"
                parts.append(f"functions/jobs/{one.module} (handlers: {names})\n  {one.error}\n  {one.advice}")
        for name, among in owners.items():
            if len(among) > 1:
                files = " and ".join(f"functions/jobs/{module}" for module in among)
                parts.append(f"{files} (handler: {name})\n  Each registers the name {name!r}.\n  Rename all but one.")
        return "\n".join(parts)


def _with_place(one: Imported) -> str:
    error = str(one.error)
    return error if error.startswith("functions/") else f"functions/jobs/{one.module}: {error}"


def locked(requirements: Path) -> dict[str, str]:
    """The version of each package in a lock file, by name."""
    return dict(_LOCKED.findall(requirements.read_text(encoding="utf-8")))


def check(folder: Path, *, requirements: Path, is_foreign: bool) -> Checked | None:
    """Import every handler module of the bundle in `folder`; None where it has no functions/jobs.

    `is_foreign`: the bundle's packages are for another machine. Then those of this one are taken, as far as
    `requirements`, the lock file of the bundle, names them.
    """
    jobs = folder / "functions" / "jobs"
    if not jobs.is_dir():
        return None
    modules = sorted(found.name for found in pkgutil.iter_modules([str(jobs)]) if found.name not in _ENGINE)
    with tempfile.TemporaryDirectory() as scratch:
        names = list(locked(requirements)) if is_foreign else []
        path = [*_linked(names, Path(scratch)), folder, *_linked(RUNTIME_PACKAGES, Path(scratch))]

        def import_one(module: str) -> Imported:
            return _import(module, folder, path)

        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            return Checked(modules=list(pool.map(import_one, modules)))


def _linked(distributions: Sequence[str], scratch: Path) -> Iterator[Path]:
    """A folder for each installed distribution, with links to what it installed: nothing beside it can be imported."""
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found = importlib.metadata.distribution(name)
            view = scratch / name
            if not view.exists():
                view.mkdir()
                for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
                    (view / top).symlink_to(Path(str(found.locate_file(top))).resolve())
            yield view


def _import(module: str, folder: Path, path: Sequence[Path]) -> Imported:
    with tempfile.TemporaryDirectory() as home:
        answer, errors = Path(home) / "answer", Path(home) / "errors"
        command = [sys.executable, "-I", "-S", "-B", PROBE, module, answer, *path]
        with errors.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
                [str(part) for part in command],
                cwd=folder,
                env=_environment(folder, home),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(IMPORT_SECONDS)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
        last = errors.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    if said and "error" not in said:
        return Imported(module=module, handlers=said["handlers"])
    named = {name: [module] for name in _named_in(folder / "functions" / "jobs", module)}
    error, advice = _explained(said, status, last)
    return Imported(module=module, handlers={**named, **said.get("handlers", {})}, error=error, advice=advice)


def _environment(folder: Path, home: str) -> dict[str, str]:
    """The variables that Lambda and the stage set for the function, and no other."""
    telemetry = zip(TELEMETRY_VARIABLES, ("jobs", "INFO", "Gnomon"), strict=True)
    return dict.fromkeys(JobsSettings.variables(), "check") | {
        **dict(telemetry),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": ":UTC",
        "HOME": home,
        "TMPDIR": home,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "check",
        "AWS_SECRET_ACCESS_KEY": "check",
        "AWS_SESSION_TOKEN": "check",
        "AWS_LAMBDA_FUNCTION_NAME": "jobs",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python",
        "LAMBDA_TASK_ROOT": str(folder),
        "_HANDLER": "functions.handlers.jobs.handler",
    }


def _explained(said: Mapping[str, Any], status: int | None, last: str) -> tuple[str, str]:
    """What went wrong, and what to do about it."""
    if not said and status is None:
        return f"the import takes more than {IMPORT_SECONDS:g} s", "Do slow work inside the handler."
    if not said:
        ended = f"the import ends the process with status {status}" + (f": {last}" if last else "")
        return ended, "A module must leave the process alone when it is imported."
    where = f"{said['place']}: " if said.get("place") else ""
    return f"{where}{said['error']}: {said['message']}", _advice(said)


def _advice(said: Mapping[str, Any]) -> str:
    missing = str(said.get("missing") or "")
    if missing.partition(".")[0] in ("functions", "infra", "gnomon", "tests"):
        return f"The bundle has no module {missing!r}: functions may import functions alone."
    if missing:
        return f"The bundle has no {missing!r}: add its package to requirements/functions.in, then run `make lock`."
    if said.get("environ"):
        return "Variables of your shell do not exist in Lambda: read the variable inside the handler, with a default."
    if said["error"] == "SystemExit":
        return "A module must not exit when it is imported."
    if said["error"] in ("SyntaxError", "IndentationError", "TabError"):
        return f"Correct the syntax (this is Python {sys.version_info.major}.{sys.version_info.minor})."
    return "Correct it, or do what can fail inside the handler."


def _named_in(jobs: Path, module: str) -> Iterator[str]:
    """Names of handlers that the module's source says it registers."""
    file = jobs / f"{module}.py"
    source = (file if file.is_file() else jobs / module / "__init__.py").read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        yield from _DECORATOR.findall(source)
        return
    known = {"job"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("functions.jobs"):
            known |= {alias.asname for alias in node.names if alias.name == "job" and alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if called in known and isinstance(name := node.args[0].value, str) and _NAME.fullmatch(name):
                yield name

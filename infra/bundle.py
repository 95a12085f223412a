"""Packages the functions and their dependencies for a stage: `python -m infra.bundle --stage local|dev|prod`.

The folder `.build/<platform>` that it makes is the one asset of all functions. Wheels are fetched by uv (on PATH, or
named by the variable UV) for the platform the code will run on, so nothing is compiled and no container is needed.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from infra import handlers
from infra.stage import STAGES, Platform

ROOT = Path(__file__).parents[1]
_IGNORED = ("__pycache__", "*.pyc", handlers.MANIFEST)


class BundleError(Exception):
    """The code could not be packaged; the message says what is missing."""


class HandlersError(BundleError):
    """Handlers of the bundle do not work; the message says which, why, and what to do."""


def bundle(target: Platform, *, root: Path, uv: str, tolerant: bool = False) -> bool:
    """Make `.build/<platform>` unless it is there already, made from the same inputs; returns whether it was made.

    Raises BundleError where uv fails, HandlersError where modules of functions/jobs do not work. `tolerant`: the folder
    is made all the same before that is raised, and once more by the next call.
    """
    folder = root / ".build" / target.directory
    stamp_file = folder.with_suffix(".stamp")
    stamp = _stamp(target, root)
    if folder.is_dir() and stamp_file.is_file() and stamp_file.read_text(encoding="utf-8") == stamp:
        return False
    stamp_file.unlink(missing_ok=True)
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    _install(target, requirements=root / "requirements" / "functions.txt", folder=fresh, uv=uv)
    shutil.copytree(root / "functions", fresh / "functions", ignore=shutil.ignore_patterns(*_IGNORED))
    problems = _check_handlers(target, fresh, root)
    if problems and not tolerant:
        raise HandlersError(problems)
    if compiles(target):
        _compile(fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    if problems:
        raise HandlersError(problems)
    stamp_file.write_text(stamp, encoding="utf-8")
    return True


def _install(target: Platform, *, requirements: Path, folder: Path, uv: str) -> None:
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--target", str(folder), "--requirement", str(requirements)]
    command += ["--python", sys.executable]
    if target.wheels is not None:
        command += ["--python-platform", target.wheels]
    if target.python is not None:
        command += ["--python-version", target.python]
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 - our own arguments, no shell
        raise BundleError(
            "uv could not install requirements/functions.txt; its own message is above. "
            "Is the package index reachable? Behind a proxy set HTTPS_PROXY; a mirror goes into UV_DEFAULT_INDEX."
        )


def compiles(target: Platform) -> bool:
    """Whether byte code made here is that of the Python that the functions will run on; on the emulator, which can
    keep its own, none is made."""
    return target.python == _this_python()


def _this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _compile(folder: Path) -> None:
    """Byte code beside all sources: Lambda's folder is read-only, and without any each cold start compiles anew.

    Valid by no date, and with the paths that the sources have on Lambda: the same sources give the same files.
    """
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(folder), "-p", "/var/task", str(folder)]
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 - as above
        raise BundleError("byte code could not be made of every module; Python's own message is above")


def _check_handlers(target: Platform, folder: Path, root: Path) -> str:
    """Write the manifest of the handlers; returns what is wrong with them."""
    requirements = root / "requirements" / "functions.txt"
    checked = handlers.check(folder, requirements=requirements, is_foreign=target.wheels is not None)
    if checked is None:
        return ""
    (folder / "functions" / "jobs" / handlers.MANIFEST).write_text(checked.manifest(), encoding="utf-8")
    return checked.report()


def _stamp(target: Platform, root: Path) -> str:
    """Hash of everything the folder is made from."""
    digest = hashlib.sha256()
    python = target.python or platform.python_version()
    digest.update(f"{target.wheels or platform.platform()}\0{python}\0{compiles(target)}\0".encode())
    for check in (handlers.__file__, handlers.PROBE):
        digest.update(Path(check).read_bytes())
    for file in _inputs(root):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _inputs(root: Path) -> Iterator[Path]:
    yield root / "requirements" / "functions.txt"
    for file in sorted((root / "functions").rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            yield file


def _find_uv() -> str:
    found = os.environ.get("UV") or shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        raise BundleError("uv is missing: put it on PATH or name it in the variable UV")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.bundle", description="Package the functions for a stage.")
    parser.add_argument("--stage", choices=sorted(STAGES), default="dev")
    parser.add_argument("--problems", type=Path, help="write what is wrong with handlers to this file and go on")
    arguments = parser.parse_args()
    target, problems = STAGES[arguments.stage].platform, arguments.problems
    made = True
    try:
        made = bundle(target, root=ROOT, uv=_find_uv(), tolerant=problems is not None)
    except HandlersError as error:
        if problems is None:
            sys.exit(f"Handlers in functions/jobs do not work:\n{error}")
        problems.write_text(str(error), encoding="utf-8")
    except BundleError as error:
        sys.exit(str(error))
    sys.stdout.write(f".build/{target.directory}: {'made' if made else 'unchanged'}\n")
    if target.python is not None and not compiles(target):
        sys.stdout.write(
            f"without byte code, which Python {target.python} would make and this is {_this_python()}: "
            "cold starts compile every module\n"
        )


if __name__ == "__main__":
    main()

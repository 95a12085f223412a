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

from infra.stage import STAGES, Platform

ROOT = Path(__file__).parents[1]
_IGNORED = ("__pycache__", "*.pyc")


class BundleError(Exception):
    """The code could not be packaged; the message says what is missing."""


def bundle(target: Platform, *, root: Path, uv: str) -> bool:
    """Make `.build/<platform>` unless it is there already, made from the same inputs; returns whether it was made.

    Raises BundleError where uv fails.
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
    _check_handlers(root)
    if compiles(target):
        _compile(fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
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
        raise BundleError("uv could not install requirements/functions.txt; its own message is above")


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


def _check_handlers(root: Path) -> None:
    """Import functions/jobs once: one module that cannot be imported would fail every handler, at its first run."""
    if not (root / "functions" / "jobs").is_dir():
        return
    command = [sys.executable, "-c", "from functions.jobs.registry import load; load()"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - as above
    if answer.returncode != 0:
        raise BundleError(f"functions/jobs cannot be imported, so no handler would run:\n{answer.stderr.strip()}")


def _stamp(target: Platform, root: Path) -> str:
    """Hash of everything the folder is made from."""
    digest = hashlib.sha256()
    python = target.python or platform.python_version()
    digest.update(f"{target.wheels or platform.platform()}\0{python}\0{compiles(target)}\0".encode())
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
    target = STAGES[parser.parse_args().stage].platform
    try:
        made = bundle(target, root=ROOT, uv=_find_uv())
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

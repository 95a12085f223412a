"""`make lock`: resolves requirements/*.in into *.txt with hashes, and each package.json into its lock file.

The lock files name no index: they serve behind any mirror.
"""

from __future__ import annotations

import argparse
import shutil
import sys

from gnomon.local import toolchain
from gnomon.local.places import LOCAL
from gnomon.local.processes import run
from gnomon.local.report import exit_code, step

OLDEST_PYTHON = "3.11"


def lock(*, upgrade: bool) -> None:
    """Resolve all; present versions stay where they still fit, unless `upgrade`. Raises LocalError."""
    environment = toolchain.environment()
    for source in sorted(toolchain.REQUIREMENTS.glob("*.in")):
        with step(source.name):
            run(
                [
                    toolchain.BOOTSTRAP / "bin" / "uv",
                    "pip",
                    "compile",
                    "--universal",
                    "--generate-hashes",
                    "--no-header",
                    "--no-emit-index-url",
                    f"--python-version={OLDEST_PYTHON}",
                    f"--output-file={source.with_suffix('.txt').name}",
                    *(["--upgrade"] if upgrade else []),
                    source.name,
                ],
                log=LOCAL / "logs" / f"lock-{source.stem}.log",
                environment=environment,
                directory=source.parent,
                advice=toolchain.NETWORK_ADVICE,
            )
    for package in sorted(toolchain.REQUIREMENTS.glob("*/package.json")):
        with step(f"{package.parent.name}/{package.name}"):
            run(
                [*toolchain.npm(), "install", "--package-lock-only", "--omit-lockfile-registry-resolved", "--no-audit"],
                log=LOCAL / "logs" / f"lock-{package.parent.name}.log",
                environment=environment,
                directory=package.parent,
                advice=toolchain.NETWORK_ADVICE,
            )
        shutil.rmtree(package.parent / "node_modules", ignore_errors=True)


def main() -> int:
    """`python -m gnomon.local.lock [--upgrade]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true")
    upgrade = parser.parse_args().upgrade
    return exit_code(lambda: lock(upgrade=upgrade))


if __name__ == "__main__":
    sys.exit(main())

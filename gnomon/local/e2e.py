"""`make e2e`: the end-to-end tests on the stack that is up, or else on one of their own, which is removed again.

Modules that mostly wait and disturb nobody are marked `beside` and run side by side; then come the others, one by one.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

from gnomon.local import aws, emulator, stack, toolchain
from gnomon.local.places import ROOT, Place, at, place
from gnomon.local.report import LocalError, exit_code

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

SIDE_BY_SIDE = 3
_NONE_CHOSEN = 5
"""How pytest ends where no test was chosen (`ARGS="-k …"`)."""


def run_tests(*, fresh: bool, arguments: Sequence[str]) -> None:
    """Run them; raises LocalError when one fails. A stack made for them is gone afterwards, whatever happens."""
    running = place()
    own = fresh or emulator.find(running) is None
    where = _place_of_their_own() if own else running
    signal.signal(signal.SIGTERM, _end)
    try:
        stack.up(where)
        _pytest(where, arguments)
    finally:
        if own:
            emulator.remove(where)


def _pytest(where: Place, arguments: Sequence[str]) -> None:
    environment = aws.without_aws(toolchain.environment())
    environment.update(GNOMON_PORT=str(where.port), GNOMON_STACK=str(where.stack_file))

    paths = [] if any((ROOT / each.partition("::")[0]).exists() for each in arguments) else ["tests/e2e"]

    def run(*chosen: str) -> int:
        command = [str(toolchain.DEVELOPMENT / "bin" / "python"), "-m", "pytest", *paths, *chosen, *arguments]
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode

    side_by_side = ("-n", str(SIDE_BY_SIDE), "--dist", "loadfile")
    codes = [run("-m", "e2e and beside", *side_by_side), run("-m", "e2e and not beside")]
    failed = [code for code in codes if code not in (0, _NONE_CHOSEN)]
    if failed or all(codes):
        raise LocalError(f"the end-to-end tests ended with {(failed or codes)[0]}")


def _place_of_their_own() -> Place:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return at(port)


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)  # so that what was started is ended on the way out


def main() -> int:
    """`python -m gnomon.local.e2e [--fresh] [-- arguments of pytest]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="on a stack of their own even where one is up")
    parser.add_argument("arguments", nargs="*", help="passed to pytest")
    chosen = parser.parse_args()
    aws.forget_accounts(os.environ)
    return exit_code(lambda: run_tests(fresh=chosen.fresh, arguments=chosen.arguments))


if __name__ == "__main__":
    sys.exit(main())

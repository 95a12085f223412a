"""`make e2e`: the end-to-end tests on the stack that is up, or else on one of their own, which is removed again.

Modules that mostly wait and disturb nobody are marked `beside` and run side by side; then come the others, one by one,
first those that measure nothing (`patient`). `make ci` has all others run (`make tests`) while these two groups do,
with what they leave of the processors; what measures has the machine for itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

from gnomon.local import aws, emulator, stack, toolchain
from gnomon.local.places import LOCAL, ROOT, Place, at, place
from gnomon.local.report import LocalError, exit_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

SIDE_BY_SIDE = 3
PYTEST = (str(toolchain.DEVELOPMENT / "bin" / "python"), "-m", "pytest")
OTHERS = ("nice", "-n", "10", *PYTEST, "-n", "2", "-m", "not e2e and not nightly")
_NONE_CHOSEN = 5
"""How pytest ends where no test was chosen (`ARGS="-k …"`)."""


def run_tests(*, fresh: bool, everything: bool, arguments: Sequence[str]) -> None:
    """Run them; raises LocalError when one fails. A stack made for them is gone afterwards, whatever happens.

    With `everything`, the tests that need no stack run too, beside those that mostly wait.
    """
    running = place()
    own = fresh or emulator.find(running) is None
    where = place_of_its_own() if own else running
    signal.signal(signal.SIGTERM, _end)
    try:
        with _others(arguments) if everything else contextlib.nullcontext(lambda: _NONE_CHOSEN) as others:
            stack.up(where)
            _pytest(where, arguments, others)
    finally:
        if own:
            emulator.remove(where)


@contextlib.contextmanager
def _others(arguments: Sequence[str]) -> Iterator[Callable[[], int]]:
    """Has the other tests run meanwhile; what it gives waits for their end, shows what they said, and how it ended."""
    log = LOCAL / "logs" / "tests.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        running = subprocess.Popen([*OTHERS, *arguments], stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)

    def end() -> int:
        code = running.wait()
        print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
        return code

    try:
        yield end
    finally:
        running.terminate()
        running.wait()


def _pytest(where: Place, arguments: Sequence[str], others: Callable[[], int]) -> None:
    environment = aws.without_aws(toolchain.environment())
    environment.update(GNOMON_PORT=str(where.port), GNOMON_STACK=str(where.stack_file))

    paths = [] if any((ROOT / each.partition("::")[0]).exists() for each in arguments) else ["tests/e2e"]

    def run(*chosen: str) -> int:
        command = [*PYTEST, *paths, *chosen, *arguments]
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode

    side_by_side = ("-n", str(SIDE_BY_SIDE), "--dist", "loadfile")
    codes = [
        run("-m", "e2e and beside", *side_by_side),
        run("-m", "e2e and patient"),
        others(),
        run("-m", "e2e and not beside and not patient"),
    ]
    failed = [code for code in codes if code not in (0, _NONE_CHOSEN)]
    if failed or all(codes):
        raise LocalError(f"tests ended with {(failed or codes)[0]}")


def place_of_its_own() -> Place:
    """For one more stack, on a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return at(port)


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)  # so that what was started is ended on the way out


def main() -> int:
    """`python -m gnomon.local.e2e [--fresh] [--everything] [-- arguments of pytest]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="on a stack of their own even where one is up")
    parser.add_argument("--everything", action="store_true", help="the tests that need no stack too")
    parser.add_argument("arguments", nargs="*", help="passed to pytest")
    chosen = parser.parse_args()
    aws.forget_accounts(os.environ)
    return exit_code(lambda: run_tests(fresh=chosen.fresh, everything=chosen.everything, arguments=chosen.arguments))


if __name__ == "__main__":
    sys.exit(main())

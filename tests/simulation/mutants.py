"""`python -m tests.simulation.mutants`: breaks the code in each named way and shows what catches it.

A mutant is made as its module is imported, in a process of its own: no file is changed. `--only NAME` takes one.

The processes are forked from one that has what all of them need but the product itself, so none waits for imports.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType

from tests.simulation.mutant import GRAPHS, SIMULATION, Mutant
from tests.simulation.mutant_list import EXCLUDED, MUTANTS

SEEDS = 1_500
ROOT = Path(__file__).parents[2]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["boto3", "httpx", "hypothesis.strategies", "moto", "pydantic", "pytest"])


@dataclass(frozen=True)
class Caught:
    mutant: Mutant
    by: str | None
    """The promise that the simulation saw broken, or the test that failed; None where nothing caught it."""
    seed: int = 0
    """The story in which it was broken."""


def compile_edited(module: str, edits: list[tuple[str, str]]) -> CodeType:
    """Raises ValueError where a text to replace is not there once, SyntaxError where the result does not compile."""
    path = ROOT / (module.replace(".", "/") + ".py")
    source = path.read_text("utf-8")
    for text, replacement in edits:
        if (times := source.count(text)) != 1:
            raise ValueError(f"{path} has {text!r} {times} times, not once: the mutant is out of date")
        source = source.replace(text, replacement)
    return compile(source, path, "exec", dont_inherit=True)


def edits_by_module(mutant: Mutant) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for path, text, replacement in mutant.edits:
        found.setdefault("functions." + path.removesuffix(".py").replace("/", "."), []).append((text, replacement))
    return found


class MutatingLoader(importlib.machinery.SourceFileLoader):
    """Compiles an edited source."""

    def __init__(self, name: str, path: str, edits: list[tuple[str, str]]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        return compile_edited(fullname, self._edits)


class Mutations(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._edits = edits_by_module(mutant)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> object:
        if fullname not in self._edits:
            return None
        place = str(ROOT / (fullname.replace(".", "/") + ".py"))
        loader = MutatingLoader(fullname, place, self._edits[fullname])
        return importlib.util.spec_from_file_location(fullname, place, loader=loader)


def hunt(mutant: Mutant, seeds: int) -> Caught:
    """In a process of its own: break the code, and look for what notices."""
    assert not any(name.startswith("functions") for name in sys.modules)
    sys.meta_path.insert(0, Mutations(mutant))
    return _by_simulation(mutant, seeds) if mutant.by in (SIMULATION, GRAPHS) else _by_test(mutant)


def _by_simulation(mutant: Mutant, seeds: int) -> Caught:
    from tests.simulation import graph, story  # noqa: PLC0415 - after the code was broken

    tell = graph.tell if mutant.by == GRAPHS else story.tell
    # A story that caught it once is the likeliest to do so again.
    for seed in itertools.chain((mutant.seed,), range(seeds)):
        told = tell(seed)
        if told.violation is not None:
            return Caught(mutant, told.violation.rule, seed)
    return Caught(mutant, None)


def _by_test(mutant: Mutant) -> Caught:
    import pytest  # noqa: PLC0415 - after the code was broken
    from hypothesis import Phase, settings  # noqa: PLC0415

    # The same examples each time, and no time goes into making one that fails smaller.
    settings.register_profile("first failure", derandomize=True, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("first failure")
    failed: list[str] = []

    class Failures:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # those of all packages take longer than most tests
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main([*options, str(ROOT / mutant.by)], plugins=[Failures()])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"the tests in {mutant.by} did not run: {said.getvalue()}")
    return Caught(mutant, failed[0] if failed else None)


def in_a_process(mutant: Mutant, seeds: int) -> Caught:
    """Raises RuntimeError where the process ended without an answer; it has said why on stderr."""
    receiving, sending = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_hunt, args=(mutant, seeds, sending))
    process.start()
    sending.close()
    try:
        caught: Caught = receiving.recv()
    except EOFError:
        raise RuntimeError(f"mutant {mutant.name}: its process gave no answer") from None
    finally:
        process.join()
        receiving.close()
    return caught


def _hunt(mutant: Mutant, seeds: int, answer: Connection) -> None:
    answer.send(hunt(mutant, seeds))


def line(caught: Caught) -> str:
    how = f"{caught.seed:>5}" if caught.mutant.by in (SIMULATION, GRAPHS) else " test"
    return f"{caught.mutant.name:<26} {how}  {caught.by or 'NOTHING CAUGHT IT':<58} {caught.mutant.what}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--only", help="one mutant")
    parser.add_argument("--rules", action="store_true", help="those that CI plays: one for each important rule")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="stories for each mutant at most")
    chosen = parser.parse_args(arguments)
    named = {mutant.name: mutant for mutant in MUTANTS}
    mutants = [named[chosen.only]] if chosen.only else [one for one in MUTANTS if one.rule or not chosen.rules]
    print(f"{'mutant':<26} {'seed':>5}  {'caught by':<58} what is broken")
    missed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for caught in pool.map(lambda mutant: in_a_process(mutant, chosen.seeds), mutants):
            missed += caught.by is None
            print(line(caught), flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} caught")
    for name, reason in EXCLUDED.items():
        print(f"left out: {name}: {reason}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())

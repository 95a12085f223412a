"""`make mutation`: mutates the domain and the use cases, one small change at a time, and counts what no test notices.

mutmut makes the changes and runs the quick unit tests that reach each. tests/mutation.json has the survivors of each
module that is known: more of them fail the command, fewer are written with `--write`. All modules take hours,
so `--since main~5` takes those that changed since a commit, and `--only domain/lease.py` one of them.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

from gnomon.local import toolchain
from gnomon.local.places import LOCAL, ROOT
from gnomon.local.processes import run
from gnomon.local.report import LocalError, exit_code, step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FOLDERS = ("functions/domain", "functions/usecases")
RECORD = ROOT / "tests" / "mutation.json"
COPY = LOCAL / "mutation"
"""Where it runs: mutmut writes into the folder that it is started in."""
ALIVE = ("survived", "no tests")
"""How mutmut calls what no test noticed, and what no test reaches."""
_LINE = re.compile(r"^\s*(?P<name>functions\.\S+)__mutmut_\d+: (?P<status>.+)$", re.MULTILINE)


def mutate(modules: Sequence[str], *, write: bool) -> None:
    """Mutate these modules, paths below functions/; raises LocalError where more mutants survive than before."""
    _copy_tree()
    tools = toolchain.environment()
    mutmut: list[str | Path] = [toolchain.DEVELOPMENT / "bin" / "python", "-m", "mutmut"]
    with step(f"mutating {len(modules)} modules"):
        patterns = [f"{dotted(module)}.x*" for module in modules]
        run([*mutmut, "run", *patterns], log=LOCAL / "logs" / "mutation.log", environment=tools, directory=COPY)
    with step("reading the results"):
        results = LOCAL / "logs" / "mutation-results.log"
        run([*mutmut, "results", "--all", "true"], log=results, environment=tools, directory=COPY)
    counted = count(results.read_text(encoding="utf-8"), modules)
    known: dict[str, int] = json.loads(RECORD.read_text(encoding="utf-8"))
    print(table(counted, known))
    if write:
        lower = {module: alive for module, (alive, _) in counted.items() if alive <= known.get(module, alive)}
        RECORD.write_text(json.dumps(dict(sorted((known | lower).items())), indent=1) + "\n", encoding="utf-8")
    worse = [module for module, (alive, _) in counted.items() if alive > known.get(module, alive)]
    if worse:
        raise LocalError(
            f"more mutants survive than before in {', '.join(worse)}",
            f"`cd {COPY.relative_to(ROOT)} && python -m mutmut show <name>` shows one; {results} lists them.",
        )


def count(results: str, modules: Iterable[str]) -> dict[str, tuple[int, int]]:
    """For each module, how many mutants live and how many there are, in what `mutmut results --all true` lists."""
    alive: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for line in _LINE.finditer(results):
        module, status = line["name"].rpartition(".x")[0], line["status"]
        tried[module] += status != "not checked"
        alive[module] += status in ALIVE
    return {module: (alive[dotted(module)], tried[dotted(module)]) for module in modules}


def table(counted: Mapping[str, tuple[int, int]], known: Mapping[str, int]) -> str:
    """A line for each module, those with the most survivors first, and the sum."""
    lines = [f"{'module':<44} {'survive':>8} {'of':>6} {'before':>7}"]
    for module, (alive, tried) in sorted(counted.items(), key=lambda item: (-item[1][0], item[0])):
        lines.append(f"{module:<44} {alive:>8} {tried:>6} {known.get(module, '-'):>7}")
    alive, tried = (sum(pair[index] for pair in counted.values()) for index in (0, 1))
    return "\n".join([*lines, f"{'all':<44} {alive:>8} {tried:>6}"])


def dotted(module: str) -> str:
    """`domain/lease.py` as Python names it."""
    return "functions." + module.removesuffix(".py").replace("/", ".")


def all_modules() -> list[str]:
    """Paths below functions/ of what is mutated."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if file.name != "__init__.py"]
    return sorted(file.relative_to(ROOT / "functions").as_posix() for file in files)


def changed_since(commit: str) -> list[str]:
    """Those that changed since a commit. Raises LocalError where Git does not know it."""
    changed = set(_git("diff", "--name-only", commit, "--", *FOLDERS).splitlines())
    return [module for module in all_modules() if f"functions/{module}" in changed]


def _copy_tree() -> None:
    shutil.rmtree(COPY, ignore_errors=True)
    for name in _git("ls-files").splitlines():
        source, copy = ROOT / name, COPY / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def _git(*arguments: str) -> str:
    command: list[str | Path] = ["git", "-C", ROOT, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise LocalError(f"git {arguments[0]} failed: {ended.stderr.strip()}")
    return ended.stdout


def main() -> int:
    """`python -m gnomon.local.mutation [--since COMMIT | --only PATH…] [--write]`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--since", metavar="COMMIT", help="modules that changed since a commit")
    chosen.add_argument("--only", metavar="PATH", action="append", help="a module, such as domain/lease.py")
    parser.add_argument("--write", action="store_true", help="write fewer survivors, and new modules, to the record")
    options = parser.parse_args()

    def work() -> None:
        modules = options.only or (changed_since(options.since) if options.since else all_modules())
        unknown = sorted(set(modules) - set(all_modules()))
        if unknown:
            raise LocalError(f"there is no module {', '.join(unknown)} in {' or '.join(FOLDERS)}")
        if modules:
            mutate(modules, write=options.write)
        else:
            print(f"no module of {' or '.join(FOLDERS)} has changed since {options.since}")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())

"""`make audit`: looks up known vulnerabilities of every locked package, and lists what ships with the functions.

A database that cannot be reached is reported as NOT CHECKED and does not fail the command: only a finding does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from gnomon.local import toolchain
from gnomon.local.places import LOCAL, ROOT
from gnomon.local.processes import run
from gnomon.local.report import LocalError, exit_code, step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LONGEST = 300
"""Seconds that one database may take to answer."""


def audit() -> None:
    """Check all lock files and write the bill of materials; raises LocalError where a package has a known hole."""
    findings: list[str] = []
    unchecked: list[str] = []
    for lock in sorted(toolchain.REQUIREMENTS.glob("*.txt")):
        with step(f"known vulnerabilities: {lock.name}"):
            found, missed = judge_pip(_pip_audit(lock))
            findings += [f"{lock.name}: {one}" for one in found]
            unchecked += [f"{lock.name}: {one}" for one in missed]
    for lock in sorted(toolchain.REQUIREMENTS.glob("*/package-lock.json")):
        name = f"{lock.parent.name}/{lock.name}"
        with step(f"known vulnerabilities: {name}"):
            found, missed = judge_npm(_npm_audit(lock))
            findings += [f"{name}: {one}" for one in found]
            unchecked += [f"{name}: {one}" for one in missed]
    with step("bill of materials (.build/*.cdx.json)"):
        for module in ("infra.bundle", "infra.sbom"):
            run(
                [toolchain.DEVELOPMENT / "bin" / "python", "-m", module, "--stage", "dev"],
                log=LOCAL / "logs" / f"audit-{module.rpartition('.')[2]}.log",
                environment=toolchain.environment(),
                directory=ROOT,
            )
    for one in unchecked:
        print(f"NOT CHECKED  {one}")
    if findings:
        listed = "\n".join(f"  {one}" for one in findings)
        raise LocalError(f"known vulnerabilities:\n{listed}", "`make lock ARGS=--upgrade` takes newer versions.")
    print("no known vulnerability" + (" in what was checked" if unchecked else ""))


def judge_pip(answer: str) -> tuple[list[str], list[str]]:
    """Findings, and how many packages were not checked, in the JSON of pip-audit; no JSON means that nothing was."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return [], [_last_line(answer)]
    findings = [
        f"{one['name']} {one['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'no version'}"
        for one in packages
        for hole in one.get("vulns", [])
    ]
    skipped = [str(one["skip_reason"]) for one in packages if "skip_reason" in one]
    return findings, [f"{len(skipped)} of {len(packages)} packages. {skipped[0]}"] if skipped else []


def judge_npm(answer: str) -> tuple[list[str], list[str]]:
    """Findings, and whether nothing was checked, in the JSON of `npm audit`."""
    try:
        report: dict[str, Any] = json.loads(answer)
        holes: dict[str, dict[str, Any]] = report["vulnerabilities"]
    except (ValueError, KeyError, TypeError):
        return [], [_reason(answer)]
    return [f"{name} {hole['range']}: {hole['severity']}" for name, hole in sorted(holes.items())], []


def _reason(answer: str) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return _last_line(answer)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no answer"])[-1]


def _pip_audit(lock: Path) -> str:
    options = ["--disable-pip", "--require-hashes", "--format=json", "--progress-spinner=off", f"--requirement={lock}"]
    return _answer([toolchain.DEVELOPMENT / "bin" / "pip-audit", *options], lock.parent)


def _npm_audit(lock: Path) -> str:
    return _answer([*toolchain.npm(), "audit", "--package-lock-only", "--json"], lock.parent)


def _answer(command: Sequence[str | Path], directory: Path) -> str:
    """What a tool printed, which ends with 1 both when it found something and when it could not look."""
    try:
        ended = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            env=toolchain.environment(),
            cwd=directory,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ended.stdout if ended.stdout.strip() else ended.stderr


if __name__ == "__main__":
    sys.exit(exit_code(audit))

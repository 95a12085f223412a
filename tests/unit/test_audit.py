"""What `make audit` makes of the tools' answers, and the list of what ships with the functions."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from gnomon.local import audit, toolchain
from gnomon.local.report import LocalError
from infra import sbom
from infra.handlers import locked

ROOT = Path(__file__).parents[2]
HOLE = {"id": "PYSEC-2026-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}
FOUND = json.dumps({"dependencies": [{"name": "one", "version": "1.0", "vulns": [HOLE]}], "fixes": []})
CLEAN = json.dumps({"dependencies": [{"name": "one", "version": "1.0", "vulns": []}], "fixes": []})
SKIPPED = json.dumps({"dependencies": [{"name": "one", "skip_reason": "not reached"}], "fixes": []})


@pytest.mark.parametrize(
    ("answer", "findings", "unchecked"),
    [
        (FOUND, ["one 1.0: PYSEC-2026-1, fixed in 2.0"], []),
        (CLEAN, [], []),
        (SKIPPED, [], ["1 of 1 packages. not reached"]),
        ("Traceback\nConnectionError: no route", [], ["ConnectionError: no route"]),
        ("", [], ["no answer"]),
        ("[]", [], ["[]"]),
    ],
)
def test_answers_of_pip_audit(answer: str, findings: list[str], unchecked: list[str]) -> None:
    assert audit.judge_pip(answer) == (findings, unchecked)


@pytest.mark.parametrize(
    ("answer", "findings", "unchecked"),
    [
        ('{"vulnerabilities": {}}', [], []),
        ('{"vulnerabilities": {"a": {"range": "<2", "severity": "high"}}}', ["a <2: high"], []),
        ('{"message": "405 Method Not Allowed", "error": {}}', [], ["405 Method Not Allowed"]),
        ("npm error no network", [], ["npm error no network"]),
    ],
)
def test_answers_of_npm_audit(answer: str, findings: list[str], unchecked: list[str]) -> None:
    assert audit.judge_npm(answer) == (findings, unchecked)


def run_audit(monkeypatch: pytest.MonkeyPatch, *, pip: str, npm: str) -> None:
    monkeypatch.setattr(audit, "_pip_audit", lambda _: pip)
    monkeypatch.setattr(audit, "_npm_audit", lambda _: npm)
    monkeypatch.setattr(audit, "run", lambda *_, **__: None)
    audit.audit()


def test_a_finding_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalError, match=r"functions\.txt: one 1\.0: PYSEC-2026-1"):
        run_audit(monkeypatch, pip=FOUND, npm='{"vulnerabilities": {}}')


def test_a_database_out_of_reach_is_said_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_audit(monkeypatch, pip=SKIPPED, npm="offline")
    said = capsys.readouterr().out
    locks = {path.name for path in toolchain.REQUIREMENTS.glob("*.txt")}
    assert {name for name in locks if f"NOT CHECKED  {name}: 1 of 1 packages. not reached" in said} == locks
    assert "NOT CHECKED  cdk/package-lock.json: offline" in said
    assert said.endswith("no known vulnerability in what was checked\n")


def packages() -> list[Any]:
    return [distribution(name) for name in locked(sbom.LOCK)]


def test_the_bill_of_materials_is_valid_and_complete() -> None:
    written = JsonV1Dot6(sbom.describe(packages(), sbom.LOCK)).output_as_string()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(written) is None
    components = json.loads(written)["components"]
    assert {one["name"]: one["version"] for one in components} == locked(sbom.LOCK)
    assert all(one["licenses"] for one in components)


def test_a_bundle_with_another_package_or_version_is_refused() -> None:
    with pytest.raises(ValueError, match="build the bundle again"):
        sbom.describe(packages()[1:], sbom.LOCK)


def test_a_package_without_a_license_is_refused() -> None:
    with pytest.raises(ValueError, match="names no license"):
        sbom.license_of(SimpleNamespace(name="one", metadata=SimpleNamespace(json={})))  # type: ignore[arg-type]


def test_licenses_in_the_docs_are_those_of_what_ships() -> None:
    page = (ROOT / "docs" / "third-party.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([a-z0-9-]+) \| (\S+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert listed[1:] == [(sbom.canonical(one.name), one.version, sbom.license_of(one)) for one in packages()]
    assert {terms for _, _, terms in listed[1:]} <= {"MIT", "Apache-2.0", "PSF-2.0", "Apache-2.0 OR BSD-3-Clause"}


def test_what_ships_is_what_the_tests_run_with() -> None:
    developed = locked(ROOT / "requirements" / "development.txt")
    shipped = locked(sbom.LOCK)
    assert {name: developed[name] for name in shipped} == shipped

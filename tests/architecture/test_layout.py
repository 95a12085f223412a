"""How the code is cut (CONTRIBUTING.md): sizes, names, and what may be used where."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = [ROOT / "app.py", *(path for top in ("functions", "infra", "gnomon") for path in (ROOT / top).rglob("*.py"))]
FUNCTIONS = [path for path in PRODUCT if path.is_relative_to(ROOT / "functions")]
HANDLERS = [path for path in FUNCTIONS if path.parent.name == "handlers" and path.stem != "__init__"]
MODULE_LINES = 300
HANDLER_LINES = 45
APP_LINES = 30
VAGUE = {"utils", "util", "helpers", "helper", "common", "core", "base", "misc", "shared"}
AWS = {"boto3", "botocore"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def written(path: Path) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path: Path) -> set[str]:
    """Top-level packages that a module imports."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_modules_have_one_job_and_a_name_that_says_it(path: Path) -> None:
    assert written(path) <= MODULE_LINES
    words = {path.stem, *path.relative_to(ROOT).parent.parts}
    assert not words & VAGUE
    assert path.stem.strip("_") == "main" or path.stem == "__init__" or path.stem not in sys.stdlib_module_names


def test_entry_points_are_short() -> None:
    assert {name(path): written(path) for path in HANDLERS if written(path) > HANDLER_LINES} == {}
    assert written(ROOT / "app.py") <= APP_LINES


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        name(path)
        for path in FUNCTIONS
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")
    }
    assert readers == {"functions/settings.py"}
    froms = [node for path in FUNCTIONS for node in nodes(path) if isinstance(node, ast.ImportFrom)]
    assert not [node for node in froms if node.module == "os"]


def test_only_adapters_and_the_composition_root_know_aws() -> None:
    users = {name(path) for path in FUNCTIONS if imported(path) & AWS}
    assert "functions/bootstrap.py" in users
    assert {user for user in users if not user.startswith("functions/adapters/")} == {"functions/bootstrap.py"}


def test_nothing_scans_a_table() -> None:
    for path in PRODUCT:
        for node in nodes(path):
            if isinstance(node, ast.Attribute):
                assert node.attr != "scan", name(path)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value.lower() not in ("scan", "dynamodb:scan"), name(path)


def test_nothing_happens_at_import() -> None:
    """No client, no environment: modules of functions call nothing of AWS outside a function."""
    for path in FUNCTIONS:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for statement in tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                continue
            calls = [ast.unparse(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)]
            assert not [call for call in calls if call.startswith(("boto3.", "os.", "Logger", "Metrics"))], name(path)


def test_time_and_chance_are_given_to_the_domain() -> None:
    """`now` is an argument; only entry points and adapters read a clock."""
    for path in FUNCTIONS:
        if path.parent.name not in ("domain", "usecases"):
            continue
        calls = {ast.unparse(node.func) for node in nodes(path) if isinstance(node, ast.Call)}
        read = {"time.time", "time.monotonic", "datetime.now", "datetime.utcnow", "random.random", "random.uniform"}
        assert not calls & read, name(path)


LETS_NOTHING_GO = {"writing", "concurrency", "dependencies", "workers"}
"""Their writes end no attempt and no wait: a revoke, a grant, an edge, a heartbeat."""


def test_whoever_writes_a_jobs_row_does_what_follows_from_it() -> None:
    writers = {path for path in FUNCTIONS if path.parent.name == "usecases" and _calls(path, "apply")}
    assert {path.stem for path in writers if not _calls(path, "carry_out")} == LETS_NOTHING_GO


def _calls(path: Path, function: str) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function
        for node in nodes(path)
    )

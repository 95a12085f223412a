"""The check of a bundle's handlers: it sees the bundle and nothing else, and names each module that does not work."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from infra import handlers
from infra.handlers import Checked, check
from tests.handler_modules import AFTER, BEFORE, BROKEN, DYING, WORKING, bundle_of, source

LOCKED = ("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection", "not-installed")


def checked(folder: Path, *, is_foreign: bool = False) -> Checked:
    lock = folder / "functions.txt"
    lock.write_text("".join(f"{name}==1.0 \\\n    --hash=sha256:0\n" for name in LOCKED), encoding="utf-8")
    found = check(folder, requirements=lock, is_foreign=is_foreign)
    assert found is not None
    return found


def manifest(found: Checked) -> dict[str, dict[str, list[str]]]:
    read: dict[str, dict[str, list[str]]] = json.loads(found.manifest())
    return read


def test_what_works_is_registered_by_its_module(tmp_path: Path) -> None:
    folder = bundle_of(tmp_path, {name: source(f"{name}.run", trouble, BEFORE) for name, trouble in WORKING.items()})
    started = time.monotonic()

    found = checked(folder)

    assert found.report() == ""
    assert manifest(found) == {"handlers": {f"{name}.run": [name] for name in sorted(WORKING)}, "broken": {}}
    assert time.monotonic() - started < handlers.IMPORT_SECONDS


@pytest.mark.parametrize("where", [BEFORE, AFTER])
def test_each_broken_module_is_named_with_its_handlers_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("GNOMON_OF_THE_CALLER", "set here")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    modules = {name: source(f"{name}.run", trouble, where) for name, (trouble, *_) in BROKEN.items()}

    found = checked(bundle_of(tmp_path, {**modules, "sound": source("sound.run", "")}))

    parts = {part.partition(" ")[0].rpartition("/")[2]: part for part in found.report().split("\nfunctions/jobs/")}
    parts = {name.removeprefix("functions/jobs/"): part for name, part in parts.items()}
    assert parts.keys() == BROKEN.keys()
    for name, (_, error, advice) in BROKEN.items():
        assert f"{name}.run" in parts[name], name
        assert error in parts[name], parts[name]
        assert advice in parts[name], parts[name]
        assert f"functions/jobs/{name}.py:" in parts[name], parts[name]
    assert manifest(found)["broken"].keys() == BROKEN.keys()
    assert manifest(found)["handlers"]["sound.run"] == ["sound"]
    assert "set here" not in found.report()


def test_an_import_that_ends_the_process_or_never_ends_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "IMPORT_SECONDS", 3.0)
    modules = {name: source(f"{name}.run", trouble) for name, (trouble, _) in DYING.items()}
    started = time.monotonic()

    found = checked(bundle_of(tmp_path, {**modules, "sound": source("sound.run", "")}))

    assert time.monotonic() - started < 30
    broken = {one.module: one.error for one in found.modules if one.error is not None}
    assert broken.keys() == DYING.keys()
    for name, (_, words) in DYING.items():
        assert words in str(broken[name])
    assert {name: modules for name, modules in found.owners.items() if len(modules) != 1} == {}
    assert found.owners.keys() == {"sound.run", *(f"{name}.run" for name in DYING)}


def test_a_name_of_two_modules_is_named_with_both(tmp_path: Path) -> None:
    found = checked(bundle_of(tmp_path, {name: source("close", "") + source(f"{name}.run", "") for name in ("a", "b")}))

    assert found.report().splitlines() == [
        "functions/jobs/a and functions/jobs/b (handler: close)",
        "  Each registers the name 'close'.",
        "  Rename all but one.",
    ]
    assert manifest(found)["handlers"] == {"a.run": ["a"], "b.run": ["b"], "close": ["a", "b"]}


def test_a_module_that_imports_another_is_not_its_owner(tmp_path: Path) -> None:
    modules = {
        "a": "from functions.jobs.b import handler\n" + source("a.run", ""),
        "b": source("b.run", ""),
        "pack/__init__": "from functions.jobs.pack import inner\n",
        "pack/inner": source("pack.run", ""),
        "wrapped": "import functools\nfrom functions.jobs import job\njob('wrapped.run')(functools.partial(print))",
    }

    found = checked(bundle_of(tmp_path, modules))

    assert found.report() == ""
    assert found.owners == {"a.run": ["a"], "b.run": ["b"], "pack.run": ["pack"], "wrapped.run": ["wrapped"]}


def test_a_broken_module_breaks_those_that_import_it_and_is_named_as_the_place(tmp_path: Path) -> None:
    modules = {"a": "from functions.jobs import b\n" + source("a.run", ""), "b": "\nimport nobody_has_this\n"}

    broken = {one.module: one.error for one in checked(bundle_of(tmp_path, modules)).modules}

    assert broken["a"] == broken["b"] == "functions/jobs/b.py:2: ModuleNotFoundError: No module named 'nobody_has_this'"


def test_packages_of_another_platform_are_taken_from_this_one_as_far_as_they_are_locked(tmp_path: Path) -> None:
    modules = {
        "uses": "import pydantic\n" + source("uses.run", ""),
        "wants": "import croniter\n" + source("wants.run", ""),
    }
    folder = bundle_of(tmp_path, modules)
    (folder / "pydantic_core").mkdir()
    (folder / "pydantic_core" / "__init__.py").write_text("raise ImportError('of another platform')", encoding="utf-8")

    found = checked(folder, is_foreign=True)

    assert [one.module for one in found.modules if one.error is not None] == ["wants"]


def test_names_are_known_of_a_module_that_says_them_otherwise(tmp_path: Path) -> None:
    text = """
import nobody_has_this
import functions.jobs
from functions.jobs import job as handler_of, Run
from functions import jobs

@handler_of("alias")
def a(payload, run): ...

@jobs.job("attribute")
def b(payload, run): ...

functions.jobs.job("call")(print)

@handler_of(COMPUTED)
def c(payload, run): ...
"""
    found = checked(bundle_of(tmp_path, {"odd": text, "torn": '@job("torn.run")\ndef x(:\n'}))

    assert found.owners == {"alias": ["odd"], "attribute": ["odd"], "call": ["odd"], "torn.run": ["torn"]}


def test_a_bundle_without_handlers_has_nothing_to_check(tmp_path: Path) -> None:
    assert check(tmp_path, requirements=tmp_path / "none", is_foreign=True) is None

"""Modules of handlers in one process: each is imported for its own handlers, and what it breaks is its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import functions.jobs
from functions.jobs import registry
from functions.jobs.registry import AmbiguousHandler, Manifest, ModuleError, UnknownHandler, find
from functions.jobs.running import run
from tests.handler_modules import AFTER, BEFORE, BROKEN, source

Add = Callable[..., None]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Add]:
    """Adds modules to functions/jobs by name and source, with a manifest of them unless there is to be none."""
    registry.load()
    handlers, registered = dict(registry._handlers), dict(registry._registered)
    loaded = set(sys.modules)
    monkeypatch.setattr(functions.jobs, "__path__", [*functions.jobs.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def add(modules: dict[str, str], manifest: Manifest | None = None) -> None:
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr(registry, "manifest", lambda: manifest)

    yield add
    for name in set(sys.modules) - loaded:
        del sys.modules[name]
    for kept, before in ((registry._handlers, handlers), (registry._registered, registered)):
        kept.clear()
        kept.update(before)  # type: ignore[call-overload]  # each its own


def outcome(name: str) -> dict[str, Any]:
    event = {"handler": name, "payload": None, "jobId": "j", "runId": "r", "attempt": 1, "scheduledFor": "s"}
    return run({**event, "timeoutSeconds": 60}, encode=json.dumps)


def imported(module: str) -> bool:
    return f"functions.jobs.{module}" in sys.modules


@pytest.mark.parametrize("where", [BEFORE, AFTER])
@pytest.mark.parametrize(
    "name", [name for name in BROKEN if name not in ("of_development", "of_the_client", "variable")]
)
def test_a_broken_module_fails_its_own_handlers_every_time_alike(add: Add, name: str, where: str) -> None:
    modules = {f"zz_{name}": source("zz.broken", BROKEN[name][0], where), "zz_sound": source("zz.sound", "")}
    add(modules, Manifest({"zz.broken": [f"zz_{name}"], "zz.sound": ["zz_sound"]}, {f"zz_{name}": "why"}))

    first, again = outcome("zz.broken"), outcome("zz.broken")

    assert first == again
    assert first["error"]["message"].startswith(f"functions/jobs/zz_{name}.py cannot be imported: ")
    assert first["error"]["type"] == (BROKEN[name][1].partition(":")[0] if name != "quits" else "SystemExit")
    assert outcome("zz.sound") == {"result": '"zz.sound"'}
    with pytest.raises(ModuleError):
        find("zz.broken")


def test_only_the_module_of_a_handler_is_imported(add: Add) -> None:
    modules = {name: source(name, "") for name in ("zz_a", "zz_b")}
    add(modules, Manifest({name: [name] for name in modules}, {}))

    assert outcome("zz_a") == {"result": '"zz_a"'}
    assert (imported("zz_a"), imported("zz_b")) == (True, False)


def test_a_name_that_no_manifest_has_is_looked_for_in_what_works(add: Add) -> None:
    modules = {"zz_computed": source("zz.computed", ""), "zz_broken": "raise RuntimeError"}
    add(modules, Manifest({"other": ["zz_broken"]}, {"zz_broken": "functions/jobs/zz_broken.py:1: RuntimeError: "}))

    assert outcome("zz.computed") == {"result": '"zz.computed"'}
    with pytest.raises(UnknownHandler, match=r"there are: .*echo.*other.*functions/jobs/zz_broken\.py:1"):
        find("zz.nobody")
    assert not imported("zz_broken")


@pytest.mark.slow
def test_without_a_manifest_all_are_imported_and_what_is_broken_is_told(add: Add) -> None:
    add({"zz_a": source("zz.a", ""), "zz_broken": source("zz.broken", "raise RuntimeError('no')")})

    assert outcome("zz.a") == {"result": '"zz.a"'}
    with pytest.raises(UnknownHandler, match=r"zz_broken\.py cannot be imported: RuntimeError: no"):
        find("zz.broken")


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_name_of_two_modules_is_neithers(add: Add, has_manifest: bool) -> None:
    modules = {name: source("zz.close", "") + source(f"zz.{name}", "") for name in ("zz_a", "zz_b")}
    names = {"zz.close": ["zz_a", "zz_b"], "zz.zz_a": ["zz_a"], "zz.zz_b": ["zz_b"]}
    add(modules, Manifest(names, {}) if has_manifest else None)

    for name in ("zz.zz_a", "zz.zz_b"):
        assert outcome(name) == {"result": f'"{name}"'}
    with pytest.raises(AmbiguousHandler, match="in several modules: zz_a, zz_b"):
        find("zz.close")
    assert outcome("zz.close")["error"]["retryable"] is False


def test_a_module_that_works_again_is_imported_anew(add: Add, tmp_path: Path) -> None:
    manifest = Manifest({"zz.mended": ["zz_mended"]}, {})
    add({"zz_mended": source("zz.mended", "import nobody_has_this", AFTER)}, manifest)
    assert outcome("zz.mended")["error"]["type"] == "ModuleNotFoundError"

    add({"zz_mended": source("zz.mended", "")}, manifest)

    assert outcome("zz.mended") == {"result": '"zz.mended"'}

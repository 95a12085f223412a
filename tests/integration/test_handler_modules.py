"""Modules of handlers at run time: one that cannot be imported fails its own handlers, and no other."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infra import handlers
from tests.handler_modules import AFTER, BEFORE, BROKEN, DYING, WORKING, bundle_of, source

SCRIPT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from functions.jobs.running import run

answers, dumps = open(sys.argv[2], "w"), json.dumps
for name, seconds in json.loads(sys.argv[3]):
    event = {"handler": name, "payload": None, "jobId": "j", "runId": "r", "attempt": 1, "scheduledFor": "s"}
    outcome = run({**event, "timeoutSeconds": seconds}, encode=dumps)
    print(dumps(outcome), file=answers, flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module", params=[BEFORE, AFTER])
def broken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checked bundle with every module that raises, and one that works."""
    modules = {name: source(f"{name}.run", trouble, request.param) for name, (trouble, *_) in BROKEN.items()}
    twice = {name: source("close", "") + source(f"{name}.run", "") for name in ("a", "b")}
    return bundled(tmp_path_factory.mktemp("bundle"), {**modules, **twice, "sound": source("sound.run", "")})


def bundled(folder: Path, modules: dict[str, str], *, has_manifest: bool = True) -> Path:
    bundle_of(folder, modules)
    checked = handlers.check(folder, requirements=folder, is_foreign=False)
    assert checked is not None
    if has_manifest:
        (folder / "functions" / "jobs" / handlers.MANIFEST).write_text(checked.manifest(), encoding="utf-8")
    return folder


def calls(folder: Path, *names: str, seconds: float = 20) -> list[dict[str, Any]]:
    """What a process of the function answers to these calls, one after the other, until it ends."""
    asked, written = json.dumps([(name, seconds) for name in names]), folder / "answers"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SCRIPT, folder, written, asked],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "AWS_REGION": "eu-central-1"},
        start_new_session=True,
    )
    try:
        process.wait(100)
    finally:
        with contextlib.suppress(ProcessLookupError):  # its children, too
            os.killpg(process.pid, signal.SIGKILL)
    return [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]


def test_each_fails_its_own_handlers_by_what_it_raised_every_time(broken: Path) -> None:
    names = [f"{name}.run" for name in BROKEN]
    answers = calls(broken, *names, "sound.run", *names, "sound.run")

    half = len(answers) // 2
    assert answers[half - 1] == answers[-1] == {"result": '"sound.run"'}
    for (name, (_, error, _)), first, again in zip(BROKEN.items(), answers[:half], answers[half:], strict=False):
        assert first == again, "it is imported again, and says the same"
        assert first["error"]["type"] == error.partition(":")[0]
        assert first["error"]["message"].startswith(f"functions/jobs/{name}.py cannot be imported: {error}")
        assert first["error"]["retryable"]


def test_a_name_of_two_modules_fails_alone(broken: Path) -> None:
    answers = calls(broken, "a.run", "b.run", "close", "b.run")

    assert [answer.get("result") for answer in answers] == ['"a.run"', '"b.run"', None, '"b.run"']
    assert answers[2]["error"] == {
        "type": "AmbiguousHandler",
        "message": "handler 'close' is registered in several modules: a, b",
        "retryable": False,
    }


def test_an_unknown_name_is_told_what_there_is_and_what_is_broken(broken: Path) -> None:
    [answer] = calls(broken, "nobody")

    assert (answer["error"]["type"], answer["error"]["retryable"]) == ("UnknownHandler", False)
    assert "there are: a.run, b.run" in answer["error"]["message"]
    assert "functions/jobs/base" in answer["error"]["message"]


@pytest.mark.parametrize("name", DYING)
def test_one_whose_import_ends_the_process_or_never_ends_is_reached_by_its_own_handlers_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "IMPORT_SECONDS", 1.0)
    folder = bundled(tmp_path, {name: source(f"{name}.run", DYING[name][0]), "sound": source("sound.run", "")})
    started = time.monotonic()

    answers = calls(folder, "sound.run", "nobody", "sound.run", f"{name}.run", "sound.run", seconds=2)

    assert time.monotonic() - started < 15
    assert [answer.get("result") for answer in answers] == ['"sound.run"', None, '"sound.run"'], "then it ended"
    assert answers[1]["error"]["type"] == "UnknownHandler"


@pytest.mark.parametrize("has_manifest", [True, False])
def test_what_works_runs_with_and_without_a_manifest(tmp_path: Path, has_manifest: bool) -> None:
    tame = ("plain", "prints", "listens", "threads", "region", "logs", "reads")
    modules = {name: source(f"{name}.run", WORKING[name], BEFORE) for name in tame}
    modules["broken"] = source("broken.run", "import nobody_has_this")
    folder = bundled(tmp_path, modules, has_manifest=has_manifest)

    answers = calls(folder, *(f"{name}.run" for name in modules))

    assert [answer.get("result") for answer in answers] == [
        f'"{name}.run"' if name != "broken" else None for name in modules
    ]
    kind = "ModuleNotFoundError" if has_manifest else "UnknownHandler"
    assert answers[-1]["error"]["type"] == kind
    assert "nobody_has_this" in answers[-1]["error"]["message"]

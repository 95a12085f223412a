"""`make up` of a checkout with modules of handlers that do not work: it names each, and every other handler runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gnomon.client import Client
from gnomon.errors import GnomonApiError
from gnomon.local import emulator
from gnomon.local.places import ROOT, Place
from tests.e2e.stack import Stack, job_body, once, until
from tests.handler_modules import source

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

PORTS = range(4630, 4640)
SECRET = "GNOMON_E2E_SECRET"
BROKEN = {
    "missing": ("import nobody_has_this_package", "ModuleNotFoundError"),
    "variable": (f'import os\nKEY = os.environ["{SECRET}"]', "KeyError"),
    "syntax": ("def close(:", "SyntaxError"),
    "exits": ("import sys\nsys.exit(3)", "SystemExit"),
}
"""Modules, and what their handlers fail with."""
TWICE = ("twice_a", "twice_b")


@dataclass(frozen=True)
class Checkout:
    """A copy of the sources, with the tools of this folder, and a stack of its own."""

    root: Path
    port: int

    @property
    def jobs(self) -> Path:
        return self.root / "functions" / "jobs"

    @property
    def place(self) -> Place:
        directory = self.root / ".local" / str(self.port)
        return Place(port=self.port, directory=directory, stack_file=directory / "stack.json")

    def run(self, module: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"GNOMON_PORT": str(self.port), SECRET: "known to this shell alone"}
        environment.pop("GNOMON_STACK", None)
        return subprocess.run(
            [sys.executable, "-m", module], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    root = tmp_path_factory.mktemp("checkout")
    for name in ("functions", "infra", "gnomon", "requirements"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "cdk.json", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    (root / ".local").mkdir()
    for tool in (".venv", ".local/bootstrap", ".local/emulator", ".local/cdk", ".local/node-env"):
        if (ROOT / tool).exists():
            (root / tool).symlink_to(ROOT / tool)
    port = next(
        port for port in PORTS if not emulator._port_is_taken(Place(port=port, directory=root, stack_file=root))
    )
    made = Checkout(root, port)
    yield made
    made.run("gnomon.local.emulator")


def runs(client: Client, job_id: str) -> Any:
    """The job's one execution, once it has ended."""
    until(lambda: client.get_job(job_id)["status"] in ("COMPLETED", "FAILED"), seconds=60, hint=f"{job_id} ends")
    return next(iter(client.history(job_id)))


def create(client: Client, name: str, **changes: Any) -> str:
    target = {"type": "handler", "name": name}
    return client.create_job(job_body(schedule=once(0), target=target, retryConfig={"maxRetries": 0}, **changes))["id"]


def test_broken_modules_fail_make_up_by_name_and_no_other_handler(checkout: Checkout) -> None:
    for name, (trouble, _) in BROKEN.items():
        (checkout.jobs / f"{name}.py").write_text(source(f"{name}.run", trouble), encoding="utf-8")
    for name in TWICE:
        (checkout.jobs / f"{name}.py").write_text(source("close", "") + source(f"{name}.run", ""), encoding="utf-8")

    told = checkout.run("gnomon.local.stack")

    assert told.returncode == 1, told.stderr
    said = told.stderr.partition("\nerror: ")[2]
    for name, (_, error) in BROKEN.items():
        assert f"functions/jobs/{name} (handlers: {name}.run)" in said, told.stderr
        assert error in said
    assert "functions/jobs/twice_a and functions/jobs/twice_b (handler: close)" in said
    assert "nobody_has_this_package" in said
    assert "requirements/functions.in" in said
    assert "functions/jobs/echo" not in said
    assert "package index" not in told.stderr
    assert "known to this shell alone" not in told.stderr

    stack = Stack.read(checkout.place)
    with Client(stack.api_url, stack.tokens["scheduler"]) as client:
        good = {name: create(client, name) for name in ("echo", "twice_a.run", "twice_b.run")}
        bad = {name: create(client, f"{name}.run") for name in BROKEN}
        both = create(client, "close")
        again = create(client, "echo")
        for job in (*good.values(), again):
            assert runs(client, job)["status"] == "COMPLETED"
        for name, job in bad.items():
            error = runs(client, job)["error"]
            assert error["code"] == f"HANDLER_ERROR:{BROKEN[name][1]}"
            assert f"functions/jobs/{name}.py cannot be imported" in error["message"]
        assert runs(client, both)["error"]["code"] == "HANDLER_ERROR:AmbiguousHandler"
        with pytest.raises(GnomonApiError) as refused:
            create(client, "nobody")
        assert refused.value.status == 400
        assert "echo, " in str(refused.value)
        later = client.create_job(job_body(target={"type": "handler", "name": "twice_a.run"}))["id"]

    for name in (*BROKEN, *TWICE):
        (checkout.jobs / f"{name}.py").unlink()
    told = checkout.run("gnomon.local.stack")

    assert told.returncode == 0, told.stderr
    stack = Stack.read(checkout.place)
    with Client(stack.api_url, stack.tokens["scheduler"]) as client:
        assert runs(client, create(client, "echo"))["status"] == "COMPLETED"
        client.execute_job(later)
        until(lambda: list(client.history(later)), seconds=60)
        gone = until(lambda: [one for one in client.history(later) if one.get("error")], seconds=60)[0]
        assert gone["error"]["code"] == "HANDLER_ERROR:UnknownHandler"
        assert "echo, expire-files" in gone["error"]["message"]
        changed = client.update_job(later, {"description": "a name of an older release stays"})
        assert changed["target"]["name"] == "twice_a.run"

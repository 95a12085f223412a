import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gnomon.local import emulator
from gnomon.local.places import Place
from gnomon.local.report import LocalError

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="marks of processes are read in /proc")

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def where(tmp_path: Path) -> Place:
    directory = tmp_path / "4599"
    directory.mkdir()
    return Place(port=4599, directory=directory, stack_file=tmp_path / "stack.json")


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that sleeps, perhaps with a child that does, in the environment given."""
    started = []

    def go(environment: dict[str, str], code: str = "import time; print(1, flush=True); time.sleep(60)") -> object:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        process.stdout.readline()  # its environment is its own from now on
        started.append(process)
        return process

    yield go  # type: ignore[misc]  # the fixture's function returns Popen
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def _file(where: Place, pid: int) -> None:
    (where.directory / "emulator.json").write_text(json.dumps({"pid": pid, "start": "s"}))


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _mark(where: Place) -> dict[str, str]:
    return {emulator.MARK: str(where.directory)}


def test_its_own_process_is_found_and_ended(where: Place, start: Start) -> None:
    process = start(_mark(where))
    _file(where, process.pid)

    found = emulator.find(where)
    assert found is not None
    assert found.pid == process.pid
    # Only a parent can reap: meanwhile the ended process is one without an environment.
    assert emulator.stop(where) is True
    assert process.wait(5) == -signal.SIGTERM
    assert emulator.find(where) is None


def test_a_stale_pid_that_is_somebody_elses_is_left_alone(where: Place, start: Start) -> None:
    other = start({})
    _file(where, other.pid)

    assert emulator.find(where) is None
    assert emulator.stop(where) is False
    assert other.poll() is None


def test_the_stack_of_another_place_is_left_alone(where: Place, start: Start) -> None:
    other = start({emulator.MARK: f"{where.directory}0"})
    _file(where, other.pid)

    assert emulator.stop(where) is False
    assert other.poll() is None


def test_functions_of_a_killed_emulator_are_ended(where: Place, start: Start) -> None:
    nested = "import subprocess,sys; p=subprocess.Popen([sys.executable,'-c','import time; time.sleep(60)'])"
    parent = start(_mark(where), f"{nested}; print(p.pid, flush=True); import time; time.sleep(60)")
    _file(where, parent.pid)
    _until(lambda: len(emulator.processes(where, None)) == 2)
    parent.kill()
    parent.wait()

    assert emulator.find(where) is None
    assert emulator.stop(where) is True
    _until(lambda: not emulator.processes(where, None))


def test_one_that_does_not_want_to_end_is_killed(where: Place, start: Start) -> None:
    stubborn = start(
        _mark(where),
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)",
    )
    _file(where, stubborn.pid)

    emulator.stop(where, patience=0.2)

    assert stubborn.wait(5) == -signal.SIGKILL


def test_removing_leaves_nothing(where: Place, start: Start) -> None:
    _file(where, start(_mark(where)).pid)
    where.stack_file.write_text("{}")

    assert emulator.remove(where) is True
    assert not where.directory.exists()
    assert not where.stack_file.exists()
    assert emulator.remove(where) is False


@pytest.mark.usefixtures("loopback")
def test_a_foreign_process_on_the_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        where = Place(port=port, directory=tmp_path / str(port), stack_file=tmp_path / "stack.json")

        with pytest.raises(LocalError, match=f"port {port} is in use by a process") as raised:
            emulator.ensure_running(where, persist=False)

    assert f"GNOMON_PORT={port + 1} make up" in raised.value.advice


def test_the_emulator_is_told_nothing_of_the_user(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = emulator.environment(where, persist=False)
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy")

    told = emulator.environment(where, persist=False)

    assert told == before
    assert told["BIND_HOST"] == "127.0.0.1"
    assert told["AUTH"] == "true"
    assert told["HOME"].startswith(str(where.directory))
    assert os.environ["HOME"] not in told.values()


def test_state_is_kept_on_request_only(where: Place) -> None:
    assert emulator.environment(where, persist=False)["PERSIST_STATE"] == "0"
    assert emulator.environment(where, persist=True)["PERSIST_STATE"] == "1"

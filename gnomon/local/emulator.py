"""Starts and stops the AWS emulator (ministack): a background process on loopback, with IAM enforced.

Its processes are known by a mark in their environment, which the functions it starts inherit: nothing else is ever
ended. It is told no secret, as its environment is also that of every function.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from gnomon.local import places, toolchain
from gnomon.local.places import Place, locked
from gnomon.local.processes import tail
from gnomon.local.report import LocalError, exit_code

MARK = "GNOMON_EMULATOR"
REGION = "us-east-1"
ROOT_KEY = "test"
"""Access key and secret of the emulator's root; it is no secret, and good for this emulator alone."""
SERVICES = (
    "apigateway,cloudformation,cognito-idp,dynamodb,dynamodbstreams,ec2,events,iam,kms,lambda,logs,monitoring,"
    "s3,scheduler,secretsmanager,sns,sqs,ssm,states,sts,tagging"
)
READY_SECONDS = 40
STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Running:
    """The emulator of one place, as its file says: pid, which is its process group too, and the name of this start."""

    pid: int
    start: str


def ensure_running(place: Place, *, persist: bool) -> Running:
    """The emulator that serves this place: the running one, or a fresh one. Raises LocalError when it cannot be.

    With `persist` its state survives a stop; without, a fresh one begins empty.
    """
    running = find(place)
    if running is not None and _answers(place):
        return running
    stop(place)
    if _port_is_taken(place):
        raise LocalError(
            f"port {place.port} is in use by a process that `make up` of this folder did not start{_holder(place)}",
            f"End that one, or take another port: GNOMON_PORT={place.port + 1} make up",
        )
    _forget(place, persist=persist)
    return _start(place, persist=persist)


def find(place: Place) -> Running | None:
    """The emulator this place's file names, if it lives and is ours."""
    try:
        written = json.loads(_file(place).read_text())
        running = Running(written["pid"], written["start"])
    except (OSError, ValueError, KeyError):
        return None
    return running if running.pid in processes(place, running.pid) else None


def stop(place: Place, *, patience: float = STOP_SECONDS) -> bool:
    """End the emulator of this place and the functions it started; False when there was nothing to end."""
    running = find(place)
    found = processes(place, running.pid if running else None)
    if running is not None:
        _signal_group(running.pid, signal.SIGTERM)
    for pid in found:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while (left := processes(place, running.pid if running else None)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        _signal(pid, signal.SIGKILL)
    _file(place).unlink(missing_ok=True)
    return bool(found)


def remove(place: Place) -> bool:
    """End what was started at this place and remove its state; False when nothing was running."""
    with locked(str(place.port)):
        stopped = stop(place)
        place.stack_file.unlink(missing_ok=True)
        shutil.rmtree(place.directory, ignore_errors=True)
        return stopped


def _start(place: Place, *, persist: bool) -> Running:
    place.directory.mkdir(parents=True, exist_ok=True)
    for folder in ("tmp", "state", "s3", "home"):
        (place.directory / folder).mkdir(exist_ok=True)
    with place.emulator_log.open("wb") as log:
        process = subprocess.Popen(
            [toolchain.EMULATOR / "bin" / "python", Path(__file__).with_name("ministack_process.py")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(place, persist=persist),
            cwd=place.directory,
            start_new_session=True,
        )
    running = Running(process.pid, uuid.uuid4().hex)
    _file(place).write_text(json.dumps({"pid": running.pid, "start": running.start}))
    deadline = time.monotonic() + READY_SECONDS
    while not _answers(place):
        if process.poll() is not None:
            _file(place).unlink(missing_ok=True)
            raise LocalError(f"the emulator ended at its start with {process.returncode}:\n{tail(place.emulator_log)}")
        if time.monotonic() > deadline:
            stop(place)
            raise LocalError(f"the emulator is not ready after {READY_SECONDS} s:\n{tail(place.emulator_log)}")
        time.sleep(0.1)
    return running


def environment(place: Place, *, persist: bool) -> dict[str, str]:
    """All that the emulator and its functions see: nothing of the user's environment."""
    directory = place.directory
    return {
        "PATH": f"{toolchain.EMULATOR / 'bin'}{os.pathsep}{os.defpath}",
        "HOME": str(directory / "home"),
        "TMPDIR": str(directory / "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        MARK: str(directory),
        "GATEWAY_PORT": str(place.port),
        "BIND_HOST": "127.0.0.1",
        "AUTH": "true",
        "AWS_ACCESS_KEY_ID": ROOT_KEY,
        "AWS_SECRET_ACCESS_KEY": ROOT_KEY,
        "MINISTACK_REGION": REGION,
        "SERVICES": SERVICES,
        # Each of these listens beyond loopback unless it is switched off.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        # It would look for leftover containers of its own on the user's Docker.
        "DOCKER_HOST": f"unix://{directory}/no-docker.sock",
        "STATE_DIR": str(directory / "state"),
        "S3_DATA_DIR": str(directory / "s3"),
        # A function that was idle for five minutes would be late at its next run.
        "LAMBDA_WARM_TTL_SECONDS": "86400",
        "PERSIST_STATE": "1" if persist else "0",
        "S3_PERSIST": "1" if persist else "0",
    }


def _file(place: Place) -> Path:
    return place.directory / "emulator.json"


def _forget(place: Place, *, persist: bool) -> None:
    for folder in ("tmp",) if persist else ("tmp", "state", "s3"):
        shutil.rmtree(place.directory / folder, ignore_errors=True)


def _answers(place: Place) -> bool:
    # http.client knows no proxy: a company's would be asked for 127.0.0.1 otherwise.
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=2)
    try:
        connection.request("GET", "/_ministack/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _port_is_taken(place: Place) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", place.port))
        except OSError:
            return True
    return False


def _holder(place: Place) -> str:
    """Who listens there, where the machine tells: ` (pid 12)`, else nothing."""
    tool = shutil.which("lsof")
    if tool is None:
        return ""
    found = subprocess.run(
        [tool, "-t", f"-iTCP@127.0.0.1:{place.port}", "-sTCP:LISTEN"], capture_output=True, text=True, check=False
    )
    pids = found.stdout.split()
    return f" (pid {', '.join(pids)})" if pids else ""


def processes(place: Place, pid: int | None) -> set[int]:
    """The living processes of this place: those with its mark; where there is no /proc, `pid` if it is an emulator."""
    proc = Path("/proc")
    if not (proc / "self" / "environ").exists():
        return {pid} if pid is not None and _is_emulator(pid) else set()
    mark = f"{MARK}={place.directory}".encode()
    found = set()
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        # Processes end while they are read; those of other users cannot be read.
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found


def _is_emulator(pid: int) -> bool:
    answer = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return "ministack" in answer.stdout


def _signal_group(group: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, which)


def _signal(pid: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, which)


def main() -> int:
    """`python -m gnomon.local.emulator [--all]`: stop and remove the stack of GNOMON_PORT, or all of this folder."""
    parser = argparse.ArgumentParser(description="stop and remove the local stack")
    parser.add_argument("--all", action="store_true", help="every stack of this folder")
    chosen = parser.parse_args()

    def work() -> None:
        for each in places.all_places() if chosen.all else [places.place()]:
            print(f"Port {each.port}: {'stopped' if remove(each) else 'nothing was running'}.")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())

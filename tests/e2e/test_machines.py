"""Machines: client credentials at the pool's own token endpoint, for the client, the command line and a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gnomon.client import Client, ClientCredentials
from gnomon.errors import CredentialsError, GnomonApiError
from tests.e2e.stack import job_body, once, unique, until

if TYPE_CHECKING:
    from tests.e2e.people import People
    from tests.e2e.stack import Api, Stack

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(stack: Stack, people: People) -> dict[str, str]:
    """A machine's, without a stack file and without a token."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GNOMON_"))}
    return kept | {"PYTHONPATH": str(ROOT), "GNOMON_API_URL": stack.api_url} | people.credentials()


def gnomon(environment: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gnomon", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_client_renews_its_tokens(stack: Stack, people: People) -> None:
    client_id, secret, token_url = people.credentials().values()
    credentials = ClientCredentials(client_id, secret, token_url, scope="gnomon/write")
    with Client(stack.api_url, credentials) as client:
        job = client.create_job(job_body())
        assert job["owner"] == client_id
        first = credentials.current()
        assert credentials.renewed(first) not in (None, first)
        client.update_job(job["id"], {"tags": ["machine"]}, etag=job["etag"])
        client.delete_job(job["id"])
    reader = ClientCredentials(*people.credentials("reader").values())
    with Client(stack.api_url, reader) as client, pytest.raises(GnomonApiError, match="FORBIDDEN"):
        client.create_job(job_body())
    with pytest.raises(CredentialsError):
        ClientCredentials(client_id, "wrong", token_url).current()


def test_the_command_line_takes_names_with_client_credentials(environment: dict[str, str], tmp_path: Path) -> None:
    names = [unique("machine"), unique("machine")]
    for name in names:
        made = gnomon(environment, tmp_path, "jobs", "create", "--name", name, "--every", "1h", "--handler", "echo")
        assert made.returncode == 0, made.stderr
    found = json.loads(gnomon(environment, tmp_path, "jobs", "get", *names, "-o", "json").stdout)["data"]
    assert [job["name"] for job in found] == names
    listed = gnomon(environment | {"COLUMNS": "80"}, tmp_path, "jobs", "list")
    short = next(line.split()[0] for line in listed.stdout.splitlines() if names[0][:12] in line)
    assert found[0]["id"].startswith(short)
    done = gnomon(environment, tmp_path, "jobs", "delete", short, names[1], "nobody", "-o", "json")
    assert done.returncode == 1
    assert [one.get("deleted") for one in json.loads(done.stdout)["data"]] == [True, True, None]
    assert json.loads(done.stderr)["error"]["code"] == "NOT_FOUND"


def test_a_worker_works_with_client_credentials(
    api: Api, environment: dict[str, str], people: People, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text("def work(payload, run):\n    return payload\n")
    queue = unique("queue")
    command = [sys.executable, "-m", "gnomon", "worker", "--queue", queue, "work:work"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        token = people.machine("scheduler")
        body = job_body(target={"type": "worker", "queue": queue}, schedule=once(1), payload={"n": 1})
        path = api.post("/v1/jobs", body, token=token).headers["Location"]

        def ended() -> Any:
            attempts = api.get(f"{path}/history", token=token).json()["data"]
            return [one for one in attempts if one["status"] == "COMPLETED"]

        assert until(ended, seconds=30)[0]["result"] == {"n": 1}
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        worker.kill()
        worker.wait()


def test_a_worker_whose_credentials_are_wrong_ends_and_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    wrong = environment | {"GNOMON_CLIENT_SECRET": "wrong"}
    done = gnomon(wrong, tmp_path, "worker", "--queue", unique("queue"), "json:dumps", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "CREDENTIALS_REFUSED"


def test_the_description_names_the_stack_s_address(api: Api, stack: Stack) -> None:
    assert api.get("/openapi.json", token="").json()["servers"] == [{"url": stack.api_url}]

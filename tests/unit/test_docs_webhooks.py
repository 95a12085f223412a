"""The receivers of docs/webhooks.md, run as they stand there, and called by the sender itself."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import json
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import WebhookVerificationError

from functions.domain.execution import ExecutionStatus
from functions.domain.outcome import TargetAnswer
from gnomon.local import toolchain
from tests.receiver import Exchange, receiving
from tests.support.pages import CODE, rows, section
from tests.support.sending import OWNER, code, invocation, keys_of, sender

pytestmark = pytest.mark.usefixtures("loopback")

PAGE = "docs/webhooks.md"
ORDERS = json.dumps({"orders": [1, 2, 3], "note": "ä 😀", "big": 2**70})
RUN = re.compile(r"\S+-1800000000")

Post = Callable[[Mapping[str, str], bytes], tuple[int, bytes]]
"""Sends headers and a body to a receiver; gives the status and the body of its answer."""


def read_example(title: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", section(PAGE, title), re.DOTALL)
    assert found, f"{PAGE} has no {language} under {title!r}"
    return found[1]


def make_key() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


OLD, NEW = make_key(), make_key()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Imports an example of the page as a module, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("GNOMON_WEBHOOK_SECRET", NEW)
    (tmp_path / "once.py").write_text(read_example("Do the work once", "python"))

    def load(title: str, name: str) -> Any:
        (tmp_path / f"{name}.py").write_text(read_example(title, "python"))
        for one in ("once", name):
            monkeypatch.delitem(sys.modules, one, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return load


@pytest.fixture
def fastapi(module: Callable[[str, str], Any]) -> Post:
    app = module("FastAPI", "receiver_fastapi").app

    async def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hooks.test") as client:
            answer = await client.post("/hook", headers=dict(headers), content=body)
            return answer.status_code, answer.content

    return lambda headers, body: asyncio.run(post(headers, body))


@pytest.fixture
def flask(module: Callable[[str, str], Any]) -> Post:
    app = module("Flask", "receiver_flask").app

    def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        answer = app.test_client().post("/hook", headers=dict(headers), data=body)
        return answer.status_code, answer.data

    return post


@pytest.fixture
def express(tmp_path: Path) -> Iterator[Post]:
    """The example in Node, with the packages that `make setup` has installed."""
    (tmp_path / "receiver.mjs").write_text(read_example("Express", "js"))
    (tmp_path / "node_modules").symlink_to(toolchain.CDK / "node_modules")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = toolchain.environment()
    node = shutil.which("node", path=environment["PATH"])
    assert node, "make setup brings Node"
    told = environment | {"GNOMON_WEBHOOK_SECRET": NEW, "PORT": str(port)}
    process = subprocess.Popen([node, "receiver.mjs"], cwd=tmp_path, env=told)

    def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/hook", body, dict(headers), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    try:
        _until_it_listens(port, process)
        yield post
    finally:
        process.terminate()
        process.wait(10)


def _until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the receiver has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("the receiver does not listen")


@pytest.fixture(params=["fastapi", "flask", "express"])
def post(request: pytest.FixtureRequest) -> Post:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


class Clock:
    def __init__(self, age: float) -> None:
        self._age = age

    def now(self) -> float:
        return time.time() - self._age

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def make_call(
    payload: str = ORDERS,
    *,
    attempt: int = 1,
    keys: tuple[str, ...] = (NEW,),
    age: float = 0,
    token: str | None = None,
) -> tuple[dict[str, str], bytes]:
    """Headers and body of a call as the sender makes it."""
    with receiving(lambda exchange: exchange.answer(204)) as receiver:
        target = sender(keys=keys_of(OWNER, *keys), clock=Clock(age))
        target.call(invocation(payload, attempt=attempt, callback_token=token), {"url": receiver.url})
    (request,) = receiver.requests
    own = {name: value for name, value in request.headers.items() if name not in ("host", "connection")}
    return own, request.body


def test_a_genuine_call_does_the_work_and_a_repeated_one_does_not(post: Post) -> None:
    first = post(*make_call())
    assert first[0] == 200
    assert json.loads(first[1]) == {"rows": 3}
    # By its answer one sees that the work was not done for this payload.
    assert post(*make_call('{"orders": []}', attempt=2)) == first


@pytest.mark.slow
@pytest.mark.parametrize(
    "forge",
    [
        lambda headers, body: (headers, body.replace(b"3", b"4")),
        lambda headers, body: (headers, b"\xff" + body),
        lambda headers, body: (headers, json.dumps(json.loads(body), indent=1).encode()),
        lambda headers, body: (headers | {"webhook-id": f"{headers['webhook-id']}x"}, body),
        lambda headers, body: (headers | {"webhook-timestamp": str(int(time.time()) + 1)}, body),
        lambda headers, body: (headers | {"webhook-timestamp": "soon"}, body),
        lambda headers, body: (headers | {"webhook-signature": "v1,abc"}, body),
        lambda headers, body: (headers | {"webhook-signature": "none"}, body),
        lambda headers, body: ({name: headers[name] for name in headers if not name.startswith("webhook")}, body),
    ],
)
def test_a_forged_call_is_refused(post: Post, forge: Callable[[Any, bytes], Any]) -> None:
    headers, body = forge(*make_call())
    headers.pop("content-length", None)
    assert post(headers, body)[0] == 401


def test_a_call_by_another_key_or_a_recorded_one_is_refused(post: Post) -> None:
    assert post(*make_call(keys=(OLD,)))[0] == 401
    assert post(*make_call(age=400))[0] == 401


@pytest.mark.parametrize(("current", "previous"), [(NEW, OLD), (OLD, NEW)], ids=["new key", "old key"])
def test_while_the_key_is_changed_receivers_with_either_accept(post: Post, current: str, previous: str) -> None:
    headers, body = make_call(keys=(current, previous))
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert post(headers, body)[0] == 200


@pytest.mark.parametrize("name", ["fastapi", "flask"])
def test_work_that_fails_is_done_by_the_next_attempt(
    name: str, module: Callable[[str, str], Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    post: Post = request.getfixturevalue(name)
    receiver = sys.modules[f"receiver_{name}"]
    calls = []

    def make_report(payload: Any) -> Any:
        calls.append(payload)
        if len(calls) == 1:
            raise ConnectionError("the database is not there")
        return {"rows": 3}

    monkeypatch.setattr(receiver, "make_report", make_report)
    with contextlib.suppress(ConnectionError):  # what the server would make a 500 of
        assert post(*make_call())[0] == 500
    assert post(*make_call(attempt=2)) == post(*make_call(attempt=3))
    assert len(calls) == 2


def test_calls_at_the_same_time_do_the_work_once(module: Callable[[str, str], Any]) -> None:
    once, done, answers = module("Do the work once", "once").once, [], []

    def work() -> int:
        time.sleep(0.05)
        done.append(1)
        return len(done)

    threads = [threading.Thread(target=lambda: answers.append(once("run", work))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 6
    assert once("another", work) == 2


def test_an_outcome_is_reported_by_what_the_call_said(
    module: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = module("Work that takes longer", "reporting").report
    headers, _ = make_call(attempt=2, token="t0ken")
    with receiving(lambda exchange: exchange.answer(200)) as api:
        monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{api.port}")
        monkeypatch.setenv("GNOMON_TOKEN", "access")
        report(headers, {"rows": 3})
    (request,) = api.requests
    assert request.path == f"/v1/executions/{headers['webhook-id']}-0002/complete"
    assert json.loads(request.body) == {"token": "t0ken", "result": {"rows": 3}}
    assert request.headers["authorization"] == "Bearer access"


def test_a_receiver_of_several_owners_takes_the_key_by_the_header_and_believes_the_key() -> None:
    code: dict[str, Any] = {}
    exec(read_example("The key", "python"), code)
    secrets = {"team-a": NEW, "team-b": OLD}
    headers, body = make_call()
    headers = {name.lower(): value for name, value in headers.items()}
    assert code["verify"](secrets, headers, body) == ("team-a", json.loads(body))
    for wrong in ({"gnomon-owner": "team-b"}, {"gnomon-owner": "team-c"}, {"gnomon-owner": ""}):
        with pytest.raises(WebhookVerificationError):
            code["verify"](secrets, headers | wrong, body)


def test_the_headers_are_those_that_arrive() -> None:
    headers, _ = make_call(token="t0ken")
    written = [CODE.findall(row[0])[0].lower() for row in rows(section(PAGE, "What arrives"))]
    assert sorted(written) == sorted(name for name in headers if name.startswith(("webhook-", "gnomon-")))
    signed = [CODE.findall(row[0])[0] for row in rows(section(PAGE, "What arrives")) if row[2].strip() == "yes"]
    assert signed == ["webhook-id", "webhook-timestamp"]
    assert RUN.fullmatch(headers["webhook-id"])


@pytest.mark.parametrize(
    ("statuses", "retried"), [((408, 425, 429, 500, 502, 503, 504), True), ((410, 301, 304, 400, 401, 404, 422), False)]
)
def test_what_gnomon_does_next_is_as_the_page_says(statuses: tuple[int, ...], retried: bool) -> None:
    for status in statuses:

        def respond(exchange: Exchange, status: int = status) -> None:
            exchange.answer(status, b"", Retry_After="6")

        answer: TargetAnswer
        with receiving(respond) as receiver:
            answer = sender().call(invocation(), {"url": receiver.url})
        assert (answer.status, code(answer), answer.retryable) == (ExecutionStatus.FAILED, f"HTTP_{status}", retried)
        assert answer.retry_after == 6

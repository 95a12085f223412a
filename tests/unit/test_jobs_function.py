from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from functions.domain.result import json_text
from functions.jobs import NonRetryable, Run, job, registry
from functions.jobs.running import run

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


def event(name: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "handler": name,
        "payload": payload,
        "jobId": "job",
        "runId": "job-1800000000",
        "attempt": 2,
        "scheduledFor": "2027-01-15T08:00:00Z",
        "timeoutSeconds": 10,
        **more,
    }


@pytest.fixture
def registered() -> Iterator[None]:
    """Handlers a test registers are gone after it."""
    registry.load()
    before = dict(registry._handlers)
    yield
    registry._handlers.clear()
    registry._handlers.update(before)


def outcome(name: str, payload: Any = None) -> dict[str, Any]:
    return run(event(name, payload), encode=json_text)


@pytest.mark.usefixtures("registered")
def test_what_a_handler_says_of_its_failure_can_be_sent_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Python makes lone surrogates of file names that are no UTF-8; Lambda can neither send nor log them."""

    @job("lost")
    def lost(payload: Any, run: Run) -> None:
        name = os.fsdecode(b"report-\xff")
        raise NonRetryable(f"no file {name}")

    error = outcome("lost")["error"]

    assert error == {"type": "NonRetryable", "message": "no file report-?", "retryable": False}
    json.dumps(error, ensure_ascii=False).encode()
    assert "no file report-?" in caplog.text
    caplog.text.encode()


@pytest.mark.usefixtures("registered")
class TestHandlers:
    def test_a_handler_gets_payload_and_run_and_its_result_is_json(self) -> None:
        @job("probe")
        def probe(payload: Any, run: Run) -> Any:
            return [payload, run.job_id, run.run_id, run.attempt, run.scheduled_for]

        assert outcome("probe", {"r": 1.0, "n": 2**127}) == {
            "result": '[{"r":1.0,"n":170141183460469231731687303715884105728},'
            '"job","job-1800000000",2,"2027-01-15T08:00:00Z"]'
        }

    def test_an_exception_is_named_by_its_class_and_may_be_retried(self) -> None:
        class StockError(Exception):
            pass

        @job("probe")
        def probe(payload: Any, run: Run) -> None:
            raise StockError("none left" * 1_000)

        error = outcome("probe")["error"]
        assert (error["type"], error["retryable"]) == ("StockError", True)
        assert error["message"].startswith("none left")
        assert len(error["message"]) == 1_000

    def test_non_retryable_and_its_subclasses_are_not_retried(self) -> None:
        class Gone(NonRetryable):
            pass

        @job("probe")
        def probe(payload: Any, run: Run) -> None:
            raise Gone("customer is gone")

        assert outcome("probe") == {"error": {"type": "Gone", "message": "customer is gone", "retryable": False}}

    def test_exit_is_an_error_like_others(self) -> None:
        @job("probe")
        def probe(payload: Any, run: Run) -> None:
            sys.exit(3)

        assert outcome("probe") == {"error": {"type": "SystemExit", "message": "3", "retryable": True}}

    @pytest.mark.parametrize(
        ("result", "words"),
        [
            (object(), "not JSON serializable"),
            ({1, 2}, "not JSON serializable"),
            (float("nan"), "not JSON compliant"),
            ("\ud800", "surrogates"),
            ("x" * 32_767, "32769 bytes of JSON; at most 32768"),
        ],
    )
    def test_a_result_that_cannot_be_kept_is_final_and_says_why(self, result: Any, words: str) -> None:
        @job("probe")
        def probe(payload: Any, run: Run) -> Any:
            return result

        error = outcome("probe")["error"]
        assert (error["type"], error["retryable"]) == ("InvalidResult", False)
        assert words in error["message"]

    @pytest.mark.parametrize("result", [object(), float("nan"), "x" * 32_767])
    def test_what_a_handler_returns_that_has_accepted_means_nothing(self, result: Any) -> None:
        @job("probe")
        def probe(payload: Any, run: Run) -> Any:
            return result

        assert run(event("probe", None, callbackToken="t0ken"), encode=json_text) == {"result": "null"}

    def test_an_unknown_name_is_final_and_lists_those_there_are(self) -> None:
        error = outcome("close")["error"]
        assert (error["type"], error["retryable"]) == ("UnknownHandler", False)
        assert "'close'" in error["message"]
        assert "echo, expire-files" in error["message"]

    @pytest.mark.parametrize("name", ["", "a b", "x" * 65, "a/b"])
    def test_other_names_cannot_be_registered(self, name: str) -> None:
        with pytest.raises(ValueError, match="no name"):
            job(name)

    def test_a_name_is_registered_once(self) -> None:
        @job("probe")
        def probe(payload: Any, run: Run) -> None: ...

        assert job("probe")(probe) is probe
        with pytest.raises(ValueError, match="twice"):
            job("probe")(lambda payload, run: None)

    def test_a_coroutine_function_is_no_handler(self) -> None:
        async def probe(payload: Any, run: Run) -> None:
            await asyncio.sleep(0)

        with pytest.raises(TypeError, match="coroutine"):
            job("probe")(probe)


BLOCKED = {
    "sleep": "import time\nwhile True:\n    time.sleep(1)",
    "swallowed": "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
    "in C under the lock": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", BLOCKED.values(), ids=BLOCKED)
def test_the_process_ends_at_the_deadline_whatever_the_handler_does(body: str) -> None:
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    script = (
        "from functions.jobs import job\nfrom functions.jobs.running import run\n"
        f"@job('stuck')\ndef stuck(payload, run):\n{indented}\n"
        f"run({event('stuck', timeoutSeconds=1)!r}, encode=str)\n"
    )
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=20, text=True, check=False
    )
    assert ended.returncode == 1
    assert 1 <= time.monotonic() - started < 2.5
    assert "Timeout (0:00:01)!" in ended.stderr
    assert "in stuck" in ended.stderr


def test_a_handler_in_time_leaves_no_watchdog_behind() -> None:
    script = (
        "import time\nfrom functions.jobs.running import run\n"
        f"print(run({event('echo', 7, timeoutSeconds=1)!r}, encode=str))\ntime.sleep(1.2)\nprint('alive')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=20, text=True, check=False
    )
    assert ended.stdout.splitlines()[-1] == "alive"


class TestExamples:
    def test_echo_answers_payload_and_run(self) -> None:
        assert json.loads(outcome("echo", {"a": [1.0]})["result"]) == {
            "payload": {"a": [1.0]},
            "runId": "job-1800000000",
            "attempt": 2,
            "scheduledFor": "2027-01-15T08:00:00Z",
        }

    def test_expire_files_removes_the_old_ones(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        cache = tmp_path / "cache"
        cache.mkdir()
        for name, age in (("old", 7_200), ("new", 0)):
            (cache / name).write_text(name)
            os.utime(cache / name, (time.time() - age,) * 2)
        payload = {"directory": "cache", "olderThanSeconds": 3_600}
        assert json.loads(outcome("expire-files", payload)["result"]) == {"removed": 1, "kept": 1}
        assert [path.name for path in cache.iterdir()] == ["new"]
        assert json.loads(outcome("expire-files", payload)["result"]) == {"removed": 0, "kept": 1}
        nothing = {"directory": "none", "olderThanSeconds": 0}
        assert json.loads(outcome("expire-files", nothing)["result"]) == {"removed": 0, "kept": 0}

    @pytest.mark.parametrize(
        "payload",
        [None, {}, {"directory": "..", "olderThanSeconds": 1}, {"directory": "/etc", "olderThanSeconds": 1},
         {"directory": "", "olderThanSeconds": 1}, {"directory": "a", "olderThanSeconds": "soon"}],
    )  # fmt: skip
    def test_expire_files_refuses_what_makes_no_sense_and_leaves_its_directory_never(self, payload: Any) -> None:
        assert outcome("expire-files", payload)["error"]["type"] == "NonRetryable"

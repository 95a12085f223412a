"""A worker: it polls for executions of its queues, runs a function for each, and reports what came of it.

    def build(payload, run):
        for n, page in enumerate(payload["pages"]):
            run.report_progress(100 * n / len(payload["pages"]))
            ...
        return {"pages": n}

    Worker(connect, build, queues=["reports"]).run()

`connect` makes a WorkClient; it is called for each thread, and again when the API refuses a token. A client with
ClientCredentials renews its tokens by itself.

What a function has returned is reported until the API takes it, or until the lease of its execution is over: through
outages, and through tokens that are refused meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gnomon.errors import CredentialsError, GnomonApiError, GnomonError, UnreachableError, UsageError
from gnomon.worker_calls import WorkCalls, is_unauthorized, pause_seconds
from gnomon.worker_run import InvalidResult, LeaseLost, NonRetryable, Run, UnreportedError, sendable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gnomon.shapes import ClaimedExecution
    from gnomon.work_client import WorkClient

__all__ = ["LeaseLost", "NonRetryable", "Run", "UnreportedError", "Worker"]

HEARTBEAT_SECONDS = 30.0
LEASE_SECONDS = 90.0
"""How long an execution is held without a heartbeat."""
WAIT_SECONDS = 20
MOST_ITEMS = 10
MOST_KEPT = 100
"""Executions that one heartbeat may name."""
_NOT_WAITED, _PAUSE = 0.9, 2.0
"""Seconds: an empty answer that comes sooner did not wait, and then the worker pauses before its next poll."""
_UNHEARD_SECONDS = 5.0
"""Until the next heartbeat, after one that the API did not hear."""
_MESSAGE_CHARACTERS, _CODE_CHARACTERS = 1_000, 128

_log = logging.getLogger("gnomon.worker")


class Worker:
    def __init__(
        self,
        connect: Callable[[], WorkClient],
        function: Callable[[Any, Run], Any],
        *,
        queues: Iterable[str],
        name: str = "",
        concurrency: int = 1,
        wait_seconds: int = WAIT_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """`function` is called in a thread, with at most `concurrency` at a time."""
        self._calls = WorkCalls(connect)
        self._function = function
        self._queues = tuple(queues)
        self._name = name
        self._concurrency = concurrency
        self._wait_seconds = wait_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._stopping, self._over, self._wake = threading.Event(), threading.Event(), threading.Event()
        self._held: dict[str, Run] = {}
        self._free = threading.Condition()
        self._reported: dict[str, float] = {}
        self._unreported: list[str] = []
        self._refusals = 0
        """Polls in a row for which there was no token."""
        self._worker_id = ""

    @property
    def id(self) -> str:
        """Empty until it is registered."""
        return self._worker_id

    def stop(self) -> None:
        """Take nothing more, and let `run` return when what runs has ended. Safe in a signal handler."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Work until `stop`.

        Raises GnomonApiError for what the API refuses for good, as a role that may not write, and CredentialsError:
        what runs is finished and reported first. Raises UnreportedError where that failed after `stop`.
        """
        heart = threading.Thread(target=self._beat, name="gnomon-heartbeat", daemon=True)
        try:
            self._register()
            heart.start()
            with ThreadPoolExecutor(self._concurrency, thread_name_prefix="gnomon-work") as pool:
                while not self._stopping.is_set():
                    for execution in self._poll():
                        pool.submit(self._work, self._take(execution))
        finally:
            self._over.set()
            self._wake.set()
            if heart.is_alive():
                heart.join(timeout=self._heartbeat_seconds)
            if not heart.is_alive():  # it may still be in a call, which a closed client would break
                self._calls.close()
        if self._unreported:
            raise UnreportedError(
                f"{len(self._unreported)} results could not be reported: {', '.join(self._unreported)}.",
                advice="Their jobs' retries make other attempts, as for a worker that is lost.",
            )

    def _register(self) -> None:
        worker = self._calls.ask(
            lambda client: client.register_worker(self._queues, name=self._name), until=self._stopping
        )
        self._worker_id = worker["id"]
        self._calls.is_known = True
        _log.info("worker %s takes from %s", self._worker_id, ", ".join(self._queues))

    def _poll(self) -> list[ClaimedExecution]:
        """The next executions; empty where none came, or it is to stop."""
        with self._free:
            self._free.wait_for(lambda: len(self._held) < self._concurrency or self._stopping.is_set())
            room = self._concurrency - len(self._held)
        if self._stopping.is_set():
            return []
        poll_id, most, began = uuid.uuid4().hex, min(room, MOST_ITEMS), time.monotonic()
        try:
            claimed = self._calls.ask(
                lambda client: client.poll(
                    self._worker_id, poll_id=poll_id, max_items=most, wait_seconds=self._wait_seconds
                ),
                until=self._stopping,
            )
        except (UnreachableError, CredentialsError, GnomonApiError) as error:
            if self._stopping.is_set():  # and does not wait for an API that is away
                return []
            self._after(error)
            return []
        self._refusals = 0
        if not claimed and time.monotonic() < began + min(_NOT_WAITED, self._wait_seconds):
            # It was not allowed to wait: as many polls of its owner do.
            self._stopping.wait(_PAUSE)
        return claimed

    def _after(self, error: GnomonError) -> None:
        """What follows a poll that was refused; raises the error where nothing can be done."""
        if is_unauthorized(error):
            self._wait_for_a_token(error)
        elif isinstance(error, GnomonApiError) and error.status == 404:  # not heard of for a day, or of another stack
            try:
                self._register()
            except (CredentialsError, GnomonApiError) as refused:
                if not is_unauthorized(refused):
                    raise
                self._wait_for_a_token(refused)
        else:
            raise error

    def _wait_for_a_token(self, error: GnomonError) -> None:
        """Pause before the next poll; raises the error where no other token can come, and nothing is held."""
        with self._free:
            held = len(self._held)
        is_final = isinstance(error, CredentialsError) or not self._calls.are_renewable
        if is_final and not held:
            raise error
        kept = f" {held} executions are held; what they come to is kept until their leases end." if held else ""
        _log.error("no new executions: %s.%s %s", error, kept, error.advice or "")
        self._refusals += 1
        self._stopping.wait(pause_seconds(self._refusals))

    def _take(self, execution: ClaimedExecution) -> tuple[Run, Any]:
        run = Run(
            execution_id=execution["id"],
            job_id=execution["jobId"],
            run_id=execution["runId"],
            attempt=execution["attempt"],
            scheduled_for=execution["scheduledFor"],
            deadline_at=execution["deadlineAt"],
            fence=execution["fence"],
            claimed=time.monotonic(),
            report=self._progress,
        )
        with self._free:
            self._held[run.execution_id] = run
        return run, execution["payload"]

    def _work(self, task: tuple[Run, Any]) -> None:
        run, payload = task
        try:
            self._end(run, payload)
        except GnomonError as error:
            _log.error(
                "the outcome of %s is lost, and its job's retries make another attempt: the API did not take it before "
                "its lease ended: %s. %s",
                *(run.execution_id, error, error.advice or ""),
            )
            if self._stopping.is_set():
                self._unreported.append(run.execution_id)
        finally:
            with self._free:
                self._held.pop(run.execution_id, None)
                self._reported.pop(run.execution_id, None)
                self._free.notify_all()

    def _end(self, run: Run, payload: Any) -> None:
        holder = {"worker_id": self._worker_id, "fence": run.fence}
        try:
            result = self._function(payload, run)
        except LeaseLost:
            _log.warning("%s is no longer this worker's: its function has ended", run.execution_id)
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - users' code: what it raises is the attempt's error
            # Not `exception`: a log that is written in UTF-8 takes no lone surrogates, which file names may bring.
            _log.error("%s failed\n%s", run.execution_id, sendable(traceback.format_exc()))
            self._fail(run, error)
            return
        try:
            self._say(run, lambda client: client.complete_execution(run.execution_id, result, **holder))
        except UsageError as error:
            self._fail(run, InvalidResult(f"the result cannot be written as JSON: {error}"))
        except GnomonApiError as error:
            if error.status not in (400, 413):
                raise
            self._fail(run, InvalidResult(f"the result cannot be kept: {error.message}"))

    def _fail(self, run: Run, error: BaseException) -> None:
        code = f"HANDLER_ERROR:{type(error).__name__}"[:_CODE_CHARACTERS]
        message = sendable(str(error)[:_MESSAGE_CHARACTERS])
        retryable = not isinstance(error, NonRetryable)
        self._say(
            run,
            lambda client: client.fail_execution(
                run.execution_id, code, message, retryable=retryable, worker_id=self._worker_id, fence=run.fence
            ),
        )

    def _say(self, run: Run, report: Callable[[WorkClient], object]) -> None:
        """Report the outcome for as long as it takes. The outcome of a lost execution is dropped."""

        def kept(error: GnomonError) -> None:
            _log.warning(
                "the outcome of %s is kept and reported again until its lease ends: %s. %s",
                *(run.execution_id, error, error.advice or ""),
            )

        try:
            self._calls.ask(report, until=run.lost, kept=kept)
        except GnomonApiError as error:
            if error.status != 409:
                raise
            run.lost.set()
            _log.warning("%s is no longer this worker's, its outcome is dropped: %s", run.execution_id, error.message)

    def _progress(self, run: Run, percent: float, message: str) -> None:
        now = time.monotonic()
        if now - self._reported.get(run.execution_id, -1.0) < 1.0:
            return
        self._reported[run.execution_id] = now
        try:
            self._calls.client.report_progress(
                run.execution_id, percent, message, worker_id=self._worker_id, fence=run.fence
            )
        except GnomonApiError as error:
            if error.status == 409:
                run.lost.set()
            elif error.status == 400:
                raise ValueError(error.message) from error
            else:
                _log.warning("progress of %s was not kept: %s", run.execution_id, error)
        except (UnreachableError, CredentialsError) as error:
            _log.warning("progress of %s was not kept: %s", run.execution_id, error)

    def _beat(self) -> None:
        """Heartbeats until all is over; tells the API at once when the worker is to stop."""
        drained, kept = False, time.monotonic()
        while not self._over.is_set():
            if self._stopping.is_set() and not drained:
                drained = self._quietly(lambda client: client.drain_worker(self._worker_id))
                with self._free:
                    self._free.notify_all()
            with self._free:
                held = dict(self._held)
            begun = time.monotonic()
            if is_heard := self._keep(held):
                kept = begun
            for run in held.values():
                if time.monotonic() - max(kept, run.claimed) > LEASE_SECONDS:
                    run.lost.set()
            pause = self._heartbeat_seconds if is_heard else min(self._heartbeat_seconds, _UNHEARD_SECONDS)
            self._wake.wait(1.0 if self._stopping.is_set() and not drained else pause)
            self._wake.clear()

    def _keep(self, held: dict[str, Run]) -> bool:
        """Whether the API has heard of all of them; of none where nothing is held: it hears that the worker lives."""
        fences = [(one, run.fence) for one, run in held.items()]
        parts = [dict(fences[first : first + MOST_KEPT]) for first in range(0, len(fences), MOST_KEPT)]

        def beat(part: dict[str, int]) -> bool:
            return self._quietly(lambda client: client.heartbeat(self._worker_id, part))

        return all([*map(beat, parts or [{}])])  # each is sent, whatever became of the one before

    def _quietly(self, call: Callable[[WorkClient], object]) -> bool:
        """Whether the API has heard it. What it says is gone is marked so; other failures are tried again next time."""
        try:
            call(self._calls.client)
        except GnomonApiError as error:
            if error.status == 409:
                for gone in error.details:
                    with self._free:
                        run = self._held.get(gone.field)
                    if run is not None:
                        _log.warning("%s is no longer this worker's: %s", gone.field, gone.message)
                        run.lost.set()
                return True
            _log.warning("no heartbeat: %s", error)
            if error.status == 401:
                self._calls.reconnect()
            return False
        except (UnreachableError, CredentialsError) as error:
            _log.warning("no heartbeat: %s", error)
            return False
        return True

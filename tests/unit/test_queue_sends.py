"""Messages of threads that send at the same time share requests, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.adapters.queue_sends import QueueSends

URL, OTHER = "https://sqs/normal", "https://sqs/high"
WAIT = 5.0


class Requests:
    """An SQS client whose first request to a queue waits until it is let go."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[tuple[str, int]]]] = []
        self.under_way, self.let_go = threading.Event(), threading.Event()
        self.refuse: frozenset[str] = frozenset()
        self.fail: Callable[[int], Exception | None] = lambda _: None

    def send_message(self, **message: Any) -> dict[str, Any]:
        self._request(message["QueueUrl"], [(message["MessageBody"], message["DelaySeconds"])])
        return {"MessageId": "1"}

    def send_message_batch(self, **batch: Any) -> dict[str, Any]:
        entries = batch["Entries"]
        self._request(batch["QueueUrl"], [(entry["MessageBody"], entry["DelaySeconds"]) for entry in entries])
        return {"Failed": [{"Id": entry["Id"]} for entry in entries if entry["MessageBody"] in self.refuse]}

    def _request(self, url: str, messages: list[tuple[str, int]]) -> None:
        self.made.append((url, messages))
        if url == URL and not self.under_way.is_set():
            self.under_way.set()
            assert self.let_go.wait(WAIT)
        error = self.fail(len(messages))
        if error is not None:
            raise error

    def bodies(self) -> list[list[str]]:
        return [[body for body, _ in messages] for _, messages in self.made]


def behind_the_first(
    requests: Requests, bodies: list[str], *, delay: Callable[[], int] = lambda: 0
) -> list[Future[None]]:
    """Senders of these messages, after all of which came while the first request was under way."""
    sends = QueueSends(requests)  # type: ignore[arg-type] # what it uses of a client
    pool = ThreadPoolExecutor(max_workers=len(bodies) + 1)
    first = pool.submit(sends.send, URL, "first", delay=delay)
    assert requests.under_way.wait(WAIT)
    others = [pool.submit(sends.send, URL, body, delay=delay) for body in bodies]
    while len(sends._lines[URL].waiting) < len(bodies):
        threading.Event().wait(0.001)
    return [first, *others]


def test_a_message_alone_is_sent_at_once_and_alone() -> None:
    requests = Requests()
    requests.let_go.set()
    QueueSends(requests).send(URL, "a", delay=lambda: 7)  # type: ignore[arg-type] # what it uses of a client
    assert requests.made == [(URL, [("a", 7)])]


def test_those_who_come_meanwhile_go_together_with_the_next_request() -> None:
    requests = Requests()
    bodies = [f"m{number}" for number in range(9)]
    futures = behind_the_first(requests, bodies)
    requests.let_go.set()
    for future in futures:
        future.result(WAIT)
    assert requests.bodies()[0] == ["first"]
    assert [sorted(together) for together in requests.bodies()[1:]] == [bodies]


def test_more_than_ten_are_more_requests_and_each_is_sent_once() -> None:
    requests = Requests()
    bodies = [f"m{number:02d}" for number in range(23)]
    futures = behind_the_first(requests, bodies)
    requests.let_go.set()
    for future in futures:
        future.result(WAIT)
    assert [len(together) for together in requests.bodies()] == [1, 10, 10, 3]
    assert sorted(body for together in requests.bodies()[1:] for body in together) == bodies


def test_the_error_of_a_request_goes_to_each_of_its_senders_and_to_no_other() -> None:
    requests = Requests()
    error = ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "SendMessageBatch")
    requests.fail = lambda size: error if size > 1 else None
    first, *others = behind_the_first(requests, ["a", "b", "c"])
    requests.let_go.set()
    first.result(WAIT)
    for future in others:
        with pytest.raises(ClientError):
            future.result(WAIT)


def test_an_entry_that_is_refused_is_sent_once_more_by_itself() -> None:
    requests = Requests()
    requests.refuse = frozenset({"b"})
    futures = behind_the_first(requests, ["a", "b", "c"])
    requests.let_go.set()
    for future in futures:
        future.result(WAIT)
    assert requests.bodies()[2:] == [["b"]]


def test_a_delay_is_that_of_the_instant_of_the_request() -> None:
    requests, seconds = Requests(), [30]
    futures = behind_the_first(requests, ["a", "b"], delay=lambda: seconds[0])
    seconds[0] = 28
    requests.let_go.set()
    for future in futures:
        future.result(WAIT)
    assert [delay for _, messages in requests.made for _, delay in messages] == [30, 28, 28]


def test_queues_do_not_wait_for_each_other() -> None:
    requests = Requests()
    sends = QueueSends(requests)  # type: ignore[arg-type] # what it uses of a client
    with ThreadPoolExecutor() as pool:
        first = pool.submit(sends.send, URL, "a", delay=lambda: 0)
        assert requests.under_way.wait(WAIT)
        sends.send(OTHER, "b", delay=lambda: 0)
        assert not first.done()
        requests.let_go.set()
        first.result(WAIT)
    assert [url for url, _ in requests.made] == [URL, OTHER]

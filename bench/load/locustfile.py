"""Plays a list of requests with Locust's users, each sending its next when it has its answer, and notes every answer.

Locust's import replaces sockets and threads of its process by gevent's: this file is for `locust` alone, and nothing
imports it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

import gevent
from locust import HttpUser, constant, events, task
from locust.exception import StopUser

from bench.load.story import Answered, Request, load

LONGEST_SECONDS = 60
"""Without an answer by then, the request counts as lost."""

_TOKEN = os.environ["LOAD_TOKEN"]
_RESULTS = Path(os.environ["LOAD_RESULTS"])
_waiting = deque(load(Path(os.environ["LOAD_REQUESTS"])))
_left = len(_waiting)


class Caller(HttpUser):
    host = "http://127.0.0.1"
    wait_time = constant(0)

    def on_start(self) -> None:
        # A company's proxy would be asked for 127.0.0.1 otherwise.
        self.client.trust_env = False

    @task
    def send(self) -> None:
        global _left  # noqa: PLW0603 - greenlets of one thread share it
        if not _waiting:
            raise StopUser
        request = _waiting.popleft()
        answered = self._send(request)
        with _RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(answered)) + "\n")
        _left -= 1

    def _send(self, request: Request) -> Answered:
        body = request.body
        if request.due is not None:
            body = {**body, "delaySeconds": max(0, math.ceil(request.due - time.time()))}
        sent = time.time()
        response = self.client.post(
            request.url,
            json=body,
            name=request.name,
            headers={"Authorization": f"Bearer {_TOKEN}"},
            timeout=LONGEST_SECONDS,
        )
        return Answered(
            name=request.name,
            weight=request.weight,
            url=request.url,
            sent=sent,
            ended=time.time(),
            status=response.status_code,
            answer=response.text or "",
        )


@events.test_start.add_listener
def _quit_when_all_is_answered(environment: Any, **_: Any) -> None:
    def watch() -> None:
        while _left:
            gevent.sleep(0.1)
        environment.runner.quit()

    gevent.spawn(watch)

"""The whole of it: create many jobs at once, let them end, force as many retries at once, let those end, judge."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config

from bench.load import judging, story
from bench.load.judging import Verdict
from bench.load.playing import play
from bench.load.story import ALLOWED, FAILING, Answered, Request
from bench.load.target import Called, Target
from gnomon.client import Client
from gnomon.local import emulator
from gnomon.local.report import step

LEAD = 20
"""Seconds until the jobs are due, so that runs and requests are measured one after the other."""
RETRIED = ", after the forced retries"
LETTER_SECONDS = 30
"""For the stream of dead runs to be announced, after the last of them."""
SINGLES = 5
"""One job in so many is created by a request of its own, besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    jobs: int
    """Created at once, a hundred a request."""
    users: int
    """Requests under way at a time, where each creates or retries one job."""
    seconds: float
    """For all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    answers: Sequence[Answered]
    verdicts: Sequence[Verdict]
    creations_at_once: int
    retries_at_once: int
    """Forced and not ended."""
    runs: Sequence[tuple[str, int, float]]
    """What was run, how many attempts, in how many seconds."""
    repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One run against a stack, whose file's content is `stack`."""

    stack: Mapping[str, Any]
    echo: str
    target: Target
    size: Size
    folder: Path

    def run(self) -> Outcome:
        """Raises nothing for what goes wrong in the stack: it is in the verdicts."""
        ends = time.monotonic() + self.size.seconds
        tag = f"load-{uuid.uuid4().hex[:8]}"
        with step("starting the functions"):
            self._start_functions()
        singles, jobs = self.size.jobs // SINGLES, self.size.jobs
        due = time.time() + LEAD
        bodies = [story.job_body(number, tag=tag, receiver=self.target.url, at=due) for number in range(jobs + singles)]
        burst = story.bulk_creations(bodies[:jobs], api=self._api, echo=self.echo)
        single = story.single_creations(bodies[jobs:], api=self._api, echo=self.echo)
        users = sum(1 for one in burst if one.name == story.BULK)
        answers = self._play(burst, "burst", users=users, ends=ends)
        answers += self._play(single, "single", users=self.size.users, ends=ends)
        ids = judging.created(answers)

        failing = [number % 2 for number in range(jobs + singles)].count(1)
        first = self._ended(tag, failing * ALLOWED + (jobs + singles - failing), ends=ends)
        calls = list(self.target.calls)
        with step("reading dead letters"):
            letters = self._letters(set(ids), failing)
        verdicts = [
            judging.jobs_exist(ids, jobs + singles, first),
            judging.ended_as_decided(first, calls),
            judging.attempts_allowed(first, calls),
            judging.letters_sent(first, letters),
        ]
        retried = [job_id for job_id, job in first.items() if job["target"]["url"].endswith(FAILING)]
        retried = retried[: jobs // 2]
        at = time.time() + LEAD
        retries = story.forced_retries(retried, due=at, api=self._api, echo=self.echo)
        answered = self._play(retries, "retries", users=self.size.users, ends=ends)
        second = self._ended(tag, len({(call.job_id, call.attempt) for call in calls}) + len(retried), ends=ends)
        again = list(self.target.calls)
        verdicts += [
            judging.ended_as_decided(second, again, when=RETRIED),
            judging.attempts_allowed(second, again, forced=set(retried), when=RETRIED),
        ]
        answers += answered
        return Outcome(
            answers=answers,
            verdicts=[judging.answers_came([*burst, *single, *retries], answers), *verdicts],
            creations_at_once=judging.most_at_once(
                [(one.sent, one.ended, one.weight) for one in answers if one.name in {story.BULK, story.SINGLE}]
            ),
            retries_at_once=judging.most_at_once(_under_way(answered, again[len(calls) :], until=time.time())),
            runs=[_ran("first runs", calls, due), _ran("forced retries", again[len(calls) :], at)],
            repeated=judging.repeated(again),
        )

    @property
    def _api(self) -> str:
        return str(self.stack["apiUrl"])

    @property
    def _token(self) -> str:
        return str(self.stack["tokens"]["scheduler"])

    def _start_functions(self) -> None:
        """As many processes as there will be requests at once, so that nobody waits for one to start.

        The emulator starts them for what comes at once; not all together, which takes too long on two cores.
        """
        headers = {"Authorization": f"Bearer {self._token}"}
        limits = httpx.Limits(max_connections=self.size.users)
        with (
            httpx.Client(timeout=90, trust_env=False, limits=limits, headers=headers) as http,
            ThreadPoolExecutor(self.size.users) as threads,
        ):
            for count in (self.size.users // 2, self.size.users, self.size.users):
                list(threads.map(lambda _: http.get(f"{self._api}/health"), range(count)))
                list(threads.map(lambda _: http.post(self.echo, json={}), range(count)))

    def _play(self, requests: Sequence[Request], name: str, *, users: int, ends: float) -> list[Answered]:
        left = ends - time.monotonic()
        with step(f"{name}: {len(requests)} requests, {users} at a time"):
            return play(requests, users=users, token=self._token, folder=self.folder, name=name, seconds=left)

    def _ended(self, tag: str, attempts: int, *, ends: float) -> dict[str, dict[str, Any]]:
        """The jobs by their ids, when all are at rest, or as they are when time is over."""
        with step(f"until {attempts} attempts are made"):
            _wait(lambda: len({(call.job_id, call.attempt) for call in self.target.calls}) >= attempts, ends)
        with step("until all jobs are at rest"), Client(self._api, self._token, timeout_seconds=60) as client:
            while True:
                jobs = {job["id"]: dict(job) for job in client.list_jobs(tag=tag, page_size=100)}
                busy = [job for job in jobs.values() if job["status"] not in {"COMPLETED", "FAILED"}]
                if not busy or time.monotonic() > ends:
                    return jobs
                time.sleep(3)

    def _letters(self, ours: set[str], expected: int) -> dict[str, int]:
        """How many different dead letters there are for each of these jobs. Other jobs' letters stay in the queue."""
        session = boto3.Session(emulator.ROOT_KEY, emulator.ROOT_KEY, region_name=str(self.stack["region"]))
        sqs = session.client("sqs", endpoint_url=self.stack["awsEndpointUrl"], config=Config(proxies={}))
        queue = self.stack["outputs"]["DeadLetterQueueUrl"]
        found: dict[str, set[str]] = {}
        ends = time.monotonic() + LETTER_SECONDS
        while sum(map(len, found.values())) < expected and time.monotonic() < ends:
            messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            mine = []
            for message in messages.get("Messages", []):
                letter = json.loads(message["Body"])
                if letter["jobId"] in ours:
                    found.setdefault(letter["jobId"], set()).add(letter["id"])
                    mine.append({"Id": str(len(mine)), "ReceiptHandle": message["ReceiptHandle"]})
            if mine:
                sqs.delete_message_batch(QueueUrl=queue, Entries=mine)
        return {job_id: len(ids) for job_id, ids in found.items()}


def _wait(until: Callable[[], bool], ends: float) -> None:
    while not until() and time.monotonic() < ends:
        time.sleep(0.5)


def _under_way(
    answered: Sequence[Answered], calls: Sequence[Called], *, until: float
) -> list[tuple[float, float, int]]:
    """From a forced retry's request to the call that it led to."""
    called = {call.job_id: call.at for call in calls}
    return [
        (one.sent, called.get(one.url.split("/")[-2], until), 1)
        for one in answered
        if one.name == story.RETRY and one.status == 200
    ]


def _ran(what: str, calls: Sequence[Called], due: float) -> tuple[str, int, float]:
    return what, len(calls), max((call.at for call in calls), default=due) - due

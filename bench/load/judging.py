"""Whether anything was lost: from what was asked, answered, received and shown. Plain values only."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.load.story import ALLOWED, BULK, FAILING, SINGLE, Answered, Request
from bench.load.target import Called


@dataclass(frozen=True, slots=True)
class Verdict:
    what: str
    found: Sequence[str]
    """What speaks against it; nothing when it holds."""

    @property
    def holds(self) -> bool:
        return not self.found


def created(answers: Sequence[Answered]) -> list[str]:
    """Ids of the jobs that the API said it made, in the order of the answers."""
    ids: list[str] = []
    for one in answers:
        if one.name == SINGLE and one.status == 201:
            ids.append(json.loads(one.answer)["id"])
        if one.name == BULK and one.status == 200:
            ids += [item["job"]["id"] for item in json.loads(one.answer)["data"] if item["status"] == 201]
    return ids


def answers_came(asked: Sequence[Request], answers: Sequence[Answered]) -> Verdict:
    """Each request has an answer that is a success, each item of a bulk request a job."""
    found = [
        f"{count} of `{name}` without an answer"
        for name, count in (Counter(one.name for one in asked) - Counter(one.name for one in answers)).items()
    ]
    wrong = Counter((one.name, one.status) for one in answers if not 200 <= one.status < 300)
    found += [f"{count} × {status or 'no answer'} for `{name}`" for (name, status), count in wrong.items()]
    for one in answers:
        if one.name == BULK and one.status == 200:
            refused = Counter(item["status"] for item in json.loads(one.answer)["data"] if item["status"] != 201)
            found += [f"{count} items with {status} in a bulk answer" for status, count in refused.items()]
    return Verdict("every request was answered with success", found)


def jobs_exist(ids: Sequence[str], wanted: int, jobs: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """The jobs that were made are those that are listed, each once, as many as were asked for."""
    found = [] if len(set(ids)) == wanted else [f"{len(set(ids))} jobs made, {wanted} asked for"]
    found += [f"{job_id} is not listed" for job_id in sorted(set(ids) - set(jobs))]
    found += [f"{job_id} is listed, nobody was told of it" for job_id in sorted(set(jobs) - set(ids))]
    return Verdict("every job that was made is listed, and no other", found)


def ended_as_decided(jobs: Mapping[str, Mapping[str, Any]], calls: Sequence[Called], *, when: str = "") -> Verdict:
    """Each job is at rest, and its end is what the receiver answered to its last attempt."""
    last = {call.job_id: call for call in sorted(calls, key=lambda call: call.attempt)}
    found = []
    for job_id, job in jobs.items():
        run = job["lastRun"] or {}
        call = last.get(job_id)
        if job["status"] not in {"COMPLETED", "FAILED"} or job["activeRuns"]:
            found.append(f"{job_id} is {job['status']}")
        elif call is None:
            found.append(f"{job_id} is {job['status']}, its target was never called")
        elif job["status"] != ("COMPLETED" if call.status == 200 else "FAILED"):
            found.append(f"{job_id} is {job['status']}, its target answered {call.status} to attempt {call.attempt}")
        elif run.get("attempt") != call.attempt:
            found.append(f"{job_id} shows attempt {run.get('attempt')}, its target's last was {call.attempt}")
    return Verdict(f"every job ended as its receiver decided{when}", found)


def attempts_allowed(
    jobs: Mapping[str, Mapping[str, Any]], calls: Sequence[Called], *, forced: Collection[str] = (), when: str = ""
) -> Verdict:
    """A steady job took one attempt, a failing one all that it may; a forced retry is one more."""
    made = _attempts(calls)
    found = []
    for job_id, job in jobs.items():
        failing = job["target"]["url"].endswith(FAILING)
        allowed = (ALLOWED if failing else 1) + (job_id in forced)
        # An attempt whose process was lost is spent, and may not have reached the target.
        if max(made[job_id], default=0) != allowed:
            found.append(f"{job_id}: attempts {sorted(made[job_id])} were made, {allowed} allowed")
    return Verdict(f"every run took the attempts it may{when}", found)


def letters_sent(jobs: Mapping[str, Mapping[str, Any]], letters: Mapping[str, int]) -> Verdict:
    """Each job that failed for good has a dead letter, no other has. `letters`: how many different ones a job has."""
    failed = {job_id for job_id, job in jobs.items() if job["status"] == "FAILED"}
    found = [f"{job_id} failed without a dead letter" for job_id in sorted(failed - set(letters))]
    found += [f"{job_id} has a dead letter, but did not fail" for job_id in sorted(set(letters) - failed)]
    found += [f"{job_id} has {count} dead letters" for job_id, count in letters.items() if count > 1]
    return Verdict("dead letters are those of the failed runs", found)


def repeated(calls: Sequence[Called]) -> int:
    """Calls beyond one an attempt: allowed, since calls are at least once, but worth knowing."""
    return len(calls) - len({(call.job_id, call.attempt) for call in calls})


def most_at_once(spans: Sequence[tuple[float, float, int]]) -> int:
    """The largest sum of weights under way at one instant; spans are (begin, end, weight)."""
    changes = sorted([(begin, weight) for begin, _, weight in spans] + [(end, -weight) for _, end, weight in spans])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _attempts(calls: Sequence[Called]) -> Mapping[str, set[int]]:
    made: dict[str, set[int]] = defaultdict(set)
    for call in calls:
        made[call.job_id].add(call.attempt)
    return made

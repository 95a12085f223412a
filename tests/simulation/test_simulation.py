"""CI's share of the simulation: each part plays some hundred stories. `make simulate` plays more."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable

import pytest

from functions.domain.cron import CronExpression
from tests.simulation.__main__ import main
from tests.simulation.life import Violation
from tests.simulation.plan import BASES, plan
from tests.simulation.shrink import shrunk
from tests.simulation.slots import slots_between
from tests.simulation.story import CROWDS, Told, tell

PARTS, STORIES = 8, 60


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_story_breaks_a_promise(part: int) -> None:
    for seed in range(part * STORIES, (part + 1) * STORIES):
        told = tell(seed)
        if told.violation is not None:
            pytest.fail(shrunk(told, tell, seconds=20))


def must_happen(events: Iterable[str], seeds: Iterable[int]) -> None:
    """Each of them, in one of these stories: no more of them are told than that takes."""
    left = set(events)
    for seed in seeds:
        happened = "\n".join(tell(seed, traced=True).trace)
        left = {event for event in left if event not in happened}
        if not left:
            return
    pytest.fail(f"never: {sorted(left)}")


@pytest.mark.slow
def test_the_stories_are_eventful() -> None:
    """Faults of every kind happen, and what they lead to: repairs, retries, skips, lost races."""
    events = (
        "dies before jobs.save",
        "dies after history.record",
        "dies in the call",
        "answer lost of jobs.save",
        "stalls at",
        "is lost",
        "is late",
        "comes twice",
        "'RECOVERED'",
        "'WOKEN'",
        "TIMED_OUT",
        "RETRIES_EXHAUSTED",
        "RETRY_WINDOW_OVER",
        "NOT_RETRYABLE",
        "JOB_CANCELLED",
        "EXECUTION_CANCELLED",
        "OVERLAP",
        "MISFIRE",
        "SCHEDULE_CHANGED",
        "SkipReason.PAUSED",
        "QUEUED",
        "SENT_AGAIN",
        "ConflictError",
        "TroubleError",
    )
    must_happen(events, range(150))


@pytest.mark.slow
def test_the_stories_of_crowds_are_eventful() -> None:
    events = (
        "CONCURRENCY_LIMIT",
        "CIRCUIT_OPEN",
        "probe=Probe",
        "dies after slots.take",
        "dies before slots.free",
        "dies after circuits.save",
        "dies in the call",
        "answer lost of slots.take",
        "answer lost of circuits.save",
        "stalls at jobs.save",
        "stalls at slots.take",
        "stalls at circuits.save",
        "'RECOVERED'",
        "TIMED_OUT",
        "JOB_CANCELLED",
        "EXECUTION_CANCELLED",
        "reset",
    )
    must_happen(events, range(CROWDS - 1, 150 * CROWDS, CROWDS))


def test_a_story_is_the_same_each_time() -> None:
    first, second = tell(11, traced=True), tell(11, traced=True)
    assert first.trace == second.trace
    assert len(first.trace) > 20


def test_a_story_of_less_is_what_is_left_of_it() -> None:
    whole = tell(11)
    less = tell(11, only=frozenset(whole.met[: len(whole.met) // 2]))
    assert set(less.met) <= set(whole.met[: len(whole.met) // 2])


A_FIRST_ATTEMPT = re.compile(r"consumer j0 \d+ 1 #1\.1/\d+ dies in the call")
"""The death of a first attempt at the first delivery of its hint, which needs no other fault. A second attempt would
need a first one that fails, a second delivery an interrupted one, and a second job the creation of the first."""


@pytest.mark.slow
def test_a_broken_promise_is_shrunk_to_what_it_takes() -> None:
    """A judge that forbids such deaths finds one in a story full of faults: the creation and that death are left."""
    full = (told for seed in itertools.chain((112,), range(200)) if 20 <= len((told := tell(seed)).met) <= 60)
    seed = next(told.seed for told in full if any(map(A_FIRST_ATTEMPT.fullmatch, told.met)))

    def forbids(seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told:
        told = tell(seed, only=only, traced=traced)
        died = list(filter(A_FIRST_ATTEMPT.fullmatch, told.met))
        return dataclasses.replace(told, violation=Violation("nobody dies", died[0]) if died else None)

    found = shrunk(forbids(seed), forbids, "--flag", seconds=60)
    assert f"python -m tests.simulation --flag --seed {seed} --only" in found
    assert re.search(rf"with 2 things taking part:\na\d create\n{A_FIRST_ATTEMPT.pattern}\nreplay", found)


@pytest.mark.parametrize("needed", [[7], [0, 99], [3, 4, 5, 50], list(range(0, 100, 9))], ids=str)
def test_what_is_left_of_a_story_is_needed(needed: list[int]) -> None:
    """Of a hundred things, exactly those that break the promise together are left, in their order."""
    everything = [f"thing {number}" for number in range(100)]
    causes = [everything[number] for number in needed]

    def play(seed: int, *, only: frozenset[str] | None = None, traced: bool = False) -> Told:
        met = [thing for thing in everything if only is None or thing in only]
        broken = Violation("a promise", "is broken") if set(causes) <= set(met) else None
        return Told(seed, broken, met, job_days=0.0, writes=0, runs=0)

    found = shrunk(play(5), play, seconds=60)
    assert "\n".join([f"with {len(causes)} things taking part:", *causes, "replay:"]) in found


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_the_judges_slots_are_those_of_the_product(base: int) -> None:
    """Written apart, by a plain scan: they agree around changes of clocks."""
    for expression, zone in {
        (document["schedule"]["expression"], document["schedule"].get("timezone", "UTC"))
        for seed in range(60)
        for action in plan(seed).actions
        if (document := action.document) is not None and document["schedule"]["type"] == "cron"
    }:
        schedule = {"type": "cron", "expression": expression, "timezone": zone}
        expected = slots_between({"schedule": schedule}, base, base, base + 2 * 86_400)
        cron, slot, found = CronExpression.of(expression, zone), base, []
        while (slot := cron.next_after(slot) or 0) <= base + 2 * 86_400:
            found.append(slot)
        assert found == expected, (expression, zone)


@pytest.mark.slow
def test_many_seeds_are_stories_of_jobs_of_crowds_of_workers_and_of_graphs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--seeds", "4", "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^4 stories of workers in", said, re.M)
    assert re.search(r"^4 stories of graphs, .* attempts", said, re.M)
    assert re.search(r"^4 stories, .* job-days", said, re.M)
    assert main(["--graphs", "--seeds", "4", "--processes", "1"]) == 0
    assert capsys.readouterr().out.count("stories") == 1
    assert main(["--workers", "--seeds", "4", "--processes", "1"]) == 0
    assert capsys.readouterr().out.startswith("4 stories of workers in")

    monkeypatch.setattr("tests.simulation.__main__.of_workers", _breaks_at_two)
    assert main(["--seeds", "4", "--processes", "1"]) == 1
    assert "--workers --seed 2" in capsys.readouterr().out


def _breaks_at_two(seed: int) -> tuple[int, Violation | None]:
    return seed, Violation("a promise", "is broken") if seed == 2 else None

"""The rules of docs/protocol.md, section 3, checked after every single write from randomly reached rows."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.domain.approval import subject_of
from functions.domain.errors import GnomonError
from functions.domain.execution import ExecutionError, ExecutionStatus
from functions.domain.hint import Hint
from functions.domain.ids import is_scheduled, run_id, slot_id
from functions.domain.job import Job
from functions.domain.outcome import TargetAnswer
from functions.domain.run import APPROVAL, HINT_SLACK, ActiveRun, Decision, Outcome, RunState
from functions.domain.visit import WAKE_BACKOFF, WAKE_BACKOFF_MAX
from functions.usecases.actions import execute_job, pause_job, resume_job, retry_job
from functions.usecases.approvals import GateDecision, decide_run
from functions.usecases.cancelling import cancel_execution, cancel_job, delete_job
from functions.usecases.jobs import JobDraft, change_job
from tests.driver import ADMIN, Driver
from tests.factories import NOW, make_document
from tests.fakes import World
from tests.faults import Crash, Faults
from tests.seeded import ids_of
from tests.telling import image


def check_attention(row: Job, now: int) -> None:
    """Absent exactly at rest; never later than the bound, but for what the sweep has woken."""
    bound = row.bound(now)
    assert (row.attention_at is None) == (bound is None), "attention is absent exactly at rest"
    looked = row.look_due is not None and row.look_due <= now
    if looked and row.attention_at is not None:
        assert row.attention_at <= now + WAKE_BACKOFF_MAX, "the sweep sends a look again and again"
        bound = replace(row, upstream=None, followed=None, gap=None).bound(now)
    if row.attention_at is not None and bound is not None and row.attention_at > bound:
        # A look at the graph that was woken is due again in a minute, and no wake is counted for it.
        woken = row.look_due is not None and row.look_due <= now and row.attention_at <= now + WAKE_BACKOFF
        assert row.wakes > 0 or woken, f"attention {row.attention_at} is later than {bound}"
        assert row.attention_at <= now + WAKE_BACKOFF_MAX
        leases = [run.lease_expires_at or 0 for run in row.runs.values() if run.state is RunState.RUNNING]
        assert all(row.attention_at <= lease for lease in leases), "a lease's bound never moves"
        alarm = row.silence.due_at if row.silence is not None else None
        assert alarm is None or row.attention_at <= alarm, "the bound of a silence alarm never moves"


class StepsBack:
    """The attempts of a life that waited for the end of another run of their job, instead of for their retry."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, int]] = set()

    def note(self, row: Job) -> None:
        for slot, run in row.runs.items():
            if run.state is RunState.QUEUED:
                self._seen.add((row.id, slot, run.attempt))

    def check_due(self, row: Job, slot: str, run: ActiveRun, retry_at: int | None) -> None:
        """A retry is due at the instant that was stored with the failed attempt, or at the end that it waited for."""
        assert run.due_at is not None
        assert retry_at is not None
        assert run.due_at == retry_at or (run.due_at > retry_at and (row.id, slot, run.attempt) in self._seen)


def check_row(driver: Driver, row: Job, steps_back: StepsBack) -> None:
    """What must hold of a row after every single write."""
    steps_back.note(row)
    world, now = driver.world, int(driver.clock.now())
    check_attention(row, now)
    assert replace(image(row), definition=row.definition) == row, "what is stored is what was written"
    if row.next_slot is not None and row.last_slot is not None:
        assert row.next_slot > row.last_slot
    definition = world.jobs.get(row.id).definition
    if row.next_slot is not None and definition is not None and definition.schedule.recurring:
        assert definition.schedule.next_after(row.next_slot - 1) == row.next_slot
    states = [run.state for run in row.runs.values()]
    active = [state for state in states if state is not RunState.QUEUED]
    if RunState.QUEUED in states:
        assert active, "a queued run waits for another"
    started = {key[1] for key in world.history.executions if key[0] == row.id} | set(row.runs)
    if row.gap is not None:
        gap = row.gap
        within = [slot for slot in started if is_scheduled(slot) and slot_id(gap.first) <= slot <= slot_id(gap.last)]
        # A cancel or a quarantine may have died after its history row, and a caller have passed the slot over since.
        outside = [
            slot
            for slot in within
            if all(
                e.status is ExecutionStatus.CANCELLED or e.reason == "QUARANTINED"
                for e in world.history.of(row.id)
                if e.slot_id == slot
            )
        ]
        assert within == outside, "no slot is skipped and started"
    for slot, run in row.runs.items():
        if run.state is RunState.WAITING and run.attempt > 0:
            past = world.history.get(row.id, slot, run.attempt)
            assert past is not None, "an attempt is in history before the next one waits"
            if not run.manual and run.approval == past.approval and not run.deferred_for and row.brake_count < 300:
                steps_back.check_due(row, slot, run, past.next_retry_at)
        if run.state is RunState.RUNNING and run.attempt > 1:
            assert world.history.get(row.id, slot, run.attempt - 1) is not None
        assert run.fence <= row.fence
    check_graph(driver, row)
    check_gates(driver, row)
    fences = [run.fence for run in row.runs.values() if run.state is RunState.RUNNING]
    assert len(fences) == len(set(fences)), "fences are job-wide"


def check_gates(driver: Driver, row: Job) -> None:
    """A run at its gate has nothing running and a deadline; one that was decided about waits no more."""
    for run in row.runs.values():
        if run.waits_for == APPROVAL:
            assert (run.state, run.approval, run.verdict) == (RunState.WAITING, None, None)
            assert run.due_at is not None
            assert run.deferred_for == "APPROVAL_NEEDED"
        if run.approval is not None and run.approval.decision is Decision.REJECTED:
            assert (run.state, run.verdict) == (RunState.WAITING, Outcome.CANCELLED), "what was rejected never runs"
    for execution in driver.world.history.of(row.id):
        approval = execution.approval
        if approval is not None and approval.decision is Decision.REJECTED:
            assert execution.status is ExecutionStatus.CANCELLED
            assert execution.started_at is None


def check_start(before: Job, row: Job) -> None:
    """A first attempt begins under the approval of what it calls."""
    definition = row.definition
    for slot, run in row.runs.items():
        old = before.runs.get(slot)
        started = run.state is RunState.RUNNING and (old is None or old.fence != run.fence)
        if not started or definition is None or definition.approval is None or (run.attempt > 1 and not run.approval):
            continue
        assert run.approval is not None, "nothing starts that nobody approved"
        assert run.approval.decision is Decision.APPROVED
        assert run.approval.subject == subject_of(definition), "nothing else is called than what was approved"


def check_graph(driver: Driver, row: Job) -> None:
    """What a row says of the graph that its job is part of (docs/protocol.md, 6)."""
    definition = driver.world.jobs.get(row.id).definition
    if definition is not None:
        assert (row.upstream is None) == (not definition.depends_on)
        if row.upstream is not None:
            assert row.next_slot is None, "a job that depends on others has no slot of its own"
            assert len(row.upstream.marks) == len(definition.depends_on)
            assert all(len(run.took) in (0, len(definition.depends_on)) for run in row.runs.values())
            if row.deleted_at is None:
                edges = driver.world.dependents.edges
                parents = {one.job_id: driver.world.jobs.get(one.job_id) for one in definition.depends_on}
                lives = [one for one, parent in parents.items() if parent is None or parent.deleted_at is None]
                assert all(row.id in edges.get(one, ()) for one in lives), "no row before its edge"
    if row.followed is not None:
        assert row.followed.told <= row.followed.ends
        assert row.followed.ends == 0 or row.last_run is not None, "an end is the last run"


def check_ends(before: Job, row: Job) -> None:
    """Each run that ends is one end; so is the cancel of a job."""
    if before.followed is None:
        return
    assert row.followed is not None, "who follows a job is not forgotten"
    ended = row.last_run != before.last_run
    assert row.followed.ends == before.followed.ends + ended
    assert ended or not row.cancelled or before.cancelled


def check_taken(driver: Driver, before: Job, row: Job, *, since: float) -> None:
    """A slot that was due and is `next_slot` no more has an outcome, or soon has one (docs/protocol.md, V11)."""
    slot = before.next_slot
    if slot is None or slot == row.next_slot or slot + before.spread > since:
        return
    history = driver.world.history
    gaps = [gap for gap in (row.gap, *(gap for (job_id, _), gap in history.gaps.items() if job_id == row.id)) if gap]
    assert (
        slot_id(slot) in row.runs
        or any(key[:2] == (row.id, slot_id(slot)) for key in history.executions)
        or any(gap.first <= slot <= gap.last for gap in gaps)
    ), f"slot {slot - NOW} was due and is forgotten"


def check_history(driver: Driver) -> None:
    completed: dict[tuple[str, str], int] = {}
    for (job_id, slot, _), execution in driver.world.history.executions.items():
        if execution.status is ExecutionStatus.COMPLETED:
            completed[job_id, slot] = completed.get((job_id, slot), 0) + 1
    assert all(count == 1 for count in completed.values()), "a slot completes once"
    calls = [(call.job_id, call.slot_id, call.attempt) for call in driver.world.targets.calls]
    assert len(calls) == len(set(calls)), "an attempt is called once by us"


SCHEDULES: list[dict[str, Any]] = [
    {"schedule": {"type": "interval", "everySeconds": 60}},
    {"schedule": {"type": "interval", "everySeconds": 7}},
    {"schedule": {"type": "cron", "expression": "*/2 * * * *"}},
    {"schedule": {"type": "once", "at": "2027-01-15T08:00:30Z"}},
    {"schedule": {"type": "interval", "everySeconds": 60}, "spreadSeconds": 20},
    {"schedule": {"type": "interval", "everySeconds": 30}, "maxRuns": 3},
]
POLICIES: list[dict[str, Any]] = [
    {"overlapPolicy": overlap, "misfirePolicy": misfire, "retryConfig": retry}
    for overlap in ("skip", "allow", "queue")
    for misfire in ("run_once", "skip", "run_all")
    for retry in (
        {"maxRetries": 0},
        {"maxRetries": 2, "initialDelaySeconds": 5, "jitter": 0},
        {"maxRetries": 5, "initialDelaySeconds": 5, "jitter": 0, "retryWindowSeconds": 60},
    )
]
DEPENDENCIES: list[dict[str, Any]] = [
    {"on": on, "onUpstreamFailure": policy, "join": join}
    for on in ("success", "completion", "failure")
    for policy in ("skip", "fail", "run")
    for join in ("all", "any")
]
GATES: list[dict[str, Any]] = [
    *({},) * 4,
    {"approval": {"role": "admin", "timeoutSeconds": 60, "fourEyes": False}},
    {"approval": {"role": "admin", "timeoutSeconds": 300, "onTimeout": "approve", "fourEyes": False}},
]
ALARMS: list[dict[str, Any]] = [{}, {"alertAfterSeconds": 60}, {"alertAfterSeconds": 300}]


class Story:
    """One random life of a job, alone or with others in a graph; `choose` draws everything that is not fixed."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.world = World(faults=Faults())
        self.driver = Driver(self.world)
        self.world.targets.answers = [self.answer]
        self.world.faults.on_step = self.after
        self.rows: dict[str, Job] = {}
        self.steps_back = StepsBack()
        self.began = self.world.clock.now()
        document = choose.choice(SCHEDULES) | self.policies()
        self.job = self.driver.create(**document, enabled=choose.random() > 0.1)
        self.jobs = [self.job.id]
        self.nested = 0
        for _ in range(choose.choice([0, 0, 1, 3])):
            with contextlib.suppress(GnomonError):
                self.jobs.append(self.driver.create(**self.dependent(), enabled=choose.random() > 0.1).id)

    def dependent(self) -> dict[str, Any]:
        """The document of a job that depends on others of the story; that may close a cycle, or name a job twice."""
        words = self.choose.choice(DEPENDENCIES)
        parents = self.choose.choices(self.jobs, k=self.choose.choice([1, 1, 2]))
        depends_on = [{"jobId": one, "on": words["on"]} for one in dict.fromkeys(parents)]
        kept = {name: words[name] for name in ("onUpstreamFailure", "join")}
        return {"schedule": None, "dependsOn": depends_on, **kept, **self.policies(), "misfirePolicy": None}

    def policies(self) -> dict[str, Any]:
        drawn = [self.choose.choice(some) for some in (POLICIES, ALARMS, GATES)]
        return {name: value for words in drawn for name, value in words.items()}

    @property
    def one(self) -> str:
        """The id of a job of the story."""
        return self.choose.choice(self.jobs)

    def answer(self, _: Any) -> TargetAnswer:
        if self.nested < 2 and self.choose.random() < 0.5:  # a call takes time, and others act in it
            self.nested += 1
            self.step()
            self.nested -= 1
        self.world.clock.advance(self.choose.choice([0, 1, 20, 200]))
        if self.choose.random() < 0.15:
            raise Crash("the owner dies in the call")
        if self.choose.random() < 0.5:
            return TargetAnswer(status=ExecutionStatus.COMPLETED, result="1")
        error = ExecutionError(code="HTTP_503", message="no")
        return TargetAnswer(status=ExecutionStatus.FAILED, error=error, retryable=self.choose.random() < 0.9)

    def after(self, when: str, name: str) -> None:
        if when == "after" and name in ("jobs.save", "jobs.create"):
            for row in self.world.jobs.rows.values():
                check_row(self.driver, row, self.steps_back)
                check_taken(self.driver, self.rows.get(row.id, row), row, since=self.began)
                check_ends(self.rows.get(row.id, row), row)
                check_start(self.rows.get(row.id, row), row)
                self.rows[row.id] = row
        if when == "before" and name == "jobs.save" and self.nested < 2 and self.choose.random() < 0.2:
            self.nested += 1  # somebody else writes between our read and our write
            self.step()
            self.nested -= 1
        if self.choose.random() < 0.03:
            raise Crash(f"{when} {name}")

    def step(self) -> None:
        """One thing happens: to the messages, by the sweep, or by a caller."""
        if not self.nested:
            self.began = self.world.clock.now()
        kinds = [self.deliveries] * 6 + [self.sweep, self.request, self.request, self.request]
        with contextlib.suppress(GnomonError, Crash):
            self.choose.choice(kinds)()

    def deliveries(self) -> None:
        timetable, clock = self.world.timetable, self.world.clock
        action = self.choose.choice(["run"] * 6 + ["deliver"] * 4 + ["duplicate", "drop", "early", "stale"])
        delivery = self.choose.choice(timetable.armed) if timetable.armed else None
        if action == "run" or delivery is None:
            clock.advance(self.choose.choice([1, 10, 31, 65, 400]))
            for due in timetable.take_due():
                self.driver.deliver(due)
        elif action == "deliver":
            timetable.drop(delivery)
            clock.time = max(clock.time, delivery.visible_at)
            self.driver.deliver(delivery)
        elif action == "duplicate":
            timetable.duplicate(delivery, later=self.choose.choice([0, 1, 90]))
        elif action == "drop":
            timetable.drop(delivery)
        elif action == "early":
            self.driver.deliver(delivery)
        else:
            job_id = self.one
            slot = self.choose.choice([*self.driver.row(job_id).runs, slot_id(int(clock.now()))])
            self.driver.deliver_hint(Hint(job_id, slot, self.choose.choice([1, 2, 3])))

    def sweep(self) -> None:
        self.world.clock.advance(self.choose.choice([0, 30, 60]))
        self.driver.sweep_now()

    def request(self) -> None:
        requests = [self.pause, self.resume, self.resume, self.patch, self.tag, self.execute, self.retry]
        requests += [self.decide, self.decide, self.cancel_execution] + (
            [self.cancel] if self.choose.random() < 0.2 else []
        )
        requests += [self.delete] if self.choose.random() < 0.1 else []
        self.choose.choice(requests)()

    def pause(self) -> None:
        pause_job(self.driver.services, ADMIN, self.one)

    def resume(self) -> None:
        resume_job(self.driver.services, ADMIN, self.one)

    def patch(self) -> None:
        words = self.choose.choice(SCHEDULES) | self.policies()
        if len(self.jobs) > 1 and self.choose.random() < 0.5:
            words = self.dependent()
        document = make_document(**words)
        draft = JobDraft(document=document, payload='{"a":1}')
        change_job(self.driver.services, ADMIN, self.one, change=lambda _: draft)

    def tag(self) -> None:
        tag = str(self.choose.random())

        def change(row: Job) -> JobDraft:
            return JobDraft(document={**row.defined.document, "tags": [tag]}, payload="1")

        change_job(self.driver.services, ADMIN, self.one, change=change)

    def execute(self) -> None:
        execute_job(self.driver.services, ADMIN, self.one)

    def retry(self) -> None:
        retry_job(self.driver.services, ADMIN, self.one, delay_seconds=self.choose.choice([0, 30]))

    def cancel_execution(self) -> None:
        job_id = self.one
        for slot, run in self.driver.row(job_id).runs.items():
            attempt = run.attempt + (run.state is not RunState.RUNNING)
            cancel_execution(self.driver.services, ADMIN, f"{job_id}-{slot}-{attempt:04d}")
            break

    def decide(self) -> None:
        job_id = self.one
        for slot, run in self.driver.row(job_id).runs.items():
            if run.at_gate:
                decision = self.choose.choice(list(Decision))
                verdict = GateDecision(decision=decision, run=run_id(job_id, slot))
                decide_run(self.driver.services, ADMIN, job_id, verdict)
                break

    def cancel(self) -> None:
        cancel_job(self.driver.services, ADMIN, self.one)

    def delete(self) -> None:
        delete_job(self.driver.services, ADMIN, self.one)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**48), steps=st.integers(min_value=1, max_value=60))
def test_every_write_keeps_the_rules_of_the_row(seed: int, steps: int) -> None:
    with ids_of(seed), contextlib.suppress(Crash):
        story = Story(random.Random(seed))
        for _ in range(steps):
            story.step()
            check_history(story.driver)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=0, max_value=2**48), steps=st.integers(min_value=1, max_value=40))
def test_after_any_story_every_due_slot_gets_its_outcome(seed: int, steps: int) -> None:
    """The faults stop; within lease + 2 minutes nothing that was due is without an outcome, and all runs end."""
    with ids_of(seed):
        try:
            story = Story(random.Random(seed))
        except Crash:
            return
        for _ in range(steps):
            story.step()
        _must_come_to_rest(story)


def _must_come_to_rest(story: Story) -> None:
    driver, world = story.driver, story.world
    world.faults.disarm()
    world.targets.answers = [TargetAnswer(status=ExecutionStatus.COMPLETED)]
    for one in story.jobs:
        with contextlib.suppress(GnomonError):
            resume_job(driver.services, ADMIN, one)
    settle = 75 + 120 + WAKE_BACKOFF_MAX + 600
    driver.run(settle)
    now = driver.clock.now()
    for one in story.jobs:
        row = driver.row(one)
        for slot, run in row.runs.items():
            assert (run.lease_expires_at or run.due_at or now) >= now - 200, f"{slot} is stuck: {run}"
        if row.next_due is not None and not row.paused and not row.next_waits:
            assert row.next_due >= now - 200, "the next slot is long due"
        if row.last_run is not None and not row.cancelled:
            assert row.last_run.outcome in tuple(Outcome)
        if row.followed is not None and row.followed.told < row.followed.ends:
            assert row.last_run is not None
            assert row.last_run.ended_at >= now - 200, "dependents were told long ago"
        if row.upstream is not None and row.waits_for_parents and not row.runs:
            parents = [driver.row(each.job_id) for each in driver.services.jobs.get(one).defined.depends_on]
            assert not all(parent.is_over for parent in parents), "it waits for nobody"


@pytest.mark.case(33)
def test_a_duplicated_hint_breeds_no_second_chain() -> None:
    driver = Driver()
    job = driver.create(schedule={"type": "cron", "expression": "* * * * *"})
    driver.world.timetable.duplicate(driver.world.timetable.armed[0])
    driver.run(3601)
    assert len(driver.world.timetable.hints(job.id)) == 1
    assert len(driver.world.targets.calls) == 60


def test_slack_is_the_protocols() -> None:
    assert HINT_SLACK == 30

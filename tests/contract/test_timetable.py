"""Timetable: near hints by the queue's delay, far ones by a schedule, both into the queue of the job's priority."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError

from functions.domain.definition import Priority
from functions.domain.errors import HintNotSentError
from functions.domain.hint import Hint, read_hint
from functions.domain.ids import slot_id
from functions.ports import ArmedHint
from tests.contract.conftest import make_timetable
from tests.factories import JOB_ID, NOW, make_hint
from tests.fakes import FakeClock

if TYPE_CHECKING:
    from tests.conftest import Aws


class Sent(NamedTuple):
    """A hint on its way, read back from where the platform keeps it."""

    hint: Hint
    priority: Priority
    delay: int | None
    schedule: str | None = None
    fires_at: int | None = None


@pytest.fixture
def sent(platform, timetable, clock, faults) -> Any:
    """Everything that is on its way."""
    if platform is None:

        def of_fake() -> list[Sent]:
            return [
                Sent(one.hint, one.priority, None, one.schedule, int(one.visible_at))
                if one.schedule
                else Sent(one.hint, one.priority, int(one.visible_at - clock.now()))
                for one in timetable.armed
            ]

        return of_fake
    messages: list[Sent] = []
    by_url = {url: priority for priority, (url, _) in platform.queues.items()}
    by_arn = {arn: priority for priority, (_, arn) in platform.queues.items()}

    def keep(params: dict[str, Any], **_: Any) -> None:
        messages.append(Sent(read_hint(params["MessageBody"]), by_url[params["QueueUrl"]], params["DelaySeconds"]))

    def keep_batch(params: dict[str, Any], **_: Any) -> None:
        for entry in params["Entries"]:
            keep({**entry, "QueueUrl": params["QueueUrl"]})

    platform.sqs.meta.events.register("provide-client-params.sqs.SendMessage", keep)
    platform.sqs.meta.events.register("provide-client-params.sqs.SendMessageBatch", keep_batch)

    def of_moto() -> list[Sent]:
        far = []
        for summary in platform.scheduler.list_schedules(GroupName="gnomon")["Schedules"]:
            schedule = platform.scheduler.get_schedule(Name=summary["Name"], GroupName="gnomon")
            fires = datetime.strptime(schedule["ScheduleExpression"], "at(%Y-%m-%dT%H:%M:%S)").replace(tzinfo=UTC)
            assert schedule["ScheduleExpressionTimezone"] == "UTC"
            assert schedule["ActionAfterCompletion"] == "DELETE"
            assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
            target = schedule["Target"]
            assert target["RoleArn"] == platform.scheduler_role_arn
            hint = read_hint(target["Input"])
            far.append(Sent(hint, by_arn[target["Arn"]], None, schedule["Name"], int(fires.timestamp())))
        return [*messages, *far]

    return of_moto


@pytest.mark.parametrize(
    ("ahead", "delay"), [(-100, 0), (0, 0), (0.2, 1), (1, 1), (59.001, 60), (899.5, 900), (900, 900)]
)
def test_a_near_hint_waits_in_the_queue_and_never_comes_early(timetable, sent, clock, ahead, delay):
    clock.time = NOW - ahead

    timetable.arm(make_hint(), due_at=NOW, priority=Priority.HIGH)

    assert sent() == [Sent(make_hint(), Priority.HIGH, delay)]


@pytest.mark.parametrize("ahead", [900.5, 901, 1200, 86_400 * 3650])
def test_a_far_hint_gets_a_schedule_between_13_and_3_minutes_before(timetable, sent, clock, ahead):
    clock.time = NOW - ahead

    timetable.arm(make_hint(), due_at=NOW, priority=Priority.LOW)

    [one] = sent()
    assert (one.hint, one.priority, one.delay) == (make_hint(), Priority.LOW, None)
    assert NOW - 780 <= one.fires_at <= NOW - 180
    assert one.fires_at > clock.now()
    assert one.schedule.startswith(f"{JOB_ID.replace('-', '')}-s-{NOW}-1-")


def test_a_schedule_that_is_armed_already_is_no_error(timetable, sent, clock):
    clock.time = NOW - 2000
    for _ in range(3):
        timetable.arm(make_hint(), due_at=NOW, priority=Priority.NORMAL)

    assert len(sent()) == 1


def test_attempts_slots_and_manual_runs_have_schedules_of_their_own(timetable, sent, clock):
    clock.time = NOW - 2000
    hints = [
        make_hint(),
        make_hint(attempt=2),
        make_hint(slot_id=slot_id(NOW - 60)),
        make_hint(slot_id=f"{NOW}mabcdefgh"),
    ]
    for hint in hints:
        timetable.arm(hint, due_at=NOW, priority=Priority.NORMAL)

    assert {one.hint for one in sent()} == set(hints)
    assert all(len(one.schedule) <= 64 for one in sent())


def test_a_schedule_can_be_taken_back_and_armed_again(timetable, sent, clock):
    clock.time = NOW - 2000
    timetable.arm(make_hint(), due_at=NOW, priority=Priority.NORMAL)
    timetable.arm(make_hint(attempt=2), due_at=NOW, priority=Priority.NORMAL)

    timetable.disarm(make_hint(), due_at=NOW)
    assert [one.hint.attempt for one in sent()] == [2]

    timetable.arm(make_hint(), due_at=NOW, priority=Priority.NORMAL)
    assert len(sent()) == 2


def test_taking_back_what_is_not_there_is_nothing(timetable, sent, clock):
    clock.time = NOW - 2000
    timetable.disarm(make_hint(), due_at=NOW)
    timetable.disarm(make_hint(), due_at=NOW - 5000)

    clock.time = NOW - 30
    timetable.arm(make_hint(), due_at=NOW, priority=Priority.NORMAL)
    timetable.disarm(make_hint(), due_at=NOW)

    assert len(sent()) == 1


def test_the_backlog_counts_what_is_due_over_all_queues(timetable, clock):
    clock.time = NOW
    assert timetable.backlog() == 0

    for priority in Priority:
        timetable.arm(make_hint(), due_at=NOW - 1, priority=priority)
        timetable.arm(make_hint(), due_at=NOW + 600, priority=priority)
    timetable.arm(make_hint(), due_at=NOW, priority=Priority.LOW)

    assert timetable.backlog() == 4


def test_what_was_taken_and_comes_again_waits_too(timetable, platform, clock):
    clock.time = NOW
    for priority in Priority:
        timetable.arm(make_hint(), due_at=NOW - 1, priority=priority)

    if platform is None:
        for delivery in timetable.take_due():
            timetable.duplicate(delivery, later=540).receives += 1
    else:
        for url, _ in platform.queues.values():
            assert len(platform.sqs.receive_message(QueueUrl=url)["Messages"]) == 1

    assert timetable.backlog() == 3


@pytest.mark.parametrize(("capacity", "backlog"), [(0, 3 + 2 + 1), (1, 2 + 1 + 1), (2, 1 + 0 + 1), (100, 1)])
def test_what_consumers_have_in_hand_does_not_wait(aws, capacity, backlog):
    timetable = make_timetable(aws, FakeClock(NOW), capacity=capacity)
    for priority, count in zip(Priority, (3, 2, 0), strict=True):
        url, _ = aws.queues[priority]
        for attempt in range(1, count + 1):
            timetable.arm(make_hint(attempt=attempt), due_at=NOW - 1, priority=priority)
            aws.sqs.receive_message(QueueUrl=url)
    timetable.arm(make_hint(attempt=9), due_at=NOW - 1, priority=Priority.LOW)

    assert timetable.backlog() == backlog


@pytest.mark.parametrize("ahead", [10, 2000])
@pytest.mark.parametrize("fault", ["refused", "unreachable"])
def test_a_hint_that_cannot_be_sent_is_a_domain_error(timetable, platform, clock, ahead, fault):
    clock.time = NOW - ahead
    if platform is None:
        timetable.failing = True
    else:
        for client in (platform.sqs, platform.scheduler):
            client.meta.events.register_first("before-send", refuse if fault == "refused" else fail)

    with pytest.raises(HintNotSentError):
        timetable.arm(make_hint(), due_at=NOW, priority=Priority.NORMAL)
    timetable.disarm(make_hint(), due_at=NOW)


def refuse(request: Any, **_: Any) -> AWSResponse:
    body = BytesIO(b'{"__type":"ServiceQuotaExceededException","message":"Too many schedules"}')
    return AWSResponse(request.url, 402, {"x-amzn-errortype": "ServiceQuotaExceededException"}, RawResponse(body))


def fail(request: Any, **_: Any) -> None:
    raise EndpointConnectionError(endpoint_url=request.url)


class RawResponse(NamedTuple):
    body: BytesIO

    def stream(self, **_: Any) -> Any:
        yield self.body.read()


def test_the_message_carries_the_names_and_nothing_else(aws):
    make_timetable(aws, FakeClock(NOW)).arm(make_hint(), due_at=NOW, priority=Priority.NORMAL)

    url, _ = aws.queues[Priority.NORMAL]
    [message] = aws.sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"]) == {"v": 1, "jobId": JOB_ID, "slot": f"{NOW}", "attempt": 1}


def test_many_are_armed_together_each_on_its_own_way(timetable, sent, clock):
    clock.time = NOW - 2000
    near = [
        ArmedHint(make_hint(attempt=n), NOW - 1990, Priority.HIGH if n % 2 else Priority.LOW, "team-a")
        for n in range(1, 25)
    ]
    far = ArmedHint(make_hint(), NOW, Priority.NORMAL, "team-a")

    assert timetable.arm_all([*near, far]) == 0

    hints = sent()
    assert {(one.hint, one.priority) for one in hints} == {(one.hint, one.priority) for one in [*near, far]}
    assert [one.delay for one in hints if one.schedule is None] == [10] * 24
    assert len(hints) == 25


def groups(aws: Aws) -> list[str | None]:
    """MessageGroupId of each message in the queue of normal priority."""
    url, found = aws.queues[Priority.NORMAL][0], []
    while messages := aws.sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
    ).get("Messages"):
        found += [message.get("Attributes", {}).get("MessageGroupId") for message in messages]
    return found


@pytest.mark.parametrize("count", [1, 12])
def test_hints_name_their_owner_as_the_tenant_of_a_fair_queue(aws: Aws, count: int) -> None:
    hints = [ArmedHint(make_hint(attempt=n), NOW - 1, Priority.NORMAL, f"team-{n % 2}") for n in range(1, count + 1)]

    assert make_timetable(aws, FakeClock(NOW)).arm_all(hints) == 0

    assert sorted(map(str, groups(aws))) == sorted(f"team-{n % 2}" for n in range(1, count + 1))


@pytest.mark.parametrize("owner", ["team-größe", "team a", "x" * 129])
def test_an_owner_that_sqs_takes_as_no_group_has_one_all_the_same(aws: Aws, owner: str) -> None:
    timetable = make_timetable(aws, FakeClock(NOW))

    for name in (owner, owner, "team-b"):
        timetable.arm_all([ArmedHint(make_hint(), NOW - 1, Priority.NORMAL, name)])

    one, again, other = sorted(map(str, groups(aws)))
    assert one == again != other == "team-b"
    assert re.fullmatch(r"[0-9a-f]{64}", one)

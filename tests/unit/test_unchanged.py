"""A change that changes nothing writes nothing: no revision, no row, nobody's race is lost for it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.api.schemas import Approval, DependencyBody, HttpTarget, JobBody, OnceSchedule
from functions.domain.caller import Caller, Role
from functions.domain.sameness import says_the_same
from functions.usecases.actions import pause_job, resume_job
from functions.usecases.workers import drain_worker, register_worker
from tests.api_client import Api, make_body, user
from tests.driver import SCHEDULER, Driver
from tests.factories import make_definition, make_document
from tests.fakes import World
from tests.faults import Faults

PARENT = "00000000-0000-4000-8000-000000000000"
WHOLE: dict[str, Any] = make_document(
    description="what it does",
    type="report",
    schedule={"type": "cron", "expression": "30 8 * * *", "timezone": "Europe/Berlin"},
    target={
        "type": "http",
        "url": "https://example.com/hook",
        "method": "PUT",
        "headers": {"X-Team": "a", "Authorization": "Bearer 1"},
    },
    retryConfig={"maxRetries": 4, "initialDelaySeconds": 5, "multiplier": 3, "jitter": 0.5, "retryableErrors": ["A"]},
    overlapPolicy="queue",
    misfirePolicy="skip",
    misfireGraceSeconds=30,
    priority="high",
    timeoutSeconds=20,
    orchestrated=True,
    circuitBreaker={"enabled": False},
    concurrencyKey="k",
    maxConcurrency=2,
    approval={"role": "admin", "timeoutSeconds": 60, "onTimeout": "approve", "fourEyes": False},
    startAt="2027-01-16T09:00:00Z",
    endAt="2028-01-16T09:00:00Z",
    maxRuns=100,
    alertAfterSeconds=600,
    spreadSeconds=30,
    tags=["a", "b"],
)
PLAIN = make_document()
OTHERS: dict[str, Any] = {
    "name": "another",
    "description": "something else",
    "type": "other",
    "schedule": {"type": "cron", "expression": "30 9 * * *", "timezone": "Europe/Berlin"},
    "target": {**WHOLE["target"], "headers": {"X-Team": "b", "Authorization": "Bearer 1"}},
    "retryConfig": {**WHOLE["retryConfig"], "multiplier": 3.5},
    "overlapPolicy": "allow",
    "misfirePolicy": "run_all",
    "misfireGraceSeconds": 31,
    "priority": "low",
    "timeoutSeconds": 21,
    "completion": "callback",
    "orchestrated": False,
    "circuitBreaker": {"enabled": True},
    "concurrencyKey": "l",
    "maxConcurrency": 3,
    "approval": {"role": "admin", "timeoutSeconds": 60, "onTimeout": "approve"},
    "startAt": "2027-01-16T09:00:01Z",
    "endAt": "2028-01-16T09:00:01Z",
    "maxRuns": 101,
    "alertAfterSeconds": 601,
    "spreadSeconds": 31,
    "tags": ["b", "a"],
}
SPELLINGS = {
    "startAt": "2027-01-16T10:00:00+01:00",
    "endAt": "2028-01-16T04:00:00.000-05:00",
    "retryConfig": {
        "jitter": 5e-1,
        "multiplier": 3.0,
        "retryableErrors": ["A"],
        "initialDelaySeconds": 5.0,
        "maxRetries": 4,
    },
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def shuffled(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(draw, value[key]) for key in draw(st.permutations(list(value)))}
    return [shuffled(draw, one) for one in value] if isinstance(value, list) else value


def defaults_of(model: Any) -> dict[str, Any]:
    """Fields of a body that have a value when they are left out, with that value: what the API documents."""
    properties = model.model_json_schema(by_alias=True)["properties"]
    return {name: one["default"] for name, one in properties.items() if "default" in one and name != "enabled"}


DEFAULTS = defaults_of(JobBody)
DEFAULTS.pop("payload")


@st.composite
def spellings(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A document, and the same in other words."""
    whole = draw(st.booleans())
    first = deepcopy(WHOLE) if whole else deepcopy(PLAIN)
    kept = {"name", "target", "schedule", "concurrencyKey", "maxConcurrency"}
    for name in draw(st.sets(st.sampled_from(sorted(set(first) - kept or {"tags"})))):
        first.pop(name, None)
    second = deepcopy(first)
    left_out = sorted(set(DEFAULTS) - set(first))
    for name in draw(st.sets(st.sampled_from(left_out))) if left_out else ():
        second[name] = deepcopy(DEFAULTS[name])
    for name in draw(st.sets(st.sampled_from(sorted(SPELLINGS)))):
        if name in first:
            second[name] = deepcopy(SPELLINGS[name])
    second["target"] = {**defaults_of(HttpTarget), **second["target"]}
    if draw(st.booleans()):
        second["schedule"] = {"timezone": "UTC", **second["schedule"]}
    return first, shuffled(draw, second)


@pytest.mark.slow
@given(spellings(), json_values, st.data())
@settings(max_examples=200, deadline=None)
def test_the_same_in_other_words_is_the_same(pair: Any, value: Any, data: st.DataObject) -> None:
    first, second = pair
    payload, again = json.dumps(value), json.dumps(shuffled(data.draw, value), indent=1)
    one, other = make_definition(payload=payload, **first), make_definition(payload=again, **second)
    assert says_the_same(one, other)
    assert says_the_same(other, one)


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_another_value_of_any_field_is_a_change(field: str) -> None:
    key = {"concurrencyKey": "k", "maxConcurrency": 2}
    for base in (WHOLE, PLAIN | key):
        other = {**base, field: OTHERS[field]}
        if field == "orchestrated" and base is not WHOLE:
            other[field] = True
        assert not says_the_same(make_definition(**base), make_definition(**other)), field
    without = {name: value for name, value in WHOLE.items() if name != field}
    if field not in ("name", "target", "schedule", "completion", "concurrencyKey", "maxConcurrency"):
        assert not says_the_same(make_definition(**WHOLE), make_definition(**without)), field


def test_each_field_is_tried() -> None:
    """A field that is new needs its line here, and its default a line in the product."""
    fields = {field.alias or name for name, field in JobBody.model_fields.items()}
    apart = {"payload", "enabled", "owner", "dependsOn", "join", "onUpstreamFailure", "upstreamTimeoutSeconds"}
    assert fields - apart == set(OTHERS)


@pytest.mark.parametrize(
    ("field", "given", "defaults"),
    [
        ("schedule", {"type": "once", "at": "2027-01-16T09:00:00Z"}, defaults_of(OnceSchedule)),
        ("approval", {"role": "admin", "timeoutSeconds": 60}, defaults_of(Approval)),
        ("target", PLAIN["target"], defaults_of(HttpTarget)),
    ],
)
def test_defaults_within_a_field(field: str, given: dict[str, Any], defaults: dict[str, Any]) -> None:
    assert defaults
    one, other = make_document(**{field: given}), make_document(**{field: {**defaults, **given}})
    assert says_the_same(make_definition(**one), make_definition(**other))


@pytest.mark.parametrize(
    "changed", [{"on": "failure"}, {"when": "a"}, {"jobId": PARENT.replace("4", "5", 1)}, {"join": "any"}]
)
def test_dependencies(changed: dict[str, Any]) -> None:
    words = {"schedule": None, "join": "all", "onUpstreamFailure": "skip", "upstreamTimeoutSeconds": 604_800}
    one = make_definition(**make_document(schedule=None, dependsOn=[{"jobId": PARENT}]) | {"schedule": None})
    same = {**defaults_of(DependencyBody), "jobId": PARENT}
    assert says_the_same(one, make_definition(**{**words, "dependsOn": [same]}))
    top = {"join": changed.pop("join")} if "join" in changed else {}
    assert not says_the_same(one, make_definition(**{**words, **top, "dependsOn": [{**same, **changed}]}))


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("0.0", "-0.0"), ("true", "1"), ("null", "{}"), ("[1,2]", "[2,1]")]
)
def test_payloads_of_other_kinds_differ(one: str, other: str) -> None:
    assert not says_the_same(make_definition(payload=one), make_definition(payload=other))


def test_a_word_of_the_job_against_its_type_is_kept() -> None:
    """`maxRetries` 3 is the default, and still not the same as leaving it to the type."""
    assert not says_the_same(make_definition(), make_definition(retryConfig={"maxRetries": 3}))
    assert not says_the_same(make_definition(), make_definition(circuitBreaker={}))
    assert says_the_same(make_definition(), make_definition(retryConfig={}))


def test_a_payload_that_cannot_be_read_is_replaced() -> None:
    assert not says_the_same(make_definition(payload="{"), make_definition(payload="{}"))
    assert says_the_same(make_definition(payload="{"), make_definition(payload="{"))


# --- over the API ---

COUNTED = "limits.take"
"""The one write of a request that changes nothing: it counts for its caller."""
SECRET = {"type": "http", "url": "https://example.com/", "headers": {"Authorization": "Bearer 1", "X-Team": "a"}}
MASKED = {"type": "http", "url": "https://example.com/", "headers": {"X-Team": "a", "authorization": "***"}}


def watched() -> tuple[Api, Faults]:
    faults = Faults()
    return Api(World(faults=faults)), faults


@pytest.mark.parametrize("enabled", [True, False])
def test_a_put_of_what_is_there_writes_nothing(enabled: bool) -> None:
    api, faults = watched()
    path = api.create(target=SECRET, payload={"a": 1, "b": [1.0, 2]}, tags=["x"], enabled=enabled)
    before = api.get(path)
    faults.steps.clear()
    same = make_body(target=SECRET | {"method": "POST"}, payload={"b": [1.0, 2], "a": 1}, tags=["x"], priority="normal")
    for body in (same, same | {"enabled": enabled}, same | {"target": SECRET}):
        answer = api.put(path, body)
        assert (answer.status, answer.json) == (200, before.json)
        assert answer.headers["ETag"] == before.headers["ETag"] == '"1.1"'
    assert faults.steps == [COUNTED] * 3


@pytest.mark.parametrize(
    "patch",
    [
        {},
        {"tags": ["x"]},
        {"overlapPolicy": None},
        {"overlapPolicy": "skip"},
        {"payload": {"b": 2, "a": 1}},
        {"enabled": True},
        {"target": {"headers": {"Authorization": "***"}}},
        {"retryConfig": {}},
    ],
)
def test_a_patch_to_what_is_there_writes_nothing(patch: dict[str, Any]) -> None:
    api, faults = watched()
    path = api.create(target=SECRET, payload={"a": 1, "b": 2}, tags=["x"])
    before = api.get(path)
    faults.steps.clear()
    answer = api.patch(path, patch)
    assert (answer.status, answer.json, answer.headers["ETag"]) == (200, before.json, '"1.1"')
    assert faults.steps == [COUNTED]


def test_a_secret_that_is_masked_is_the_stored_one() -> None:
    api, faults = watched()
    path = api.create(target=SECRET)
    shown = api.get(path).json["target"]
    faults.steps.clear()
    assert api.put(path, make_body(target=shown)).headers["ETag"] == '"1.1"'
    other = api.put(path, make_body(target=SECRET | {"headers": {"Authorization": "Bearer 2", "X-Team": "a"}}))
    assert other.headers["ETag"] == '"2.2"'


def test_an_answer_sent_back_changes_nothing() -> None:
    """What GET shows, without what only answers have."""
    api, _ = watched()
    path = api.create(**{**WHOLE, "approval": None, "concurrencyKey": None, "maxConcurrency": None})
    shown = api.get(path).json
    body = {name: value for name, value in shown.items() if name in {*WHOLE, "payload", "enabled"}}
    assert api.put(path, body).headers["ETag"] == '"1.1"'


def test_conditions_and_refusals_hold_as_for_any_change() -> None:
    api, _ = watched()
    path = api.create()
    api.patch(path, {"tags": ["new"]})
    assert api.put(path, make_body(tags=["new"]), headers={"If-Match": '"1.1"'}).status == 412
    assert api.put(path, make_body(tags=["new"]), headers={"If-Match": '"2.2"'}).headers["ETag"] == '"2.2"'
    assert api.put(path, make_body(tags=["new"]), claims=user("bob", "scheduler")).status == 403
    api.post(f"{path}/cancel")
    assert api.put(path, make_body(tags=["new"])).status == 409


def test_the_row_that_came_first_is_answered() -> None:
    """Two callers change the job alike at once: the second finds its change made, and answers with that row."""
    api, faults = watched()
    path = api.create()
    other = Api(api.world)

    def first(when: str, name: str) -> None:
        if when == "before" and name == "jobs.save":
            faults.disarm()
            other.put(path, make_body(tags=["new"]))

    faults.inject(on_step=first)
    answer = api.put(path, make_body(tags=["new"]))
    assert (answer.status, answer.json["tags"], answer.headers["ETag"]) == (200, ["new"], '"2.2"')
    assert api.world.jobs.rows[answer.json["id"]].revision == 2


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_switch_that_another_turned_first_is_answered_as_it_is(action: str) -> None:
    faults = Faults()
    driver = Driver(World(faults=faults))
    job = driver.create(enabled=action == "resume")
    act = {"pause": pause_job, "resume": resume_job}[action]
    if action == "resume":
        pause_job(driver.services, SCHEDULER, job.id)

    def first(when: str, name: str) -> None:
        if when == "before" and name == "jobs.save":
            faults.disarm()
            act(driver.services, SCHEDULER, job.id)

    faults.inject(on_step=first)
    answered = act(driver.services, SCHEDULER, job.id)
    row = driver.row(job.id)
    assert (answered.paused, answered.seq, answered.revision) == (row.paused, row.seq, row.revision)
    faults.steps.clear()
    assert act(driver.services, SCHEDULER, job.id).seq == row.seq
    assert faults.steps == []


def test_a_configuration_of_a_type_that_is_there_stays_as_it_is() -> None:
    api, faults = watched()
    admin = user("root", "admin")
    api.put("/v1/retry-configs/report", {"maxRetries": 5}, claims=admin)
    faults.steps.clear()
    api.world.clock.time += 100
    answer = api.put("/v1/retry-configs/report", {"maxRetries": 5}, claims=admin)
    assert (answer.status, answer.json["updatedAt"]) == (200, "2027-01-15T08:00:00Z")
    assert faults.steps == [COUNTED]


def test_a_worker_that_drains_is_drained_without_a_write() -> None:
    faults = Faults()
    driver = Driver(World(faults=faults))
    caller = Caller(id="alice", owner="team-a", roles=frozenset({Role.SCHEDULER}))
    worker = register_worker(driver.services, caller, name="", queues=("q",), max_items=1)
    drain_worker(driver.services, caller, worker.id)
    faults.steps.clear()
    assert drain_worker(driver.services, caller, worker.id).draining
    assert faults.steps == []

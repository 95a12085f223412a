"""The life of a job over the API."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis.strategies import text

from functions.api.conditional import if_match
from functions.domain.errors import InvalidRequestError, PreconditionFailedError
from functions.domain.job import Gap, SkipReason
from functions.domain.run import LastRun, Outcome, RunState
from tests.api_client import Api, make_body, sample_event, user
from tests.factories import NOW, make_execution, make_job, make_run


def test_create_answers_the_whole_job() -> None:
    api = Api()
    body = make_body(
        payload={"report": 1},
        type="report",
        tags=["billing"],
        retryConfig={"maxRetries": 5},
        target={"type": "http", "url": "https://example.com/", "headers": {"X-Api-Key": "s3cret", "X-Team": "a"}},
    )
    reply = api.post("/v1/jobs", body)
    job = reply.json
    assert reply.status == 201
    assert reply.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert reply.headers["ETag"] == '"1.1"'
    assert job == body | {
        "id": job["id"],
        "target": body["target"] | {"headers": {"X-Api-Key": "***", "X-Team": "a"}},
        "status": "SCHEDULED",
        "enabled": True,
        "owner": "alice",
        "createdBy": "alice",
        "updatedBy": "alice",
        "createdAt": "2027-01-15T08:00:00Z",
        "nextRunAt": "2027-01-15T08:01:00Z",
        "silentSince": None,
        "revision": 1,
        "etag": '"1.1"',
        "waitingFor": None,
        "activeRuns": [],
        "gates": [],
        "lastRun": None,
    }
    assert api.get(f"/v1/jobs/{job['id']}").json == job
    assert api.world.jobs.get(job["id"]).defined.target["headers"]["X-Api-Key"] == "s3cret"  # type: ignore[union-attr]  # it was just created


def test_a_job_can_be_created_switched_off_and_without_payload() -> None:
    api = Api()
    job = api.get(api.create(enabled=False)).json
    assert (job["status"], job["enabled"], job["payload"]) == ("PAUSED", False, None)


def test_lists_have_no_payloads_and_go_on_by_cursor() -> None:
    api = Api()
    made = [api.create(payload={"secret": number}).rsplit("/", 1)[1] for number in range(5)]
    first = api.get("/v1/jobs", query="limit=3").json
    second = api.get("/v1/jobs", query=f"limit=3&cursor={first['pagination']['cursor']}").json
    assert sorted(job["id"] for job in first["data"] + second["data"]) == sorted(made)
    assert second["pagination"] == {}
    assert all("payload" not in job for job in first["data"])


def test_lists_are_filtered() -> None:
    api = Api()
    wanted = api.create(type="report", tags=["a", "b"], enabled=False).rsplit("/", 1)[1]
    api.create(type="report", tags=["a"])
    api.create()
    for query in ("status=PAUSED", "tag=b", "type=report&tag=b", "status=PAUSED&type=report&tag=a"):
        assert [job["id"] for job in api.get("/v1/jobs", query=query).json["data"]] == [wanted]
    assert api.get("/v1/jobs", query="tag=c").json["data"] == []


def test_a_silent_job_says_so_and_can_be_asked_for() -> None:
    api = Api()
    silent = api.post("/v1/jobs", make_body(alertAfterSeconds=600)).json
    other = api.post("/v1/jobs", make_body()).json["id"]
    assert (silent["alertAfterSeconds"], silent["silentSince"]) == (600, None)
    row = api.world.jobs.get(silent["id"])
    assert row is not None
    assert row.silence is not None
    api.world.jobs.put(replace(row, silence=replace(row.silence, alerted=True)))

    assert api.get(f"/v1/jobs/{silent['id']}").json["silentSince"] == silent["createdAt"]
    listed = {answer: api.get("/v1/jobs", query=f"silent={answer}").json["data"] for answer in ("true", "false")}
    assert [job["id"] for job in listed["true"]] == [silent["id"]]
    assert [job["id"] for job in listed["false"]] == [other]
    assert api.get("/v1/jobs", query="silent=perhaps").fields.keys() == {"silent"}


def test_lists_default_to_ones_own_jobs() -> None:
    api = Api()
    api.create()
    carol = user("carol", "scheduler")
    assert api.get("/v1/jobs", claims=carol).json["data"] == []
    assert len(api.get("/v1/jobs", query="owner=alice", claims=carol).json["data"]) == 1
    assert len(api.get("/v1/jobs", query="owner=*", claims=carol).json["data"]) == 1


def test_everybodys_jobs_are_listed_page_by_page_and_each_once() -> None:
    api = Api()
    names = ("alice", "bob", "carol")
    made = {
        api.post("/v1/jobs", make_body(), claims=user(name, "scheduler")).json["id"] for name in names for _ in range(2)
    }
    for limit in (1, 2, 3, 4, 6):
        found, query = [], f"owner=*&limit={limit}"
        while True:
            page = api.get("/v1/jobs", query=query).json
            found += [job["id"] for job in page["data"]]
            if "cursor" not in page["pagination"]:
                break
            query = f"owner=*&limit={limit}&cursor={page['pagination']['cursor']}"
        assert (len(found), set(found)) == (6, made)


@pytest.mark.parametrize("forged", ["[" * 1500, '["alice", "x"]', '{"alice": 1, "bob": 2}', "alice", "\ud800"])
def test_a_cursor_of_everybodys_jobs_that_was_not_handed_out_is_a_400(forged: str) -> None:
    api = Api()
    api.create()
    cursor = base64.urlsafe_b64encode(forged.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    reply = api.get("/v1/jobs", query=f"owner=*&cursor={cursor}")
    assert (reply.status, list(reply.fields)) == (400, ["cursor"])


def test_a_job_whose_definition_is_lost_hides_no_other() -> None:
    api = Api()
    lost = api.create(payload="x" * 1000).rsplit("/", 1)[1]
    kept = api.create().rsplit("/", 1)[1]
    api.world.jobs.lose_definition(lost)
    listed = {job["id"]: job for job in api.get("/v1/jobs").json["data"]}
    assert listed.keys() == {lost, kept}
    assert "schedule" not in listed[lost]
    assert api.get(f"/v1/jobs/{lost}").code == "INTERNAL_ERROR"
    assert api.put(f"/v1/jobs/{lost}", make_body()).status == 200
    assert api.get(f"/v1/jobs/{lost}").status == 200


def test_put_replaces_everything_but_the_switch() -> None:
    api = Api()
    job = api.create(tags=["a"], payload=1, enabled=False)
    reply = api.put(job, make_body(name="other"))
    assert (reply.json["name"], reply.json["payload"], reply.json["enabled"]) == ("other", None, False)
    assert "tags" not in reply.json
    assert reply.headers["ETag"] == '"2.2"'
    assert api.put(job, make_body(enabled=True)).json["status"] == "SCHEDULED"


def test_patch_merges() -> None:
    api = Api()
    job = api.create(tags=["a"], payload={"a": 1, "b": {"c": 2.0}}, retryConfig={"maxRetries": 1, "jitter": 0})
    reply = api.patch(job, {"payload": {"a": None, "b": {"d": 3}}, "tags": None, "retryConfig": {"maxRetries": 2}})
    assert reply.json["payload"] == {"b": {"c": 2.0, "d": 3}}
    assert '"c":2.0' in (reply.text or "")
    assert reply.json["retryConfig"] == {"maxRetries": 2, "jitter": 0}
    assert "tags" not in reply.json
    assert api.patch(job, {"enabled": False}).json["enabled"] is False
    assert api.patch(job, {"description": "x"}).json["enabled"] is False
    assert api.patch(job, {"payload": None}).json["payload"] is None
    assert api.patch(job, {"payload": [1]}).json["payload"] == [1]
    assert list(api.patch(job, {"name": None}).fields) == ["name"]
    assert list(api.patch(job, {"owner": "bob"}).fields) == ["owner"]


def test_a_patch_may_make_it_another_kind_of_schedule() -> None:
    api = Api()
    job = api.create(schedule={"type": "cron", "expression": "0 9 * * *", "timezone": "Europe/Berlin"})
    assert "schedule.expression" in api.patch(job, {"schedule": {"type": "interval", "everySeconds": 60}}).fields
    patch = {"schedule": {"type": "interval", "everySeconds": 60, "expression": None}}
    assert api.patch(job, patch).json["schedule"] == {
        "type": "interval",
        "everySeconds": 60,
        "timezone": "Europe/Berlin",
    }


def test_a_masked_value_that_comes_back_keeps_what_is_stored() -> None:
    api = Api()
    headers = {"Authorization": "Bearer abc", "X-Team": "a"}
    job = api.create(target={"type": "http", "url": "https://example.com/", "headers": headers})
    shown = api.get(job).json["target"]
    assert shown["headers"] == {"Authorization": "***", "X-Team": "a"}
    identifier = job.rsplit("/", 1)[1]

    def stored() -> object:
        row = api.world.jobs.get(identifier)
        assert row is not None
        return row.defined.target["headers"]

    assert api.put(job, make_body(target=shown)).status == 200
    assert stored() == headers
    assert api.patch(job, {"target": {"headers": {"X-Team": "b"}}}).status == 200
    assert stored() == headers | {"X-Team": "b"}
    assert api.patch(job, {"target": {"headers": {"Authorization": "Bearer def"}}}).status == 200
    assert stored() == {"Authorization": "Bearer def", "X-Team": "b"}
    assert api.post("/v1/jobs", make_body(target=shown)).status == 400


@pytest.mark.case(6)
def test_a_paused_job_whose_cron_changes_stays_paused_and_keeps_the_rest() -> None:
    api = Api()
    job = api.create(
        schedule={"type": "cron", "expression": "0 9 * * *", "timezone": "Asia/Tokyo"},
        retryConfig={"maxRetries": 7},
        enabled=False,
    )
    before = api.get(job).json
    after = api.patch(job, {"schedule": {"expression": "0 10 * * *"}}).json
    assert after["schedule"] == {"type": "cron", "expression": "0 10 * * *", "timezone": "Asia/Tokyo"}
    for name in ("status", "enabled", "retryConfig", "target"):
        assert after[name] == before[name]
    assert after["nextRunAt"] != before["nextRunAt"]


@pytest.mark.case(36)
def test_a_tag_can_change_while_a_one_time_job_waits_for_its_retry() -> None:
    api = Api()
    job = api.create(schedule={"type": "once", "at": "2027-01-15T08:00:10Z"})
    identifier = job.rsplit("/", 1)[1]
    row = api.world.jobs.get(identifier)
    assert row is not None
    waiting = make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 900)
    slot = str(NOW + 10)
    api.world.jobs.put(
        make_job(id=identifier, owner="alice", definition=row.definition, next_slot=None, runs={slot: waiting})
    )
    api.clock.advance(600)
    changed = api.patch(job, {"tags": ["x"]}).json
    assert (changed["status"], changed["tags"]) == ("RETRYING", ["x"])
    assert changed["activeRuns"] == [
        {
            "runId": f"{identifier}-{slot}",
            "scheduledFor": "2027-01-15T08:00:10Z",
            "status": "WAITING",
            "attempt": 1,
            "nextAttemptAt": "2027-01-15T08:15:00Z",
            "waitingFor": None,
        }
    ]


def test_delete_hides_the_job() -> None:
    api = Api()
    job = api.create()
    reply = api.delete(job)
    assert (reply.status, reply.text) == (204, "")
    for again in (
        api.get(job),
        api.delete(job),
        api.patch(job, {}),
        api.post(f"{job}/pause"),
        api.get(f"{job}/history"),
    ):
        assert again.code == "NOT_FOUND"
    assert api.get("/v1/jobs").json["data"] == []


def test_pause_resume_and_cancel() -> None:
    api = Api()
    job = api.create()
    assert api.post(f"{job}/pause").json["status"] == "PAUSED"
    assert api.post(f"{job}/pause").status == 200
    assert api.post(f"{job}/resume", {}).json["status"] == "SCHEDULED"
    assert api.post(f"{job}/cancel", "{}").json["status"] == "CANCELLED"
    assert api.post(f"{job}/cancel").status == 200
    for action in ("pause", "resume", "execute", "retry"):
        assert (api.post(f"{job}/{action}").code, action) == ("CONFLICT", action)
    assert api.put(job, make_body()).status == 409


@pytest.mark.parametrize("action", ["pause", "resume", "execute", "cancel"])
def test_actions_without_options_name_what_they_do_not_take(action: str) -> None:
    api = Api()
    job = api.create()
    assert list(api.post(f"{job}/{action}", {"delaySeconds": 1}).fields) == ["delaySeconds"]
    assert api.post(f"{job}/{action}", "{}", headers={"content-type": "text/plain"}).status == 415


def test_execute_shows_its_run() -> None:
    api = Api()
    job = api.create()
    reply = api.post(f"{job}/execute")
    run = reply.json["activeRuns"][0]
    assert (run["status"], run["attempt"], run["scheduledFor"]) == ("WAITING", 0, "2027-01-15T08:00:00Z")
    assert api.post(f"{job}/execute").code == "CONFLICT"
    entry = api.get(f"{job}/history").json["data"][0]
    assert (entry["runId"], entry["status"], entry["attempt"], entry["final"]) == (run["runId"], "QUEUED", 1, False)
    assert api.get(f"/v1/executions/{entry['id']}").json == entry
    assert api.post(f"/v1/executions/{entry['id']}/cancel").json["status"] == "CANCELLED"
    assert api.get(f"/v1/executions/{entry['id']}").json["reason"] == "EXECUTION_CANCELLED"


def failed_job(api: Api) -> str:
    job = make_job(
        owner="alice",
        next_slot=None,
        last_run=LastRun(
            slot_id=str(NOW),
            attempt=4,
            outcome=Outcome.PERMANENTLY_FAILED,
            fence=4,
            ended_at=NOW + 9,
            error_code="HTTP_503",
        ),
    )
    api.world.jobs.put(job)
    return f"/v1/jobs/{job.id}"


def test_a_failed_run_is_shown_and_retried() -> None:
    api = Api()
    job = failed_job(api)
    last = api.get(job).json["lastRun"]
    assert (last["outcome"], last["errorCode"], last["endedAt"]) == (
        "PERMANENTLY_FAILED",
        "HTTP_503",
        "2027-01-15T08:00:09Z",
    )
    assert list(api.post(f"{job}/retry", {"delaySeconds": 86_401}).fields) == ["delaySeconds"]
    run = api.post(f"{job}/retry", {"delaySeconds": 30}).json["activeRuns"][0]
    assert (run["attempt"], run["nextAttemptAt"]) == (4, "2027-01-15T08:00:30Z")


def test_history_shows_results_as_they_are() -> None:
    api = Api()
    job = api.create()
    identifier = job.rsplit("/", 1)[1]
    api.world.history.record(make_execution(job_id=identifier, result='{"n":1.0}'))
    reply = api.get(f"{job}/history")
    assert '"result":{"n":1.0}' in (reply.text or "")
    assert reply.json["data"][0]["jobId"] == identifier


@pytest.mark.parametrize("execution", ["x", "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f-1800000000-0000", "-".join("abc")])
def test_unknown_executions_are_not_found(execution: str) -> None:
    api = Api()
    assert api.get(f"/v1/executions/{execution}").code == "NOT_FOUND"
    assert api.post(f"/v1/executions/{execution}/cancel").code == "NOT_FOUND"


def test_if_match_guards_changes() -> None:
    api = Api()
    job = api.create()
    old = {"if-match": '"1.1"'}
    assert api.patch(job, {"tags": ["x"]}, headers=old).headers["ETag"] == '"2.2"'
    for stale in (
        api.patch(job, {"tags": ["y"]}, headers=old),
        api.put(job, make_body(), headers=old),
        api.delete(job, headers=old),
        *(api.post(f"{job}/{action}", headers=old) for action in ("pause", "resume", "execute", "retry", "cancel")),
    ):
        assert (stale.status, stale.code) == (412, "PRECONDITION_FAILED")
    assert api.get(job).json["tags"] == ["x"]
    for header in ('"1.7"', "*", ' "1.1" '):
        assert api.patch(api.create(), {"tags": ["y"]}, headers={"if-match": header}).status == 200


def test_a_run_in_between_does_not_void_an_etag() -> None:
    api = Api()
    job = api.create(overlapPolicy="allow")
    tag = {"if-match": api.get(job).headers["ETag"]}
    api.post(f"{job}/execute")
    assert api.patch(job, {"tags": ["x"]}, headers=tag).status == 200


@pytest.mark.parametrize("header", ['"1"', '"1.1"', '"1.999"', "*", ' "1" ', '"1.1", "1.2"', '"abc","1"', 'W/"9", "1"'])
def test_if_match_compares_the_revision(header: str) -> None:
    api = Api()
    assert api.patch(api.create(), {"tags": ["y"]}, headers={"if-match": header}).status == 200


@pytest.mark.parametrize(
    ("header", "status", "says"),
    [
        ('"2"', 412, "has revision 1, If-Match names 2"),
        ('"0.1"', 412, "has revision 1, If-Match names 0"),
        ('"abc"', 412, '"abc" is not the ETag of a job'),
        ('""', 412, '"" is not the ETag of a job'),
        ('"1.1.1"', 412, '"1.1.1" is not the ETag of a job'),
        ('W/"1.1"', 412, 'W/"1.1" is weak: send it without W/'),
        ("1.1", 400, '1.1 needs double quotes: "1.1"'),
        ("1", 400, '1 needs double quotes: "1"'),
        ('"1.1", "2.2"', 400, "takes the ETag of one answer, got 2"),
        ('*, "1"', 400, '* alone, got *, "1"'),
        ('"1" "2"', 400, 'got "1" "2"'),
        ('w/"1"', 400, "in double quotes"),
        ("'1'", 400, "got '1'"),
        ("", 400, "got nothing"),
        ("x" * 300, 400, "x…"),
    ],
)
def test_a_condition_that_does_not_hold_says_why(header: str, status: int, says: str) -> None:
    api = Api()
    refused = api.patch(api.create(), {}, headers={"if-match": header})
    assert refused.status == status
    assert says in refused.json["error"]["message"]
    assert "changed" not in refused.json["error"]["message"]


@given(text(alphabet='W/"*, .0123abc\t', max_size=12))
def test_no_condition_is_misread(header: str) -> None:
    """A tag of this revision among others is met or refused as unreadable, never as a revision that it is not."""
    try:
        revision = if_match(header)
    except (InvalidRequestError, PreconditionFailedError):
        return
    assert header.strip() == "*" if revision is None else re.search(rf'"0*{revision}(\.[0-9]+)?"', header)


def test_if_none_match_saves_the_body() -> None:
    api = Api()
    job = api.create()
    for header in ('"1.1"', 'W/"1.1"', '"0.0", "1.1"', "*"):
        reply = api.get(job, headers={"if-none-match": header})
        assert (reply.status, reply.text, reply.headers["ETag"]) == (304, "", '"1.1"')
    for header in ('"1.2"', "1.1", ""):
        assert api.get(job, headers={"if-none-match": header}).status == 200
    api.post(f"{job}/execute")
    assert api.get(job, headers={"if-none-match": '"1.1"'}).status == 200


def test_the_sample_events_are_answered() -> None:
    api = Api()
    created = api.answer(sample_event("api-create-job")).json
    listed = api.answer(sample_event("api-list-jobs")).json
    assert [job["id"] for job in listed["data"]] == [created["id"]]
    for name in ("api-get-job", "api-patch-job", "api-execute-job"):
        assert api.answer(sample_event(name)).code == "NOT_FOUND"
    sample = sample_event("api-get-job")["pathParameters"]["jobId"]
    api.world.jobs.put(make_job(id=sample, owner="team-billing"))
    assert api.answer(sample_event("api-get-job")).status == 304
    assert api.answer(sample_event("api-patch-job")).json["tags"] == ["nightly"]
    assert api.answer(sample_event("api-execute-job")).status == 200
    assert api.answer(sample_event("api-health")).status == 200


@pytest.mark.case(26)
def test_a_cursor_gives_its_own_list_only() -> None:
    api = Api()
    made = {api.create().rsplit("/", 1)[1] for _ in range(30)}
    listed: list[str] = []
    query, cursor = "limit=7", None
    while query:
        page = api.get("/v1/jobs", query=query).json
        listed += [job["id"] for job in page["data"]]
        cursor = page["pagination"].get("cursor", cursor)
        query = f"limit=7&cursor={cursor}" if "cursor" in page["pagination"] else ""
    assert len(listed) == 30
    assert set(listed) == made

    other = api.get("/v1/jobs", query=f"cursor={cursor}", claims=user("carol", "scheduler"))
    assert other.status == 400 or other.json["data"] == []
    assert api.get("/v1/jobs", query=f"cursor={cursor}A").status == 400
    thinned = api.get("/v1/jobs", query="limit=7&tag=none").json
    assert thinned["data"] == []
    assert thinned["pagination"]["cursor"]


def test_skipped_slots_are_one_entry_of_the_history() -> None:
    api = Api()
    job = api.create()
    identifier = job.rsplit("/", 1)[1]
    gap = Gap(first=NOW + 60, last=NOW + 180, count=3, reason=SkipReason.PAUSED)
    api.world.history.record_gap(identifier, gap, now=NOW + 200.5)
    assert api.get(f"{job}/history").json["data"] == [
        {
            "id": f"{identifier}-{NOW + 60}-0000",
            "jobId": identifier,
            "runId": f"{identifier}-{NOW + 60}",
            "scheduledFor": "2027-01-15T08:01:00Z",
            "attempt": 0,
            "status": "SKIPPED",
            "final": True,
            "reason": "PAUSED",
            "from": "2027-01-15T08:01:00Z",
            "to": "2027-01-15T08:03:00Z",
            "count": 3,
            "completedAt": "2027-01-15T08:03:20.500Z",
        }
    ]

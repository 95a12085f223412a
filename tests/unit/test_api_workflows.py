"""POST and GET /v1/workflows: jobs by local names, all or nothing, and how they stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api_client import Api, machine, make_body, user
from tests.factories import JOB_ID, NOW, new_id
from tests.fakes import InMemoryRateLimits
from tests.workflows import NEVER, PATH, TARGET, Played, diamond, job, workflow

KEY = {"idempotency-key": "k1"}


def test_a_diamond_runs_each_job_once_and_its_end_last() -> None:
    played = Played()
    path = played.create(diamond())
    played.run()
    assert played.called in (["a", "b", "c", "d"], ["a", "c", "b", "d"])
    seen = played.seen(path)
    assert seen["status"] == "COMPLETED"
    assert set(played.statuses(path).values()) == {"COMPLETED"}
    assert [(edge["from"], edge["to"], edge["on"]) for edge in seen["edges"]] == [
        ("a", "b", "success"),
        ("a", "c", "success"),
        ("b", "d", "success"),
        ("c", "d", "success"),
    ]


def test_what_is_made_is_shown_at_once() -> None:
    played = Played()
    reply = played.api.post(PATH, diamond())
    assert reply.status == 201
    assert reply.headers["Location"] == f"{PATH}/{reply.json['id']}"
    assert (reply.json["name"], reply.json["owner"], reply.json["createdBy"]) == ("etl", "alice", "alice")
    assert reply.json == played.seen(reply.headers["Location"])
    jobs = {one["name"]: one for one in reply.json["jobs"]}
    assert (jobs["a"]["status"], jobs["a"]["waitsFor"]) == ("SCHEDULED", "time")
    assert (jobs["d"]["status"], jobs["d"]["waitsFor"]) == ("BLOCKED", "jobs")
    assert jobs["d"]["blockedBy"] == [
        {"name": name, "jobId": jobs[name]["jobId"], "status": "BLOCKED"} for name in ("b", "c")
    ]
    assert reply.json["status"] == "RUNNING", "its first job is due"


def test_jobs_are_jobs_with_names_of_their_own_or_of_the_workflow() -> None:
    played = Played()
    path = played.create(workflow(a=job(), b=job("a", name="load it", tags=["x"])))
    ids = played.ids(path)
    a, b = (played.api.get(f"/v1/jobs/{ids[name]}").json for name in ("a", "b"))
    assert (a["name"], a["schedule"]) == ("etl/a", {"type": "once", "at": "2027-01-15T08:00:00Z"})
    assert (b["name"], b["tags"], b["dependsOn"]) == ("load it", ["x"], [{"jobId": ids["a"]}])
    assert "schedule" not in b


def test_names_in_a_payload_are_ids_in_the_job() -> None:
    played = Played()
    source = {"$from": "a", "path": "rows"}
    payload = {"n": source, "deep": [{"x": source}], "plain": "a"}
    path = played.create(workflow(a=job(), b=job("a", payload=payload)))
    ids = played.ids(path)
    stored = played.api.get(f"/v1/jobs/{ids['b']}").json["payload"]
    named = {"$from": ids["a"], "path": "rows"}
    assert stored["deep"] == [{"x": named}]
    assert (stored["n"], stored["plain"]) == (named, "a")
    played.run(60)
    assert played.sent["b"] == {"n": 3, "deep": [{"x": 3}], "plain": "a"}


@pytest.mark.parametrize(
    ("jobs", "field", "words"),
    [
        ({"a": job("b")}, "jobs.a.dependsOn[0].job", '"b" is none of the 1 jobs'),
        ({"a": job("a")}, "jobs.a.dependsOn[0].job", '"a" is the job itself'),
        ({"a": job(), "b": job("a", "a")}, "jobs.b.dependsOn[1].job", "already"),
        ({"a": job("c"), "b": job("a"), "c": job("b")}, None, "closes the cycle"),
        ({"a": job(), "b": {"target": TARGET, "dependsOn": [{"job": "a", "jobId": new_id()}]}}, None, "beside jobId"),
        ({"a": job(), "b": {"target": TARGET, "dependsOn": [{"job": 5}]}}, "jobs.b.dependsOn[0].job", "5 is none"),
        ({"a": job(), "b": {"target": TARGET, "dependsOn": [{"job": "a", "on": "x"}]}}, None, "x"),
        ({"a": job(), "b": {"target": TARGET, "dependsOn": "a"}}, None, "array"),
        ({"a": job(colour="red")}, "jobs.a.colour", "is not a known field"),
        ({"a": {}}, "jobs.a.target", "is required"),
        ({"a": 5}, "jobs.a", "5 is not an object"),
        ({"a": job(schedule={"type": "cron", "expression": "0 0 30 2 *"})}, "jobs.a.schedule.expression", "never"),
        ({"a": job(), "b": job("a", schedule={"type": "interval", "everySeconds": 5})}, "jobs.b.schedule", "interval"),
        ({"a": job(), "b": job("a", payload=[{"$from": "c", "path": "x"}])}, None, "c"),
        ({"a": job(), "c": job(), "b": job("a", payload={"$from": "c", "path": "x"})}, None, "dependsOn"),
        ({"A": job()}, "jobs.A", "does not match"),
        ({"x" * 65: job()}, "jobs." + "x" * 64, "does not match"),
        ({}, "jobs", "below the limit of 1"),
        ({f"j{n}": job() for n in range(101)}, "jobs", "over the limit of 100"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(jobs: dict[str, Any], field: str | None, words: str) -> None:
    api = Api()
    reply = api.post(PATH, workflow(**jobs), headers=KEY)
    assert (reply.status, reply.code) == (400, "VALIDATION_ERROR"), reply.text
    assert words in reply.message
    if field is not None:
        assert field in reply.fields
    assert not api.world.jobs.rows
    assert not api.world.workflows.rows
    assert not api.world.dependents.edges
    assert api.post(PATH, diamond(), headers=KEY).status == 201, "the key is free again"


def test_a_cycle_is_shown_by_local_names_with_its_path() -> None:
    reply = Api().post(PATH, workflow(a=job("c"), b=job("a"), c=job("b"), d=job("c")))
    [(field, message)] = reply.fields.items()
    assert message.endswith("closes the cycle a → b → c → a")
    assert field == "jobs.b.dependsOn[0].job"


@pytest.mark.parametrize(
    ("jobs", "edges", "words"),
    [(6, 1_000, "have 6000 dependencies in all, over the limit of 5000"), (2, 501, "depend on 1002 jobs outside")],
)
def test_a_request_makes_no_more_edges_than_it_has_time_for(jobs: int, edges: int, words: str) -> None:
    body = {f"j{n}": {"target": TARGET, "dependsOn": [{"jobId": new_id()} for _ in range(edges)]} for n in range(jobs)}
    reply = Api().post(PATH, workflow(**body))
    assert reply.status == 400
    assert words in reply.message


@pytest.mark.parametrize("whose", ["nobody", "bob"])
def test_a_parent_outside_must_be_a_job_of_the_same_owner(whose: str) -> None:
    api = Api()
    other = new_id()
    if whose == "bob":
        other = api.post("/v1/jobs", make_body(), claims=user("bob", "scheduler")).json["id"]
    rows = dict(api.world.jobs.rows)
    edge = {"target": TARGET, "dependsOn": [{"jobId": other}]}
    reply = api.post(PATH, workflow(a=job(), b=edge), headers=KEY)
    assert reply.fields == {"jobs.b.dependsOn[0].jobId": f"There is no job {other}."}
    assert api.world.jobs.rows == rows
    assert not api.world.workflows.rows


def test_a_parent_outside_that_has_ended_counts_at_once() -> None:
    played = Played()
    outside = played.api.post("/v1/jobs", make_body(schedule={"type": "once", "at": "2027-01-15T08:00:00Z"})).json["id"]
    played.run(60)
    path = played.create(workflow(a={"target": TARGET, "dependsOn": [{"jobId": outside}]}, b=job("a")))
    played.run(20)
    assert played.statuses(path) == {"a": "COMPLETED", "b": "COMPLETED"}
    assert played.seen(path)["edges"][0] | {"to": "a"} == {
        "from": None,
        "fromId": outside,
        "to": "a",
        "on": "success",
        "when": None,
    }


def test_a_parent_outside_blocks_and_is_named() -> None:
    played = Played()
    outside = played.api.post("/v1/jobs", make_body()).json["id"]
    path = played.create(workflow(a={"target": TARGET, "dependsOn": [{"jobId": outside}]}))
    seen = played.seen(path)
    assert seen["jobs"][0]["blockedBy"] == [{"name": None, "jobId": outside, "status": "SCHEDULED"}]
    assert seen["status"] == "WAITING"


def test_jobs_that_wait_for_each_other_only_are_not_looked_at_in_vain() -> None:
    played = Played()
    played.world.targets.answers = [lambda _: pytest.fail("nothing is due")]
    later = {"type": "once", "at": "2027-01-15T08:50:00Z"}
    played.create(diamond(a=job(schedule=later)))
    played.world.jobs.calls.clear()
    played.run(2_900)
    assert "get_rows" not in played.world.jobs.calls
    assert played.world.jobs.calls.count("get") <= 2, "the hint of the first job alone, sent on once"


def test_the_same_request_again_is_the_same_workflow() -> None:
    played = Played()
    first = played.api.post(PATH, diamond(), headers=KEY)
    played.run(600)
    rows = dict(played.world.jobs.rows)
    again = played.api.post(PATH, {"jobs": dict(reversed(diamond()["jobs"].items())), "name": "etl"}, headers=KEY)
    assert (again.status, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert again.json == played.seen(first.headers["Location"])
    assert [one["name"] for one in again.json["jobs"]] == ["a", "b", "c", "d"]
    assert played.world.jobs.rows == rows
    assert sorted(played.called) == ["a", "b", "c", "d"]
    assert played.api.post(PATH, workflow(a=job()), headers=KEY).status == 422


def test_without_a_key_each_request_makes_a_workflow() -> None:
    played = Played()
    assert played.create(diamond()) != played.create(diamond())


def test_each_job_counts_as_one_that_was_created() -> None:
    api = Api(limits=InMemoryRateLimits(creations_per_day=4))
    assert api.post(PATH, diamond()).status == 201
    assert api.post(PATH, diamond()).status == 429


def test_who_may_do_what() -> None:
    played = Played()
    path = played.create(diamond())
    bob, root, reader = user("bob", "scheduler"), user("root", "admin"), machine("app", "gnomon/read")
    assert played.api.get(path, claims=bob).status == 200
    assert played.api.get(path, claims=reader).status == 200
    assert played.api.get(path, claims=user("eve")).status == 404
    for action in ("cancel", "retry"):
        assert played.api.post(f"{path}/{action}", claims=bob).status == 403
        assert played.api.post(f"{path}/{action}", claims=reader).status == 403
        assert played.api.post(f"{path}/{action}", claims=user("eve")).status == 404
    assert played.api.post(PATH, diamond(), claims=user("eve")).status == 403
    assert played.api.get(PATH, claims=bob).json["data"] == []
    assert len(played.api.get(PATH, claims=bob, query="owner=alice").json["data"]) == 1
    assert played.api.get(PATH, claims=user("eve"), query="owner=alice").status == 403
    assert played.api.post(f"{path}/cancel", claims=root).status == 200


@pytest.mark.parametrize("path", [f"{PATH}/{JOB_ID}", f"{PATH}/x", f"{PATH}/{JOB_ID}/cancel"])
def test_there_is_no_such_workflow(path: str) -> None:
    api = Api()
    assert (api.post(path) if path.endswith("cancel") else api.get(path)).status == 404


def test_the_list_is_newest_first_and_goes_on_at_its_cursor() -> None:
    played = Played()
    made = []
    for _ in range(5):
        made.append(played.create(workflow(a=job(), b=job("a"))).rpartition("/")[2])
        played.world.clock.advance(1)
    first = played.api.get(PATH, query="limit=3").json
    rest = played.api.get(PATH, query=f"limit=3&cursor={first['pagination']['cursor']}").json
    assert [one["id"] for one in first["data"] + rest["data"]] == made[::-1]
    assert rest["pagination"] == {}
    assert first["data"][0]["jobCount"] == 2
    assert played.api.get(PATH, query="cursor=abc").status == 400


def test_deleted_jobs_are_shown_as_such() -> None:
    played = Played()
    path = played.create(workflow(a=job(), b=job("a")))
    ids = played.ids(path)
    played.run(60)
    for name in ("a", "b"):
        assert played.api.delete(f"/v1/jobs/{ids[name]}").status == 204
        assert played.statuses(path)[name] == "DELETED"
    del played.world.jobs.rows[ids["a"]]  # by TTL
    assert played.statuses(path) == {"a": "DELETED", "b": "DELETED"}
    assert len(played.api.get(PATH).json["data"]) == 1
    assert played.seen(path)["status"] == "COMPLETED"
    del played.world.jobs.rows[ids["b"]]
    assert played.api.get(path).status == 404
    assert played.api.get(PATH).json["data"] == []


def test_a_reader_in_the_middle_of_the_transaction_sees_all_of_it() -> None:
    """BatchGetItem is isolated row by row: what it has not seen is read once more."""
    played = Played()
    path = played.create(diamond())
    whole = played.world.jobs.get_many
    played.world.jobs.get_many = lambda ids: whole(ids)[1:]  # type: ignore[method-assign]
    assert set(played.statuses(path).values()) == {"SCHEDULED", "BLOCKED"}


def test_the_critical_path_is_the_chain_that_took_the_time() -> None:
    played = Played()
    played.slow = {"a": 10, "b": 30, "c": 5, "d": 7}
    path = played.create(diamond())
    played.run(400)
    spans = played.seen(path)["criticalPath"]
    assert spans[0]["name"] == "a"
    assert spans[-1]["name"] == "d"
    whole = sum(span["seconds"] for span in spans)
    ended = max(row.last_run.ended_at for row in played.world.jobs.rows.values() if row.last_run)
    assert whole == ended - NOW
    assert spans[0]["seconds"] == 10


def test_a_failure_and_what_was_skipped_for_it() -> None:
    played = Played()
    played.failing = {"b"}
    path = played.create(diamond(b=job("a", **NEVER)))
    played.run()
    assert played.statuses(path) == {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED", "d": "SKIPPED"}
    seen = played.seen(path)
    assert seen["status"] == "FAILED"
    assert seen["jobs"][3]["lastRun"]["reason"] == "UPSTREAM_FAILED"


def test_mermaid_is_text_with_a_node_a_job_and_its_state() -> None:
    played = Played()
    evil = 'x"];\n click j0 "javascript:alert(1)" %% `</script>'
    path = played.create(workflow(a=job(name=evil), b={**job(), "dependsOn": [{"job": "a", "on": "completion"}]}))
    reply = played.api.get(path, query="format=mermaid", headers={"accept": "text/plain"})
    assert played.api.get(path, query="format=mermaid").text == reply.text
    assert played.api.get(path, headers={"accept": "image/svg+xml"}).status == 406
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    lines = str(reply.text).splitlines()
    assert lines[0] == "graph TD"
    assert lines[1].startswith('  j0["x#34;#93;#59;#10; click j0 #34;')
    assert lines[1].endswith('<br/>a<br/>SCHEDULED"]:::scheduled')
    assert lines[1].count('"') == 2
    assert '  j1["b<br/>BLOCKED"]:::blocked' in lines
    assert '  j0 -->|"completion"| j1' in lines
    assert any(line.startswith("  classDef blocked ") for line in lines)
    assert played.api.get(path, query="format=svg").status == 400


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.sampled_from(["a", "b", "c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
EDGE = ANYTHING | st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("job", "jobId", "on", "when"), ANYTHING) | {"job": st.sampled_from("abc")}
)
JOB = ANYTHING | st.fixed_dictionaries(
    {"target": st.just(TARGET)},
    optional={
        "dependsOn": ANYTHING | st.lists(EDGE, max_size=3),
        "payload": ANYTHING | st.fixed_dictionaries({"$from": st.sampled_from("abc")}),
        "schedule": ANYTHING,
        "enabled": ANYTHING,
    },
)


@settings(max_examples=150)
@given(st.fixed_dictionaries({"name": ANYTHING, "jobs": ANYTHING | st.fixed_dictionaries({"a": JOB, "b": JOB})}))
def test_whatever_is_sent_is_taken_or_refused(body: Any) -> None:
    """The answer is also one that the OpenAPI document promises."""
    api = Api()
    reply = api.post(PATH, body)
    assert reply.status in (201, 400), reply.text
    assert bool(api.world.jobs.rows) == (reply.status == 201)

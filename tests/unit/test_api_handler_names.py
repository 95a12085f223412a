"""Names of Python handlers: what this release has is known when a job is made or changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.adapters.bundled_handlers import bundled_handlers
from functions.domain.errors import InvalidFieldError
from functions.domain.handler_names import SHOWN_NAMES, KnownHandlers, check_handler
from tests.api_client import Api, make_body
from tests.stored import redefine

KNOWN = KnownHandlers(names=("echo", "invoices.close"), broken=("functions/jobs/reports: no module",))
NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)


def api(known: KnownHandlers | None = KNOWN) -> Api:
    return Api(handlers=lambda: known)


def body(name: str, **changes: Any) -> dict[str, Any]:
    return make_body(target={"type": "handler", "name": name}, **changes)


def test_create_replace_and_patch_refuse_a_name_that_the_release_does_not_have() -> None:
    one = api()
    refused = one.post("/v1/jobs", body("ehco"))
    assert (refused.status, refused.code) == (400, "VALIDATION_ERROR")
    assert refused.fields == {
        "target.name": 'target.name "ehco" is not a handler of this release. It has: echo, invoices.close. '
        "Not imported: functions/jobs/reports: no module."
    }
    job = one.post("/v1/jobs", body("echo"))
    assert job.status == 201
    path = f"/v1/jobs/{job.json['id']}"
    assert "target.name" in one.put(path, body("ehco")).fields
    assert "target.name" in one.patch(path, {"target": {"name": "ehco"}}).fields
    assert "target.name" in one.patch(path, {"target": {"type": "handler", "name": "Echo"}}).fields
    assert one.patch(path, {"target": {"name": "invoices.close"}}).json["target"]["name"] == "invoices.close"


def test_an_item_of_many_is_refused_alone_and_a_workflow_as_a_whole() -> None:
    one = api()
    items = [body("echo"), body("nobody"), body("invoices.close")]
    results = one.post("/v1/jobs/bulk", {"items": items}).json["data"]
    assert [result["status"] for result in results] == [201, 400, 201]
    assert results[1]["error"]["details"][0]["field"] == "target.name"
    jobs = {
        "load": {"target": {"type": "handler", "name": "echo"}},
        "sum": {"target": {"type": "handler", "name": "no"}},
    }
    assert "jobs.sum.target.name" in one.post("/v1/workflows", {"name": "w", "jobs": jobs}).fields
    assert one.get("/v1/workflows").json["data"] == []


def test_a_name_that_is_gone_stays_in_the_jobs_that_have_it() -> None:
    one = api()
    job = one.post("/v1/jobs", body("echo"), headers={"idempotency-key": "k"}).json["id"]
    redefine(one.world.jobs, job, target={"type": "handler", "name": "of-an-older-release"})
    path = f"/v1/jobs/{job}"
    assert one.patch(path, {"description": "as before"}).status == 200
    assert one.put(path, body("of-an-older-release")).status == 200
    assert one.post(f"{path}/execute").status == 200
    assert one.patch(path, {"target": {"type": "handler", "name": "of-another"}}).status == 400


def test_a_repeated_creation_is_answered_although_the_name_is_gone_since() -> None:
    one = api()
    made = one.post("/v1/jobs", body("echo"), headers={"idempotency-key": "k"})
    older = Api(one.world, handlers=lambda: KnownHandlers(names=("other",)))
    again = older.post("/v1/jobs", body("echo"), headers={"idempotency-key": "k"})
    assert (again.status, again.json["id"]) == (201, made.json["id"])
    assert older.post("/v1/jobs", body("echo")).status == 400


def test_nothing_is_asked_for_other_targets_and_any_name_passes_where_nobody_knows() -> None:
    def ask() -> KnownHandlers:
        raise AssertionError("asked")

    assert Api(handlers=ask).post("/v1/jobs", make_body()).status == 201
    assert api(None).post("/v1/jobs", body("whatever")).status == 201
    assert api(None).post("/v1/jobs", body("no name")).status == 400


@pytest.mark.slow
@given(st.sets(NAMES, max_size=200), NAMES)
def test_a_refusal_is_bounded_and_names_only_what_there_is(names: set[str], asked: str) -> None:
    known = KnownHandlers(names=frozenset(names), broken=["x" * 50] * 40)
    if asked in names:
        check_handler(asked, known)
        return
    with pytest.raises(InvalidFieldError) as refused:
        check_handler(asked, known)
    assert len(refused.value.message) < 200 + SHOWN_NAMES * 66 + 3 * 70
    listed = refused.value.message.partition("It has: ")[2].partition(". Not imported")[0].partition(" and ")[0]
    assert set(listed.split(", ")) <= names | {"none"}
    assert (f"and {len(names) - SHOWN_NAMES} more" in refused.value.message) == (len(names) > SHOWN_NAMES)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"handlers": {}}', '{"handlers": 5, "broken": {}}', "\ud800"])
def test_a_manifest_that_cannot_be_read_refuses_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "manifest"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert bundled_handlers(file) is None
    assert bundled_handlers(tmp_path / "none") is None


def test_the_manifest_names_the_handlers_and_what_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "manifest"
    file.write_text(json.dumps({"handlers": {"close": ["a", "b"], "echo": ["echo"]}, "broken": {"b": "why"}}))
    known = bundled_handlers(file)
    assert known is not None
    assert (sorted(known.names), list(known.broken)) == (["close", "echo"], ["why"])

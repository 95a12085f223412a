"""Many requests at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.e2e.mutants import begin_anew
from tests.e2e.stack import job_body, problem, unique

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gnomon.client import Client
    from tests.e2e.stack import Api, Aws, Stack

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True, scope="module")
def _no_processes_left(stack: Stack, aws: Aws) -> Iterator[None]:
    """The emulator starts a process for each request at once, and keeps it."""
    yield
    begin_anew(stack, aws, "api")


@pytest.mark.case(26)
def test_list_pages_and_filters(stack: Stack, api: Api, scheduler: Client) -> None:
    tag, kind = unique("tag"), unique("kind")
    bodies = [job_body(tags=[tag], type=kind if index % 10 == 0 else None) for index in range(30)]
    headers = {"Authorization": f"Bearer {stack.tokens['scheduler']}"}
    with (
        httpx.Client(base_url=stack.api_url, headers=headers, timeout=60, trust_env=False) as http,
        ThreadPoolExecutor(6) as threads,
    ):
        made = [answer.json()["id"] for answer in threads.map(lambda body: http.post("/v1/jobs", json=body), bodies)]

    pages, cursor = [], None
    while True:
        page = api.get(f"/v1/jobs?tag={tag}&limit=7" + (f"&cursor={cursor}" if cursor else "")).json()
        assert len(page["data"]) <= 7
        pages.append([job["id"] for job in page["data"]])
        cursor = page["pagination"].get("cursor")
        if not cursor:
            break
    ids = [job_id for page in pages for job_id in page]
    assert sorted(ids) == sorted(made)
    assert len(pages) >= 5

    assert len(list(scheduler.list_jobs(type_=kind))) == 3
    scheduler.pause_job(made[0])
    assert [job["id"] for job in scheduler.list_jobs(tag=tag, status="PAUSED")] == [made[0]]
    assert list(scheduler.list_jobs(tag=unique("none"))) == []
    problem(api.get("/v1/jobs?cursor=bm9uZQ"), 400, "VALIDATION_ERROR")
    first = api.get("/v1/jobs?limit=2").json()["pagination"]["cursor"]
    other = api.get(f"/v1/jobs?limit=100&cursor={first}", role="viewer")
    assert other.status_code == 400 or not {job["id"] for job in other.json()["data"]} & set(made)
    for job_id in made:
        scheduler.delete_job(job_id)


@pytest.mark.case(25)
def test_fifty_posts_with_one_key_make_one_job(stack: Stack, scheduler: Client) -> None:
    tag = unique("tag")
    body = job_body(tags=[tag])
    headers = {"Authorization": f"Bearer {stack.tokens['scheduler']}", "X-Idempotency-Key": unique("key")}
    limits = httpx.Limits(max_connections=50)
    with (
        httpx.Client(base_url=stack.api_url, headers=headers, timeout=90, trust_env=False, limits=limits) as http,
        ThreadPoolExecutor(50) as threads,
    ):
        # The emulator starts a process for each: not all of them at once, on two cores that takes too long.
        for count in (20, 40):
            list(threads.map(lambda _: http.get("/health"), range(count)))
        answers = list(threads.map(lambda _: http.post("/v1/jobs", json=body), range(50)))
    assert {answer.status_code for answer in answers} == {201}
    (job_id,) = {answer.json()["id"] for answer in answers}
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert [job["id"] for job in scheduler.list_jobs(tag=tag)] == [job_id]
    scheduler.delete_job(job_id)

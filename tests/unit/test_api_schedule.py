from __future__ import annotations

from tests.api_client import Api
from tests.factories import JOB_ID


def test_the_next_slots_in_utc_and_on_the_zones_clocks() -> None:
    query = "expression=0+9+*+*+MON&timezone=America/New_York&after=2027-03-08T14:00:00Z&count=2"
    assert Api().get("/v1/schedule/preview", query=query).json == {
        "slots": ["2027-03-15T13:00:00Z", "2027-03-22T13:00:00Z"],
        "local": ["2027-03-15T09:00:00-04:00", "2027-03-22T09:00:00-04:00"],
    }


def test_ten_slots_from_now_in_utc_by_default() -> None:
    slots = Api().get("/v1/schedule/preview", query="expression=*/5+*+*+*+*").json["slots"]
    assert (len(slots), slots[0]) == (10, "2027-01-15T08:05:00Z")


def test_a_preview_with_a_job_is_that_jobs_schedule() -> None:
    api = Api()
    job = api.create(schedule={"type": "cron", "expression": "H H * * *"})
    query = f"expression=H+H+*+*+*&count=1&jobId={job.rsplit('/', 1)[1]}"
    assert api.get("/v1/schedule/preview", query=query).json["slots"] == [api.get(job).json["nextRunAt"]]
    assert list(api.get("/v1/schedule/preview", query="expression=H+H+*+*+*").fields) == ["expression"]
    assert api.get("/v1/schedule/preview", query=f"expression=H+H+*+*+*&jobId={JOB_ID}").status == 200

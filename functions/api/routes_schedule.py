"""What a cron expression's next slots are, before anybody registers a job with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from functions.api.body import invalid
from functions.api.paging import whole_number
from functions.api.request import Answer, Request
from functions.api.route import Access, Route
from functions.api.validation import shown
from functions.domain.cron import preview
from functions.domain.ids import is_job_id
from functions.domain.instants import local_rfc3339, parse_instant, rfc3339

if TYPE_CHECKING:
    from functions.ports import Clock

DEFAULT_COUNT = 10
MAX_COUNT = 100


class ScheduleRoutes:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def routes(self) -> tuple[Route, ...]:
        return (Route("previewSchedule", "GET", "/v1/schedule/preview", Access.READ, self.preview),)

    def preview(self, request: Request) -> Answer:
        query = request.query("expression", "timezone", "after", "count", "jobId")
        expression = query.get("expression")
        if expression is None:
            raise invalid("expression", "is required")
        timezone = query.get("timezone", "UTC")
        after = query.get("after")
        job_id = query.get("jobId")
        if job_id is not None and not is_job_id(job_id):
            raise invalid("jobId", f"{shown(job_id)} is not a UUID in lower case")
        slots = preview(
            expression,
            timezone,
            after=int(self.clock.now()) if after is None else parse_instant(after, field="after", timezone=timezone),
            count=whole_number(query, "count", default=DEFAULT_COUNT, most=MAX_COUNT),
            job_id=job_id,
        )
        view = {
            "slots": [rfc3339(slot) for slot in slots],
            "local": [local_rfc3339(slot, timezone) for slot in slots],
        }
        return Answer(200, json.dumps(view, separators=(",", ":")))

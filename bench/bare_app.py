"""The floor of the API: the least that Powertools and pydantic need to read the same body and give the same answer.

No caller, no limits, no rules, no store to speak of, no job: a model is validated and JSON of the same members and
length goes out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from functions.api.schemas import JobBody

Resolve = Callable[[Mapping[str, Any], object], dict[str, Any]]
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answers:
    """What ours answers, so that the floor answers as much."""

    added: Mapping[str, Any]
    """Beside the id, what a new job's answer has that its body had not."""
    jobs: Mapping[str, Any]
    """By id."""
    page: Mapping[str, Any]


def by_hand(answers: Answers) -> Resolve:
    """The leanest: the model is called by the handler, the answer is `json.dumps`."""
    app = APIGatewayHttpResolver()

    @app.post("/v1/jobs")
    def create() -> Response[str]:
        body = JobBody.model_validate_json(app.current_event.body or "")
        job_id = str(uuid.uuid4())
        made = {"id": job_id, **body.model_dump(by_alias=True, exclude_unset=True), **answers.added}
        return Response(201, _JSON, json.dumps(made), {"Location": f"/v1/jobs/{job_id}"})

    @app.get("/v1/jobs")
    def listed() -> Response[str]:
        return Response(200, _JSON, json.dumps(answers.page))

    @app.get("/v1/jobs/<job_id>")
    def get(job_id: str) -> Response[str]:
        return Response(200, _JSON, json.dumps(answers.jobs[job_id]))

    return app.resolve  # type: ignore[return-value]  # Powertools' own protocol of the context


def by_powertools(answers: Answers) -> Resolve:
    """As Powertools documents it: `enable_validation`, the model and the answer's type in the signature."""
    app = APIGatewayHttpResolver(enable_validation=True)

    @app.post("/v1/jobs")
    def create(body: JobBody) -> Response[dict[str, Any]]:
        job_id = str(uuid.uuid4())
        made = {"id": job_id, **body.model_dump(by_alias=True, exclude_unset=True), **answers.added}
        return Response(201, _JSON, made, {"Location": f"/v1/jobs/{job_id}"})

    @app.get("/v1/jobs")
    def listed(
        limit: Annotated[int, Query(ge=1, le=100)] = 50,  # noqa: ARG001 - read and checked, as ours is
    ) -> Response[dict[str, Any]]:
        return Response(200, _JSON, dict(answers.page))

    @app.get("/v1/jobs/<job_id>")
    def get(job_id: str) -> Response[dict[str, Any]]:
        return Response(200, _JSON, dict(answers.jobs[job_id]))

    return app.resolve  # type: ignore[return-value]  # Powertools' own protocol of the context

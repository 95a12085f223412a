"""Routes of job types' configurations: what holds for the jobs of a type where they say nothing themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from functions.api.body import compact, invalid
from functions.api.paging import paging_of
from functions.api.request import Answer, Request
from functions.api.route import RETRY_CONFIGS, Access, Route
from functions.api.schemas import LABEL_PATTERN, MAX_LABEL_LENGTH, TypeConfigBody
from functions.api.validation import shown, validated
from functions.api.views import retry_config_view, retry_configs_text
from functions.usecases import retry_configs

if TYPE_CHECKING:
    from functions.usecases.services import Services


class RetryConfigRoutes:
    def __init__(self, services: Services) -> None:
        self.services = services

    def routes(self) -> tuple[Route, ...]:
        one = f"{RETRY_CONFIGS}{{jobType}}"
        return (
            Route("listRetryConfigs", "GET", RETRY_CONFIGS.removesuffix("/"), Access.READ, self.list),
            Route("getRetryConfig", "GET", one, Access.READ, self.get),
            Route("putRetryConfig", "PUT", one, Access.WRITE, self.put, role=retry_configs.must_administer),
            Route("deleteRetryConfig", "DELETE", one, Access.WRITE, self.delete, role=retry_configs.must_administer),
        )

    def list(self, request: Request) -> Answer:
        paging = paging_of(request.query("limit", "cursor"))
        page = retry_configs.list_configs(self.services, limit=paging.limit, cursor=paging.cursor)
        return Answer(200, retry_configs_text(page))

    def get(self, request: Request) -> Answer:
        request.query()
        config = retry_configs.read_config(self.services, _job_type(request))
        return Answer(200, compact(retry_config_view(config)))

    def put(self, request: Request) -> Answer:
        request.query()
        job_type, document = _job_type(request), request.json()
        validated(TypeConfigBody, document)
        config = retry_configs.put_config(self.services, request.caller, job_type, document)
        return Answer(200, compact(retry_config_view(config)))

    def delete(self, request: Request) -> Answer:
        request.query()
        retry_configs.delete_config(self.services, request.caller, _job_type(request))
        return Answer(204)


def _job_type(request: Request) -> str:
    """Raises InvalidRequestError for what can be no job's type."""
    job_type = unquote(request.params["jobType"])
    if len(job_type) > MAX_LABEL_LENGTH:
        raise invalid("jobType", f"{shown(job_type)} is over the limit of {MAX_LABEL_LENGTH} characters")
    if not re.fullmatch(LABEL_PATTERN, job_type):
        raise invalid("jobType", f"{shown(job_type)} does not match {LABEL_PATTERN}")
    return job_type

"""The HTTP API put together: every route, over the services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from functions.api.drafts import DraftReader
from functions.api.route import Route
from functions.api.routes_bulk import BulkRoutes
from functions.api.routes_circuits import CircuitRoutes
from functions.api.routes_documents import DocumentRoutes
from functions.api.routes_executions import ExecutionRoutes
from functions.api.routes_health import HealthRoutes, Probe
from functions.api.routes_jobs import JobRoutes
from functions.api.routes_poll import PollRoutes
from functions.api.routes_reports import ReportRoutes
from functions.api.routes_retry_configs import RetryConfigRoutes
from functions.api.routes_revocations import RevocationRoutes
from functions.api.routes_schedule import ScheduleRoutes
from functions.api.routes_webhook_keys import WebhookKeyRoutes
from functions.api.routes_workers import WorkerRoutes
from functions.api.routes_workflows import WorkflowRoutes
from functions.api.serving import App, Handler

if TYPE_CHECKING:
    from functions.domain.handler_names import KnownHandlers
    from functions.domain.target_access import TargetRules
    from functions.limit_ports import RateLimits
    from functions.usecases.services import Services

_NOBODY = "00000000-0000-4000-8000-000000000000"


def create_app(  # noqa: PLR0913 - everything that a stage, or a test, brings along
    services: Services,
    *,
    limits: RateLimits,
    rules: TargetRules,
    check_address: Callable[[str], None],
    handlers: Callable[[], KnownHandlers | None] = lambda: None,
    shortest_interval_seconds: int = 1,
    stage: str,
    version: str,
    probes: Mapping[str, Probe] | None = None,
    is_transient: Callable[[Exception], bool] = lambda _: False,
    machine_teams: Mapping[str, str] | None = None,
    address: str = "https://{domain}",
) -> Handler:
    """The function that answers events of an HTTP API (payload format 2.0).

    `check_address` raises InvalidFieldError for URLs that do not lead to public addresses; `handlers` are
    those a job may name, None for any. `probes` are what health
    asks; by default a read of each table. `is_transient` tells faults of the platform that pass by themselves: 503.
    `machine_teams`: client ids of machines that act for a team, and its name. `address` is where the gateway serves
    the API, with `{domain}`, `{host}`, `{api}`, `{stage}` of a request.
    """
    drafts = DraftReader(
        rules=rules,
        check_address=check_address,
        handlers=handlers,
        clock=services.clock,
        shortest_interval_seconds=shortest_interval_seconds,
    )
    if probes is None:
        probes = {
            "jobs": lambda: services.jobs.get(_NOBODY, with_definition=False),
            "history": lambda: services.history.get(_NOBODY, "0000000000", 1),
        }
    health = HealthRoutes(stage, version, services.clock, probes)
    routes = _routes(services, drafts, health, address, limits)
    return App(routes, services.clock, limits, is_transient, machine_teams).answer


def routes_without_services() -> tuple[Route, ...]:
    """Every route, to be described and not to be called."""
    nothing: Any = None
    health = HealthRoutes("", "", nothing, {})
    return _routes(nothing, nothing, health, "", nothing)


def _routes(
    services: Services, drafts: DraftReader, health: HealthRoutes, address: str, limits: RateLimits
) -> tuple[Route, ...]:
    documents = DocumentRoutes(lambda: routes, address)
    routes = (
        *JobRoutes(services, drafts).routes(),
        *BulkRoutes(services, drafts).routes(),
        *WorkflowRoutes(services, drafts).routes(),
        *ExecutionRoutes(services).routes(),
        *ReportRoutes(services).routes(),
        *WorkerRoutes(services).routes(),
        *PollRoutes(services).routes(),
        *RetryConfigRoutes(services).routes(),
        *CircuitRoutes(services).routes(),
        *WebhookKeyRoutes(services).routes(),
        *RevocationRoutes(limits, health.clock).routes(),
        *ScheduleRoutes(health.clock).routes(),
        *health.routes(),
        *documents.routes(),
    )
    return routes

"""Serves routes: finds the one that a request is for, does what holds for all of them, and makes answers of errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from functions.api.problems import MethodNotAllowedError, problem_body, problem_headers, problem_of
from functions.api.request import Answer, Request
from functions.api.route import Access, Route, one_segment
from functions.domain.errors import ForbiddenError, GnomonError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError

    from functions.domain.caller import Caller
    from functions.limit_ports import RateLimits
    from functions.ports import Clock

logger = logging.getLogger(__name__)

_PATTERNS = {
    "{jobId}": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "{workflowId}": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "{workerId}": r"[a-z2-7]{16}",
    "{jobType}": r"[^/]+",
    "{circuitKey}": r"[^/]+",
    "{owner}": r"[^/]+",
    "{subject}": r"[^/]+",
    "{executionId}": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-z]+-\d{4}",
}

Handler = Callable[[Mapping[str, Any], object], dict[str, Any]]


class App:
    """`answer` is the handler of a function that serves these routes."""

    def __init__(
        self,
        routes: tuple[Route, ...],
        clock: Clock,
        limits: RateLimits,
        is_transient: Callable[[Exception], bool],
        machine_teams: Mapping[str, str] | None = None,
    ) -> None:
        """`machine_teams`: client ids of machines that act for a team, and its name."""
        self._routes = routes
        self._clock = clock
        self._limits = limits
        self._is_transient = is_transient
        self._machine_teams = machine_teams
        self._resolver = APIGatewayHttpResolver(debug=False)
        for route in routes:
            rule = re.sub(r"\{(\w+)\}", r"<\1>", route.path)
            self._resolver.route(rule, method=route.method)(self._served(route))
        self._resolver.not_found(self._no_route)
        self._resolver.exception_handler([GnomonError, Exception])(self._refused)

    def answer(self, event: Mapping[str, Any], context: object) -> dict[str, Any]:
        self._resolver.context["request"] = Request(event, machine_teams=self._machine_teams)
        path = event["rawPath"]
        if (one := one_segment(path)) != path:
            event = {**event, "rawPath": one}
        return self._resolver.resolve(event, context)  # type: ignore[arg-type]  # Powertools' own protocol of the context

    def _served(self, route: Route) -> Callable[..., Response[str]]:
        def serve(**params: str) -> Response[str]:
            request = self._request
            request.params = params
            if route.access is not Access.PUBLIC:
                self._admit(request, route)
            try:
                if not route.any_accept:
                    request.must_accept_json(*route.media)
                answer = route.answer(request)
            except GnomonError as error:
                if problem_of(error).status < 500:
                    self._give_back(request, request.creations)
                raise
            self._give_back(request, request.not_created)
            return self._response(answer)

        return serve

    def _admit(self, request: Request, route: Route) -> None:
        """Authenticate, check the role, take one token of the caller's limit; nothing of the body is read before.

        A caller whose role is not enough uses a token, too. Raises UnauthorizedError, RateLimitedError, ForbiddenError.
        """
        request.caller = caller = request.authenticated()
        refusal = _refusal(route, caller)
        creates = route.creates if refusal is None else 0
        request.allowance = self._limits.take(caller.id, route.access.value, now=self._clock.now(), creations=creates)
        request.creations = creates
        if refusal is not None:
            raise refusal
        request.count_creations = lambda number: self._limits.create(caller.id, number, now=self._clock.now())

    def _give_back(self, request: Request, creations: int) -> None:
        """What was refused, or was there before, is no creation."""
        if creations:
            self._limits.give_back(request.caller.id, creations=creations)

    def _no_route(self, _error: NoRouteError) -> Response[str]:
        event = self._resolver.current_event
        path = event.path
        allowed = tuple(sorted({route.method for route in self._routes if _pattern(route.path).fullmatch(path)}))
        # Powertools' routes take no path with odd characters, whatever its method.
        if not allowed or event.http_method in allowed:
            raise NotFoundError("There is nothing at this path.")
        raise MethodNotAllowedError(allowed)

    def _refused(self, error: Exception) -> Response[str]:
        request = self._request
        if self._is_transient(error):
            logger.warning("request %s was throttled", request.id, exc_info=error)
            error = UnavailableError()
        problem = problem_of(error)
        if problem.status >= 500:
            logger.error("request %s failed", request.id, exc_info=error)
        return self._response(Answer(problem.status, problem_body(error, request.id), problem_headers(error)))

    @property
    def _request(self) -> Request:
        request: Request = self._resolver.context["request"]
        return request

    def _response(self, answer: Answer) -> Response[str]:
        headers: dict[str, str | list[str]] = {"X-Content-Type-Options": "nosniff"}
        allowance = self._request.allowance
        if allowance is not None:
            headers["RateLimit-Limit"] = str(allowance.limit)
            headers["RateLimit-Remaining"] = str(allowance.remaining)
            headers["RateLimit-Reset"] = str(allowance.reset_seconds)
        headers.update(answer.headers)
        content_type = None if answer.body is None else answer.content_type
        return Response(answer.status, content_type, answer.body or "", headers)


def _refusal(route: Route, caller: Caller) -> ForbiddenError | None:
    if caller.only_reports and not route.for_reporters:
        return ForbiddenError(
            "Your scope gnomon/report only reports on attempts: progress, complete and fail, by token."
        )
    try:
        if route.role is not None:
            route.role(caller)
    except ForbiddenError as error:
        return error
    return None


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", lambda match: _PATTERNS[match[0]], path))

"""The function that answers polls: one route of the API, and no more than that route needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.api.routes_poll import PollRoutes
from functions.api.serving import App, Handler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.limit_ports import RateLimits
    from functions.usecases.services import Polls


def create_poll_app(
    polls: Polls,
    *,
    limits: RateLimits,
    is_transient: Callable[[Exception], bool] = lambda _: False,
    machine_teams: Mapping[str, str] | None = None,
) -> Handler:
    """The function that answers polls and nothing else."""
    return App(PollRoutes(polls).routes(), polls.clock, limits, is_transient, machine_teams).answer

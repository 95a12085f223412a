"""Who calls, from the claims of the token that API Gateway has checked (signature, issuer, expiry, client)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functions.api.problems import UnauthorizedError
from functions.domain.actor import ActorKind
from functions.domain.caller import Caller, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TEAM_PREFIX = "team-"
_GROUP_ROLES = {"admin": Role.ADMIN, "scheduler": Role.SCHEDULER, "viewer": Role.VIEWER}
_SCOPE_ROLES = {
    "gnomon/read": Role.READER,
    "gnomon/write": Role.SCHEDULER,
    "gnomon/admin": Role.ADMIN,
    "gnomon/report": Role.REPORTER,
}


def caller_of(claims: Mapping[str, Any] | None, machine_teams: Mapping[str, str] | None = None) -> Caller:
    """The caller these claims name; raises UnauthorizedError for anything but an access token.

    A machine is told from a user by what only users' tokens have: a `username`. A user's scopes give no role.
    `machine_teams`: client ids of machines that act for a team, and its name.
    """
    if claims is None or claims.get("token_use") != "access":
        raise UnauthorizedError
    subject = claims.get("sub") or claims.get("client_id")
    if not isinstance(subject, str):
        raise UnauthorizedError
    groups = _groups(claims.get("cognito:groups"))
    if not groups and "username" not in claims and subject == claims.get("client_id"):
        scopes = str(claims.get("scope", "")).split()
        team = (machine_teams or {}).get(subject)
        teams = frozenset() if team is None else frozenset({f"{TEAM_PREFIX}{team}"})
        return Caller(
            id=subject,
            owner=_default_owner(subject, teams),
            roles=_roles(scopes, _SCOPE_ROLES),
            teams=teams,
            names=frozenset({subject}),
            kind=ActorKind.MACHINE,
            client_id=subject,
        )
    teams = frozenset(group for group in groups if group.startswith(TEAM_PREFIX) and group != TEAM_PREFIX)
    return Caller(
        id=subject,
        owner=_default_owner(subject, teams),
        teams=teams,
        roles=_roles(groups, _GROUP_ROLES),
        groups=frozenset(groups),
        names=_names(subject, claims),
        client_id=_client_id(claims),
    )


def _client_id(claims: Mapping[str, Any]) -> str | None:
    client_id = claims.get("client_id")
    return client_id if isinstance(client_id, str) and client_id else None


def _default_owner(subject: str, teams: frozenset[str]) -> str:
    """A second team must not move what the caller makes from one team to another: it names the owner then."""
    return next(iter(teams)) if len(teams) == 1 else subject


def _names(subject: str, claims: Mapping[str, Any]) -> frozenset[str]:
    """An address that was not verified is whatever its user wrote there: it names nobody."""
    names = {subject, claims.get("username")}
    if str(claims.get("email_verified", "")).lower() == "true":
        names.add(claims.get("email"))
    return frozenset(name for name in names if isinstance(name, str) and name)


def _roles(names: Iterable[str], known: Mapping[str, Role]) -> frozenset[Role]:
    return frozenset(known[name] for name in names if name in known) or frozenset({Role.VIEWER})


def _groups(claim: Any) -> list[str]:
    """HTTP APIs pass a list claim as one string, `[a b]`."""
    if isinstance(claim, str):
        inner = claim[1:-1] if claim.startswith("[") and claim.endswith("]") else claim
        return inner.split()
    return [str(group) for group in claim] if isinstance(claim, list) else []

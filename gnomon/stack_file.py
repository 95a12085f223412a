"""Which API to call and with whose token: flags, environment, or the `.local/stack.json` that `make up` writes."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.errors import NoStackError, UsageError
from gnomon.tokens import ClientCredentials, FixedToken, RereadToken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gnomon.tokens import Tokens

DEFAULT_PORT = "4566"


class Role(enum.StrEnum):
    """Users of the local stack, a token each in stack.json."""

    ADMIN = "admin"
    SCHEDULER = "scheduler"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What `make up` says about the running stack."""

    path: Path
    api_url: str
    tokens: Mapping[str, str]
    webhook_secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a machine has tokens for, as the environment names it."""

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    api_url: str
    token: str | Credentials
    from_file: bool = field(default=False, compare=False)
    """Whether the token is the stack file's, which `make up` renews."""

    def tokens(self, again: Callable[[], Connection]) -> Tokens:
        """Where a client has its tokens from; `again` finds the connection once more."""
        if isinstance(self.token, Credentials):
            one = self.token
            return ClientCredentials(one.client_id, one.client_secret, one.token_url, scope=one.scope)
        if not self.from_file:
            return FixedToken(self.token)
        return RereadToken(lambda: str(again().token))


def stack_file_name(environment: Mapping[str, str]) -> Path:
    """Where `make up` writes, seen from the project's folder: a file for each GNOMON_PORT."""
    port = environment.get("GNOMON_PORT") or DEFAULT_PORT
    return Path(".local") / ("" if port == DEFAULT_PORT else port) / "stack.json"


def find_stack_file(directory: Path, environment: Mapping[str, str]) -> Path | None:
    """GNOMON_STACK, else the stack's file in this directory or the nearest one above it that has one."""
    if environment.get("GNOMON_STACK"):
        return Path(environment["GNOMON_STACK"])
    name = stack_file_name(environment)
    return next((above / name for above in (directory, *directory.parents) if (above / name).is_file()), None)


def read_stack(path: Path) -> Stack:
    """Read the file; raises UsageError naming it and what is wrong."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", advice="`make up` writes it.") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}.", advice="`make up` writes it anew.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no JSON object.", advice="`make up` writes it anew.")
    api_url, tokens = document.get("apiUrl"), document.get("tokens")
    if not isinstance(api_url, str) or not isinstance(tokens, dict):
        raise UsageError(f"{path} lacks apiUrl or tokens.", advice="`make up` writes it anew.")
    return Stack(path=path, api_url=api_url, tokens=tokens, webhook_secret=document.get("webhookSecret"))


def connect(
    *,
    api_url: str | None,
    token: str | None,
    stack_file: Path | None,
    role: Role,
    environment: Mapping[str, str],
    directory: Path,
) -> Connection:
    """The first of: `--api-url` with `--token`, `--stack`, GNOMON_API_URL with what the environment has, GNOMON_STACK,
    the file found from `directory` upwards.

    The environment has client credentials (GNOMON_CLIENT_ID and what belongs to it), else GNOMON_TOKEN. These or
    `--token` alone replace the role's token; an address alone is refused, so that no token reaches a stack it was not
    made for. Raises UsageError.
    """
    environment_url, environment_token = environment.get("GNOMON_API_URL"), _of_environment(environment)
    if api_url:
        return _pair(api_url, token or environment_token, "--api-url")
    if stack_file is None and environment_url:
        return _pair(environment_url, token or environment_token, "GNOMON_API_URL")
    path = stack_file or find_stack_file(directory, environment)
    if path is None:
        raise NoStackError(
            f"No stack: there is no {stack_file_name(environment)} here or above, and GNOMON_API_URL is not set.",
            advice="`make up` starts a local stack; for another set GNOMON_API_URL and GNOMON_TOKEN.",
        )
    stack = read_stack(path)
    # Beside GNOMON_API_URL the environment's token is that stack's, and no other sees it.
    given = token or (None if environment_url else environment_token)
    if given:
        return Connection(api_url=stack.api_url, token=given)
    if role.value not in stack.tokens:
        raise UsageError(f"{path} has no token for role {role.value}.", advice="`make up` renews the tokens.")
    return Connection(api_url=stack.api_url, token=stack.tokens[role.value], from_file=True)


def _of_environment(environment: Mapping[str, str]) -> str | Credentials | None:
    """Client credentials where there are any, which tokens can be renewed with; else the token."""
    client_id, secret = environment.get("GNOMON_CLIENT_ID"), environment.get("GNOMON_CLIENT_SECRET")
    token_url, scope = environment.get("GNOMON_TOKEN_URL"), environment.get("GNOMON_SCOPE")
    if client_id and secret and token_url:
        return Credentials(client_id=client_id, client_secret=secret, token_url=token_url, scope=scope or None)
    if client_id or secret or token_url:
        given = {"GNOMON_CLIENT_ID": client_id, "GNOMON_CLIENT_SECRET": secret, "GNOMON_TOKEN_URL": token_url}
        missing = " and ".join(name for name, value in given.items() if not value)
        raise UsageError(
            f"The client credentials lack {missing}.",
            advice="Set GNOMON_CLIENT_ID, GNOMON_CLIENT_SECRET and GNOMON_TOKEN_URL, or none of them.",
        )
    return environment.get("GNOMON_TOKEN")


def _pair(api_url: str, token: str | Credentials | None, source: str) -> Connection:
    if not token:
        raise UsageError(
            f"{source} is given without a token.",
            advice="Set GNOMON_TOKEN to a Cognito access token of that stack, or GNOMON_CLIENT_ID, "
            "GNOMON_CLIENT_SECRET and GNOMON_TOKEN_URL.",
        )
    return Connection(api_url=api_url, token=token)

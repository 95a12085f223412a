"""Three users of the local stack, one for each role, and their access tokens."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from gnomon.local.report import LocalError

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_cognito_idp import CognitoIdentityProviderClient

ROLES = ("admin", "scheduler", "viewer")
"""Name of each user, and of its group."""


def access_tokens(cognito: CognitoIdentityProviderClient, *, pool: str, client: str, file: Path) -> dict[str, str]:
    """A fresh access token (1 h) for each role. Makes the users, with passwords kept in `file`, where they are not."""
    passwords = _read(file).get(pool, {})
    tokens = {}
    for role in ROLES:
        token = _sign_in(cognito, client, role, passwords[role]) if role in passwords else None
        if token is None:
            passwords[role] = _make_user(cognito, pool, role)
            token = _sign_in(cognito, client, role, passwords[role])
        if token is None:
            raise LocalError(f"the user {role!r} cannot sign in", "`make down`, then `make up` again.")
        tokens[role] = token
    write_private(file, json.dumps({pool: passwords}))
    return tokens


def write_private(file: Path, text: str) -> None:
    """Replace the file in one step; only its owner may read it (0600)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        output.write(text)
    fresh.replace(file)


def _make_user(cognito: CognitoIdentityProviderClient, pool: str, role: str) -> str:
    # The pool's policy: 12 characters, each of the four kinds.
    password = f"Aa1!{secrets.token_urlsafe(18)}"
    # It exists where a `make up` did not come to its end.
    with contextlib.suppress(cognito.exceptions.UsernameExistsException):
        cognito.admin_create_user(UserPoolId=pool, Username=role, MessageAction="SUPPRESS")
    cognito.admin_set_user_password(UserPoolId=pool, Username=role, Password=password, Permanent=True)
    cognito.admin_add_user_to_group(UserPoolId=pool, Username=role, GroupName=role)
    return password


def _sign_in(cognito: CognitoIdentityProviderClient, client: str, role: str, password: str) -> str | None:
    try:
        answer = cognito.initiate_auth(
            ClientId=client,
            AuthFlow="USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": role, "PASSWORD": password},
        )
    except ClientError:
        return None
    return answer["AuthenticationResult"].get("AccessToken")


def _read(file: Path) -> dict[str, dict[str, str]]:
    try:
        content: dict[str, dict[str, str]] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content

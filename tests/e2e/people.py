"""Callers beside the three users of the stack: users in groups of a test's choice, and machines."""

from __future__ import annotations

import contextlib
import json
import secrets
from typing import Any

import httpx

from tests.e2e.stack import Aws, Stack, unique


class People:
    def __init__(self, stack: Stack, aws: Aws) -> None:
        self._stack = stack
        self._cognito = aws.cognito
        self._pool = stack.outputs["UserPoolId"]
        self._client = stack.outputs["UserClientId"]

    def tokens(self, *groups: str, pool: str | None = None, client: str | None = None) -> dict[str, Any]:
        """A new user in these groups, signed in: `AccessToken`, `IdToken`, …"""
        pool, client = pool or self._pool, client or self._client
        name, password = unique("user"), f"Aa1!{secrets.token_urlsafe(18)}"
        self._cognito.admin_create_user(UserPoolId=pool, Username=name, MessageAction="SUPPRESS")
        self._cognito.admin_set_user_password(UserPoolId=pool, Username=name, Password=password, Permanent=True)
        for group in groups:
            with contextlib.suppress(self._cognito.exceptions.GroupExistsException):
                self._cognito.create_group(UserPoolId=pool, GroupName=group)
            self._cognito.admin_add_user_to_group(UserPoolId=pool, Username=name, GroupName=group)
        signed_in: dict[str, Any] = self._cognito.initiate_auth(
            ClientId=client,
            AuthFlow="USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": name, "PASSWORD": password},
        )["AuthenticationResult"]
        return signed_in

    def token(self, *groups: str) -> str:
        """Access token of a new user in these groups."""
        return str(self.tokens(*groups)["AccessToken"])

    def machine_id(self, name: str) -> str:
        """Client id of a machine in the stage's list."""
        return str(json.loads(self._stack.outputs["MachineClientIds"])[name])

    def credentials(self, name: str = "scheduler") -> dict[str, str]:
        """Those of a machine in the stage's list, as the environment names them."""
        client_id = self.machine_id(name)
        client = self._cognito.describe_user_pool_client(UserPoolId=self._pool, ClientId=client_id)["UserPoolClient"]
        return {
            "GNOMON_CLIENT_ID": client_id,
            "GNOMON_CLIENT_SECRET": client["ClientSecret"],
            "GNOMON_TOKEN_URL": f"{self._stack.endpoint}/oauth2/token",
        }

    def machine(self, name: str, *scopes: str) -> str:
        """Access token of a machine in the stage's list, by client credentials; its own scopes where none is named."""
        answer = self.ask_for_token(name, *scopes)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def ask_for_token(self, name: str, *scopes: str) -> httpx.Response:
        """The token endpoint's answer to a machine in the stage's list."""
        client_id, secret, token_url = self.credentials(name).values()
        return httpx.post(
            token_url,
            data={"grant_type": "client_credentials"} | ({"scope": " ".join(scopes)} if scopes else {}),
            auth=(client_id, secret),
            trust_env=False,
        )

"""`make up`: the local stack, from nothing to ready to use."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from gnomon.client import Client
from gnomon.errors import GnomonError
from gnomon.local import aws, deploy, emulator, users
from gnomon.local.places import DEFAULT_PORT, Place, locked, place
from gnomon.local.readiness import start_functions, wait_for_health
from gnomon.local.report import LocalError, exit_code, step

API_ID, USER_POOL, USER_CLIENT = "ApiId", "UserPoolId", "UserClientId"
"""Outputs of the stack that are needed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack that is up."""

    api_url: str
    tokens: dict[str, str]
    """Access token of each role, good for an hour."""
    endpoint: str
    webhook_secret: str
    """Of the scheduler's jobs."""
    outputs: dict[str, str]
    broken: str = ""
    """What is wrong with handlers of functions/jobs, where something is: the others run."""

    def to_json(self) -> str:
        """What is written to the place's stack file."""
        return json.dumps(
            {
                "apiUrl": self.api_url,
                "tokens": self.tokens,
                "awsEndpointUrl": self.endpoint,
                "region": emulator.REGION,
                "webhookSecret": self.webhook_secret,
                "outputs": self.outputs,
            },
            indent=2,
        )


def up(where: Place, *, persist: bool = False) -> Stack:
    """Have the stack of this place running, deployed from the present sources and healthy, with fresh tokens.

    Repeating it is cheap. With `persist` its data survives an end of the emulator. Raises LocalError.
    """
    with locked(str(where.port)):
        try:
            return _up(where, persist=persist)
        except (BotoCoreError, ClientError) as error:
            raise LocalError(
                f"the emulator did not do what was asked: {error}",
                f"What it said: {where.emulator_log}\n`make down`, then `make up` begins anew.",
            ) from error


def _up(where: Place, *, persist: bool) -> Stack:
    fresh = emulator.find(where) is None
    if fresh:
        with step(f"starting the AWS emulator on port {where.port}"):
            emulator.ensure_running(where, persist=persist)
    else:
        emulator.ensure_running(where, persist=persist)
    clients = aws.Aws(where)
    deployed = deploy.ensure_deployed(where, clients)
    outputs = deployed.outputs
    missing = {API_ID, USER_POOL, USER_CLIENT} - outputs.keys()
    if missing:
        raise LocalError(f"the deployed stack lacks the outputs {sorted(missing)}")
    tokens = users.access_tokens(
        clients.cognito,
        pool=outputs[USER_POOL],
        client=outputs[USER_CLIENT],
        file=where.directory / "users.json",
    )
    api = f"/_aws/execute-api/{outputs[API_ID]}/$default"
    if fresh or deployed.fresh:
        with step("starting the functions"), ThreadPoolExecutor(1) as aside:
            started = aside.submit(start_functions, clients.functions, outputs, where)
            wait_for_health(where, api)
            started.result()
    else:
        wait_for_health(where, api)
    stack = Stack(
        api_url=where.endpoint + api,
        tokens=tokens,
        endpoint=where.endpoint,
        webhook_secret=webhook_secret(where.endpoint + api, tokens["scheduler"]),
        outputs=outputs,
        broken=deployed.broken,
    )
    users.write_private(where.stack_file, stack.to_json())
    return stack


def webhook_secret(api_url: str, token: str) -> str:
    """That of the scheduler's jobs, `whsec_…`; it is made where there is none."""
    try:
        with Client(api_url, token) as client:
            return client.get_webhook_key()["secret"]
    except GnomonError as error:
        raise LocalError(f"the API did not tell the webhook key: {error}") from error


def _command() -> None:
    where = place()
    started = time.monotonic()
    stack = up(where, persist=os.environ.get("GNOMON_PERSIST") == "1")
    print(f"Gnomon is up ({time.monotonic() - started:.1f} s): {stack.api_url}")
    port = "" if where.port == DEFAULT_PORT else f"GNOMON_PORT={where.port} "
    print(f"Tokens and outputs: {where.stack_file}   Stop it: {port}make down")
    print(f"What now: {port}.venv/bin/gnomon jobs create --help   its pages: {stack.api_url}/docs")
    if stack.broken:
        raise LocalError(
            f"handlers in functions/jobs do not work:\n{stack.broken}",
            "The stack is up, and all other handlers run. Correct these, then run `make up` again.",
        )


if __name__ == "__main__":
    aws.forget_accounts(os.environ)
    sys.exit(exit_code(_command))

"""The emulator's AWS, and nobody else's: no account, profile or credential of the user is ever used here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from gnomon.local import emulator, toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from gnomon.local.places import Place

ACCOUNT = "000000000000"
"""The emulator's one account."""


def variables(place: Place) -> dict[str, str]:
    """What an AWS SDK or the CDK must be told to reach this emulator alone."""
    return {
        "AWS_ENDPOINT_URL": place.endpoint,
        "AWS_ACCESS_KEY_ID": emulator.ROOT_KEY,
        "AWS_SECRET_ACCESS_KEY": emulator.ROOT_KEY,
        "AWS_REGION": emulator.REGION,
        "AWS_DEFAULT_REGION": emulator.REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def environment(place: Place) -> dict[str, str]:
    """The environment for tools that talk to this emulator: that of the tools, without the user's AWS."""
    return {**without_aws(toolchain.environment()), **toolchain.QUIET, **variables(place)}


def without_aws(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without anything that names an AWS account, profile or endpoint."""
    return {name: value for name, value in environment.items() if not name.startswith(("AWS_", "CDK_"))}


def forget_accounts(environment: MutableMapping[str, str]) -> None:
    """Take the user's AWS settings out of this process: a profile that does not exist would stop boto3 already."""
    for name in [name for name in environment if name.startswith("AWS_")]:
        del environment[name]
    environment.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)


class Aws:
    """Clients of one emulator."""

    def __init__(self, place: Place) -> None:
        session = boto3.Session(
            aws_access_key_id=emulator.ROOT_KEY, aws_secret_access_key=emulator.ROOT_KEY, region_name=emulator.REGION
        )
        # Without proxies: a company's would be asked for 127.0.0.1 otherwise.
        config = Config(proxies={}, connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 3})
        self.s3 = session.client("s3", endpoint_url=place.endpoint, config=config)
        self.cognito = session.client("cognito-idp", endpoint_url=place.endpoint, config=config)
        self.secrets = session.client("secretsmanager", endpoint_url=place.endpoint, config=config)
        self.cloudformation = session.client("cloudformation", endpoint_url=place.endpoint, config=config)
        self.functions = session.client("lambda", endpoint_url=place.endpoint, config=config)

"""The four tables, the key they are encrypted with, and the webhook secret."""

import json
import string
from typing import NamedTuple

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.nag import acknowledge
from infra.stage import Stage


class Attribute(NamedTuple):
    name: str
    number: bool = False


class Storage(Construct):
    """Attribute names are those that functions/adapters/dynamodb_keys.py builds and parses."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        removal = RemovalPolicy[stage.removal_policy]
        self.key = kms.Key(
            self,
            "Key",
            description=f"Gnomon {stage.name}: jobs, history and the webhook secret",
            enable_key_rotation=True,
            removal_policy=removal,
        )

        self.jobs = self._table(
            "Jobs",
            Attribute("jobId"),
            Attribute("S"),
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
        )
        self._index(self.jobs, "attention", Attribute("as"), Attribute("at", number=True))
        self._index(self.jobs, "owner", Attribute("ow"), Attribute("oc"))
        self._index(self.jobs, "waiting", Attribute("wp"), Attribute("ws"))

        self.executions = self._table(
            "Executions", Attribute("jobId"), Attribute("sk"), stream=dynamodb.StreamViewType.NEW_IMAGE
        )
        self._index(self.executions, "dead", Attribute("dl"), Attribute("ca", number=True))

        self.idempotency = self._table("Idempotency", Attribute("pk"))
        self.coordination = self._table(
            "Coordination", Attribute("kind"), Attribute("name"), stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
        )

        # 32 letters and digits are valid base64 (of 24 bytes), which is what Standard Webhooks wants behind `whsec_`.
        self.webhook_secret = secretsmanager.Secret(
            self,
            "WebhookSecret",
            description=f"Gnomon {stage.name}: signs the requests of http targets (Standard Webhooks)",
            encryption_key=self.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=json.dumps({}),
                generate_string_key="current",
                password_length=32,
                # Not `exclude_punctuation`, which emulators do not know.
                exclude_characters=string.punctuation,
            ),
            removal_policy=removal,
        )
        acknowledge(
            self.webhook_secret,
            SMG4="Receivers hold the same secret, so it changes when its owner tells them; the secret's JSON keeps a "
            "previous value that signs beside the current one for 24 h.",
        )

    @property
    def webhook_secret_arn(self) -> str:
        """By the attribute `Id`: emulators answer a reference to the secret with its name."""
        secret = self.webhook_secret.node.default_child
        if not isinstance(secret, secretsmanager.CfnSecret):
            raise TypeError("the webhook secret is no CloudFormation resource")
        return secret.attr_id

    def _table(
        self,
        name: str,
        partition: Attribute,
        sort: Attribute | None = None,
        *,
        stream: dynamodb.StreamViewType | None = None,
    ) -> dynamodb.Table:
        return dynamodb.Table(
            self,
            name,
            partition_key=_attribute(partition),
            sort_key=None if sort is None else _attribute(sort),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self.key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=self._stage.point_in_time_recovery
            ),
            deletion_protection=self._stage.deletion_protection,
            removal_policy=RemovalPolicy[self._stage.removal_policy],
            time_to_live_attribute="ttl",
            stream=stream,
        )

    @staticmethod
    def _index(table: dynamodb.Table, name: str, partition: Attribute, sort: Attribute) -> None:
        table.add_global_secondary_index(
            index_name=name,
            partition_key=_attribute(partition),
            sort_key=_attribute(sort),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )


def _attribute(attribute: Attribute) -> dynamodb.Attribute:
    kind = dynamodb.AttributeType.NUMBER if attribute.number else dynamodb.AttributeType.STRING
    return dynamodb.Attribute(name=attribute.name, type=kind)

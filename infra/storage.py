"""The four tables, and the key that they and webhook keys are encrypted with."""

from typing import NamedTuple

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

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
            description=f"Gnomon {stage.name}: jobs, history and webhook keys",
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

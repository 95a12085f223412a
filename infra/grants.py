"""What each function may do: one line a permission, nothing wider than its code uses.

The statement's id is the permission's name in the deployed role, so a test can take one away and see what breaks.
Resources are named here and resolved by the stack; a name with `/` is an index of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aws_cdk import Stack
from aws_cdk import aws_iam as iam


class Grant(NamedTuple):
    name: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    through: str | None = None
    """The key may be used only through this service."""
    passed_to: str | None = None
    """The role may be passed to this service only."""
    rows_of: str | None = None
    """Only rows with this partition key."""

    def also_called(self, aliases: Mapping[str, str]) -> Grant:
        """The same permission where a stage's AWS knows its actions by other names besides."""
        return self._replace(actions=(*self.actions, *(aliases[name] for name in self.actions if name in aliases)))


_RUN_QUEUES = ("queue:high", "queue:normal", "queue:low")
_USE_KEY = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
_USE_TABLES_KEY = Grant("UseTablesKey", _USE_KEY, ("key",), through="dynamodb")
_READ_TYPE = Grant("ReadJobType", ("dynamodb:GetItem",), ("table:coordination",))
_READ_COORDINATION = Grant("ReadCoordination", ("dynamodb:GetItem",), ("table:coordination",))
"""Job types and circuits."""
_FIND_WAITING = Grant("FindWaiting", ("dynamodb:Query",), ("table:jobs/waiting",))
_USE_SLOTS = (
    Grant("ReadSlots", ("dynamodb:Query",), ("table:coordination",)),
    Grant("TakeSlots", ("dynamodb:PutItem",), ("table:coordination",)),
    Grant("FreeSlots", ("dynamodb:DeleteItem",), ("table:coordination",)),
    _FIND_WAITING,
)
"""Slots of concurrency keys; with TakeSlots executor and steps write circuits, too, with ReadSlots and FreeSlots the
executor reads who depends on a job, and forgets who is gone."""
_SEND_HINTS = Grant("SendHints", ("sqs:SendMessage",), _RUN_QUEUES)
_ARM = Grant("ArmSchedules", ("scheduler:CreateSchedule",), ("schedules",))
_USE_WEBHOOK_KEYS = (
    Grant("ReadWebhookKeys", ("secretsmanager:GetSecretValue",), ("secrets:webhook",)),
    Grant("CreateWebhookKeys", ("secretsmanager:CreateSecret",), ("secrets:webhook",)),
    Grant("UseSecretsKey", ("kms:Decrypt", "kms:GenerateDataKey"), ("key",), through="secretsmanager"),
)
_CALL_TARGETS = (
    Grant("CallHandlers", ("lambda:InvokeFunction",), ("function:jobs",)),
    Grant("CallFunctions", ("lambda:InvokeFunction",), ("allowed:functions",)),
    Grant("SendToQueues", ("sqs:SendMessage",), ("allowed:queues",)),
    *_USE_WEBHOOK_KEYS,
    Grant("ReadSecrets", ("secretsmanager:GetSecretValue",), ("allowed:secrets",)),
    Grant("UseKeysOfSecrets", ("kms:Decrypt",), ("customer_keys",), through="secretsmanager"),
    Grant("UseKeysOfQueues", ("kms:Decrypt", "kms:GenerateDataKey"), ("customer_keys",), through="sqs"),
)
_PASS_ROLE = Grant("PassHintRole", ("iam:PassRole",), ("role:hints",), passed_to="scheduler.amazonaws.com")

GRANTS: Mapping[str, tuple[Grant, ...]] = {
    "api": (
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("ReadListedJobs", ("dynamodb:BatchGetItem",), ("table:jobs",)),
        Grant("CreateJob", ("dynamodb:PutItem",), ("table:jobs",)),
        Grant("ChangeJob", ("dynamodb:UpdateItem",), ("table:jobs",)),
        Grant("ForgetDefinition", ("dynamodb:DeleteItem",), ("table:jobs",)),
        Grant("ListJobs", ("dynamodb:Query",), ("table:jobs/owner",)),
        Grant("ReadExecution", ("dynamodb:GetItem",), ("table:executions",)),
        Grant("ListHistory", ("dynamodb:Query",), ("table:executions",)),
        Grant("RecordExecution", ("dynamodb:PutItem",), ("table:executions",)),
        Grant("ClaimKey", ("dynamodb:PutItem",), ("table:idempotency",)),
        Grant("ReleaseKey", ("dynamodb:DeleteItem",), ("table:idempotency",)),
        Grant("CountRequest", ("dynamodb:UpdateItem",), ("table:coordination",)),
        # With these also edges between jobs, versions of graphs (a transaction asks for what each of its writes is) and
        # workflows are read, put and deleted.
        Grant("RegisterOwner", ("dynamodb:PutItem",), ("table:coordination",)),
        Grant("ListOwners", ("dynamodb:Query",), ("table:coordination",)),
        Grant("ReadListedWorkflows", ("dynamodb:BatchGetItem",), ("table:coordination",)),
        _FIND_WAITING,
        _READ_TYPE,
        Grant("ForgetJobType", ("dynamodb:DeleteItem",), ("table:coordination",)),
        _USE_TABLES_KEY,
        _SEND_HINTS,
        _ARM,
        _PASS_ROLE,
        Grant("DisarmSchedules", ("scheduler:DeleteSchedule",), ("schedules",)),
        Grant("StopAttempts", ("states:StopExecution",), ("machine/executions",)),
        *_USE_WEBHOOK_KEYS,
        Grant(
            "RotateWebhookKeys",
            ("secretsmanager:PutSecretValue", "secretsmanager:UpdateSecretVersionStage"),
            ("secrets:webhook",),
        ),
    ),
    "poll": (
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("ChangeJob", ("dynamodb:UpdateItem",), ("table:jobs",)),
        Grant("ReadExecution", ("dynamodb:GetItem",), ("table:executions",)),
        Grant("RecordExecution", ("dynamodb:PutItem",), ("table:executions",)),
        Grant("ReadWorker", ("dynamodb:GetItem",), ("table:coordination",)),
        Grant("CountRequest", ("dynamodb:UpdateItem",), ("table:coordination",)),
        *_USE_SLOTS,
        _USE_TABLES_KEY,
        _SEND_HINTS,
        _ARM,
        _PASS_ROLE,
    ),
    "executor": (
        Grant(
            "ConsumeHints",
            ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"),
            _RUN_QUEUES,
        ),
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("ReadParents", ("dynamodb:BatchGetItem",), ("table:jobs",)),
        Grant("ChangeJob", ("dynamodb:UpdateItem",), ("table:jobs",)),
        Grant("ReadExecution", ("dynamodb:GetItem",), ("table:executions",)),
        Grant("RecordExecution", ("dynamodb:PutItem",), ("table:executions",)),
        _READ_COORDINATION,
        *_USE_SLOTS,
        _USE_TABLES_KEY,
        _SEND_HINTS,
        _ARM,
        _PASS_ROLE,
        Grant("CountShare", ("dynamodb:UpdateItem",), ("table:coordination",)),
        Grant("StartAttempts", ("states:StartExecution",), ("machine",)),
        *_CALL_TARGETS,
    ),
    "steps": (
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("ChangeJob", ("dynamodb:UpdateItem",), ("table:jobs",)),
        Grant("ReadExecution", ("dynamodb:GetItem",), ("table:executions",)),
        Grant("RecordExecution", ("dynamodb:PutItem",), ("table:executions",)),
        _READ_COORDINATION,
        *_USE_SLOTS,
        _USE_TABLES_KEY,
        _SEND_HINTS,
        _ARM,
        _PASS_ROLE,
        *_CALL_TARGETS,
    ),
    "sweep": (
        Grant("FindAttention", ("dynamodb:Query",), ("table:jobs/attention",)),
        # Before a row that was woken in vain is quarantined: has the executor started others of the same owner?
        Grant("FindOthers", ("dynamodb:Query",), ("table:jobs/owner",)),
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("ChangeJob", ("dynamodb:UpdateItem",), ("table:jobs",)),
        Grant("ReadExecution", ("dynamodb:GetItem",), ("table:executions",)),
        Grant("RecordExecution", ("dynamodb:PutItem",), ("table:executions",)),
        _READ_TYPE,
        *_USE_SLOTS,
        _USE_TABLES_KEY,
        _SEND_HINTS,
        Grant("MeasureQueues", ("sqs:GetQueueAttributes",), _RUN_QUEUES),
        _ARM,
        _PASS_ROLE,
    ),
    "jobs": (
        # Users' code runs under this role: it may write how far an execution is, which decides nothing, and no more.
        Grant("ReportProgress", ("dynamodb:UpdateItem",), ("table:coordination",), rows_of="progress"),
        _USE_TABLES_KEY,
    ),
    "dead_letters": (
        Grant(
            "ReadStream",
            ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
            ("stream:executions",),
        ),
        Grant("FindStream", ("dynamodb:ListStreams",), ("any",)),
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("UseTablesKey", ("kms:Decrypt", "kms:DescribeKey"), ("key",), through="dynamodb"),
        Grant("Announce", ("sqs:SendMessage",), ("queue:dead_letters",)),
        Grant("KeepUnreadable", ("sqs:SendMessage",), ("queue:unreadable",)),
    ),
    "lifecycle": (
        Grant(
            "ReadStream",
            ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
            ("stream:jobs", "stream:coordination"),
        ),
        Grant("FindStream", ("dynamodb:ListStreams",), ("any",)),
        Grant("ReadJob", ("dynamodb:GetItem",), ("table:jobs",)),
        Grant("ReadExecution", ("dynamodb:GetItem",), ("table:executions",)),
        Grant("UseTablesKey", ("kms:Decrypt", "kms:DescribeKey"), ("key",), through="dynamodb"),
        Grant("PutEvents", ("events:PutEvents",), ("bus",)),
        Grant("KeepUnreadable", ("sqs:SendMessage",), ("queue:unreadable",)),
    ),
}


def statements(
    grants: Sequence[Grant], *, resources: Mapping[str, Sequence[str]], stack: Stack
) -> list[iam.PolicyStatement]:
    """One statement a grant, named by it, and none for a grant whose resources the stage has none of; raises KeyError
    for a resource that the stack does not know."""
    found = ((grant, [arn for name in grant.resources for arn in resources[name]]) for grant in grants)
    return [
        iam.PolicyStatement(
            sid=grant.name, actions=list(grant.actions), resources=arns, conditions=_conditions(grant, stack)
        )
        for grant, arns in found
        if arns
    ]


def _conditions(grant: Grant, stack: Stack) -> dict[str, object] | None:
    if grant.rows_of is not None:
        return {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [grant.rows_of]}}
    equal: dict[str, str] = {}
    if grant.through is not None:
        equal["kms:ViaService"] = f"{grant.through}.{stack.region}.amazonaws.com"
    if grant.passed_to is not None:
        equal["iam:PassedToService"] = grant.passed_to
    return {"StringEquals": equal} if equal else None

"""What calls targets, put together: an adapter for each type of target, behind the stage's rules.

Part of the composition root (functions/bootstrap.py) for the functions that call targets; imported by no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.adapters.address_guard import AddressGuard
from functions.adapters.http_target import HttpTarget
from functions.adapters.lambda_target import LambdaTarget
from functions.adapters.secret_values import SecretValues
from functions.adapters.sqs_target import SqsTarget
from functions.adapters.targets import TargetRouter
from functions.adapters.webhook_signature import WebhookSignature
from functions.domain.target_access import TargetPolicy

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient

    from functions.key_ports import WebhookKeyStore
    from functions.ports import Clock
    from functions.settings import StepsSettings


def make_targets(
    settings: StepsSettings,
    clock: Clock,
    *,
    functions: LambdaClient,
    secrets: SecretsManagerClient,
    webhook_keys: WebhookKeyStore,
    sqs: SQSClient,
) -> TargetRouter:
    """`functions` is made with `invoke_config` of functions/adapters/lambda_target.py."""
    rules = TargetPolicy.of_stage(settings.stage, settings.target_rules, home=settings.run_queues.high.arn)
    return TargetRouter(
        rules=rules,
        http=HttpTarget(
            guard=AddressGuard(rules),
            secrets=SecretValues(secrets, clock=clock),
            signature=WebhookSignature(webhook_keys, clock=clock),
            clock=clock,
        ),
        lambda_=LambdaTarget(functions, jobs_function=settings.jobs_function, clock=clock),
        sqs=SqsTarget(sqs),
    )

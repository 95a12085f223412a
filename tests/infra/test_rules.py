"""The checks that every synthesis runs do stop it: without that the other tests of this folder would prove less."""

from collections.abc import Callable

import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from infra.stack import GnomonStack
from infra.stage import DEV
from tests.infra.synthesized import Template, synthesize


def _public_bucket(stack: GnomonStack) -> None:
    s3.CfnBucket(stack, "Bucket")


def _wide_grant(stack: GnomonStack) -> None:
    stack.functions.sweep.role.add_to_policy(iam.PolicyStatement(actions=["sqs:*"], resources=["arn:aws:sqs:::x"]))


def _impossible_queue(stack: GnomonStack) -> None:
    queue = stack.queues.high.node.default_child
    assert isinstance(queue, sqs.CfnQueue)
    queue.visibility_timeout = 99_999


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (_public_bucket, "AwsSolutions-S10"),
        (_wide_grant, r"AwsSolutions-IAM5\[Action::sqs:\*\]"),
        (_impossible_queue, "VisibilityTimeout: 99999"),
    ],
)
def test_a_finding_fails_the_synthesis(change: Callable[[GnomonStack], None], finding: str) -> None:
    with pytest.raises(RuntimeError, match=finding):
        synthesize(DEV, change)


def test_the_stack_knows_no_account_and_no_region(template: Template) -> None:
    for path in template.of_type("AWS::IAM::Policy"):
        text = str(template.properties(path))
        assert "us-east-1" not in text
        assert ":000000000000:" not in text


def test_resources_are_kinds_that_the_emulator_knows(local: Template) -> None:
    unknown = {
        "AWS::Budgets::Budget",
        "AWS::CloudWatch::CompositeAlarm",
        "AWS::CodeDeploy::DeploymentGroup",
        "AWS::Events::Archive",
        "AWS::WAFv2::WebACLAssociation",
    }

    assert not local.types() & unknown

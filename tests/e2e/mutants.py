"""Takes one permission away from a function's deployed role, and gives it back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.e2e.stack import Aws, Stack

OUTPUTS = {
    "api": "ApiFunction",
    "poll": "PollFunction",
    "executor": "ExecutorFunction",
    "steps": "StepsFunction",
    "sweep": "SweepFunction",
    "jobs": "JobsFunction",
    "dead_letters": "DeadLettersFunction",
    "lifecycle": "LifecycleFunction",
}
"""By the functions' names in infra.grants."""


@contextlib.contextmanager
def without(stack: Stack, aws: Aws, function: str, grant: str) -> Iterator[None]:
    """While it lasts, the function's role lacks the statement `grant`; its processes begin anew, before and after."""
    role = role_of(stack, aws, function)
    policy, document = _policy_with(aws, role, grant)
    left = {**document, "Statement": [each for each in document["Statement"] if each.get("Sid") != grant]}
    aws.iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(left))
    begin_anew(stack, aws, function)
    try:
        yield
    finally:
        aws.iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))
        begin_anew(stack, aws, function)


def role_of(stack: Stack, aws: Aws, function: str) -> str:
    arn: str = aws.functions.get_function_configuration(FunctionName=stack.outputs[OUTPUTS[function]])["Role"]
    return arn.rpartition("/")[2]


def statements(aws: Aws, role: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and document of each inline policy."""
    for name in aws.iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = aws.iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        yield name, document if isinstance(document, dict) else json.loads(document)


def begin_anew(stack: Stack, aws: Aws, function: str) -> None:
    """End the function's processes: what they keep in memory (secrets, owners) hides a missing permission."""
    name = stack.outputs[OUTPUTS[function]]
    size = aws.functions.get_function_configuration(FunctionName=name)["MemorySize"]
    aws.functions.update_function_configuration(FunctionName=name, MemorySize=size)
    # It cannot do anything with this event, but has started then: no check waits for that.
    aws.functions.invoke(FunctionName=name, Payload=b"{}")


def _policy_with(aws: Aws, role: str, grant: str) -> tuple[str, dict[str, Any]]:
    for name, document in statements(aws, role):
        if any(each.get("Sid") == grant for each in document["Statement"]):
            return name, document
    raise AssertionError(f"the role {role} has no statement {grant}")

"""cdk-nag over the whole app, and how a finding is acknowledged on the construct it is about."""

from aws_cdk import Acknowledgment, App, Stack, Validations
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct


def check(app: App) -> None:
    """Have every finding that is not acknowledged fail the synthesis."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def acknowledge(construct: IConstruct, **reasons: str) -> None:
    """Acknowledge AwsSolutions rules, named as keywords, on this construct; the reason is one a reader can check."""
    for rule, reason in reasons.items():
        Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))


def acknowledge_wildcards(construct: IConstruct, *arns: str, reason: str) -> None:
    """Acknowledge that policies of this construct name these resources, each with a wildcard."""
    for arn in arns:
        finding = f"Resource::{_readable(Stack.of(construct).resolve(arn))}"
        Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-IAM5[{finding}]", reason=reason))


def _readable(value: object) -> str:
    """The value as cdk-nag writes it: `<Name>` for a reference, `<Name.Attribute>` for an attribute."""
    match value:
        case str():
            return value
        case {"Ref": str(name)}:
            return f"<{name}>"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [str(separator), list(parts)]}:
            return separator.join(_readable(part) for part in parts)
    raise ValueError(f"cannot be named in an acknowledgment: {value!r}")

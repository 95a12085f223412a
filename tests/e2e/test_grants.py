"""A function that lacks one permission is noticed: one mutant a function here, all by `python -m tests.e2e.grants`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.grants import GRANTS
from tests.e2e.mutants import OUTPUTS, role_of, statements, without
from tests.e2e.smoke import CHECKS, NOT_ENFORCED, Smoke

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.people import People
    from tests.e2e.stack import Api, Aws, Stack
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

BEYOND = {"WriteLogs", ""}
"""Statements of every function that are no grant of its own: logs, and the CDK's for tracing."""


@pytest.fixture
def smoke(stack: Stack, aws: Aws, api: Api, endpoint: Endpoint, people: People) -> Iterator[Smoke]:
    smoke = Smoke(stack, aws, api, endpoint, people)
    yield smoke
    smoke.clean_up()


def test_each_grant_has_its_check() -> None:
    for function, grants in GRANTS.items():
        assert {grant.name for grant in grants} - NOT_ENFORCED == CHECKS[function].keys()


@pytest.mark.parametrize("function", OUTPUTS)
def test_deployed_role_has_the_grants_and_no_more(stack: Stack, aws: Aws, function: str) -> None:
    documents = [document for _, document in statements(aws, role_of(stack, aws, function))]
    names = {each.get("Sid", "") for document in documents for each in document["Statement"]}
    assert names - BEYOND == {grant.name for grant in GRANTS[function]}
    attached = aws.iam.list_attached_role_policies(RoleName=role_of(stack, aws, function))["AttachedPolicies"]
    assert attached == []


@pytest.mark.parametrize(
    ("function", "grant"),
    [
        ("api", "ReadJob"),
        ("poll", "ChangeJob"),
        ("executor", "RecordExecution"),
        ("steps", "ReadExecution"),
        ("sweep", "ReadExecution"),
        ("dead_letters", "Announce"),
        ("jobs", "ReportProgress"),
        ("lifecycle", "PutEvents"),
    ],
)
def test_missing_grant_is_noticed(stack: Stack, aws: Aws, smoke: Smoke, function: str, grant: str) -> None:
    check = CHECKS[function][grant]
    check(smoke)
    with without(stack, aws, function, grant), pytest.raises(AssertionError):
        check(smoke)
    check(smoke)

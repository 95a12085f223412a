"""A function that lacks one permission is noticed: one mutant a function here, all by `python -m tests.e2e.grants`.

On a stack of its own: nobody else lacks what is taken away, and it can wait beside the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gnomon.local import emulator
from gnomon.local.e2e import place_of_its_own
from infra.grants import GRANTS
from tests.e2e.mutants import OUTPUTS, role_of, statements, without
from tests.e2e.people import People
from tests.e2e.smoke import CHECKS, NOT_ENFORCED, OF_CUSTOMER_KEYS, Smoke
from tests.e2e.stack import Api, Aws, Stack, bring_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.target import Endpoint

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

BEYOND = {"WriteLogs", ""}
"""Statements of every function that are no grant of its own: logs, and the CDK's for tracing."""


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    where = place_of_its_own()
    try:
        bring_up(where)
        yield Stack.read(where)
    finally:
        emulator.remove(where)


@pytest.fixture
def smoke(own: Stack, endpoint: Endpoint) -> Iterator[Smoke]:
    aws, api = Aws(own), Api(own)
    smoke = Smoke(own, aws, api, endpoint, People(own, aws))
    yield smoke
    smoke.clean_up()
    api.close()


def test_each_grant_has_its_check() -> None:
    for function, grants in GRANTS.items():
        assert {grant.name for grant in grants} - NOT_ENFORCED == CHECKS[function].keys()


@pytest.mark.parametrize("function", OUTPUTS)
def test_deployed_role_has_the_grants_and_no_more(stack: Stack, aws: Aws, function: str) -> None:
    documents = [document for _, document in statements(aws, role_of(stack, aws, function))]
    names = {each.get("Sid", "") for document in documents for each in document["Statement"]}
    assert names - BEYOND == {grant.name for grant in GRANTS[function]} - OF_CUSTOMER_KEYS
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
def test_missing_grant_is_noticed(smoke: Smoke, function: str, grant: str) -> None:
    check = CHECKS[function][grant]
    check(smoke)
    with without(smoke.stack, smoke.aws, function, grant), pytest.raises(AssertionError):
        check(smoke)
    check(smoke)

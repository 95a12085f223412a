from dataclasses import astuple, replace

import pytest

from functions.domain.target_access import own_prefix
from functions.settings import TargetRules
from infra.outputs import DESCRIPTIONS
from infra.stage import DEV, LOCAL, PROD, STAGES
from tests.infra.synthesized import Template


def test_stages() -> None:
    assert list(STAGES) == ["local", "dev", "prod"]


@pytest.mark.parametrize("stage", STAGES.values(), ids=list(STAGES))
def test_jobs_cannot_name_the_engine_s_own_resources(stage) -> None:
    """The stack's functions, queues and secrets are named after it, and targets are allowed by prefix."""
    assert not f"Gnomon-{stage.name}".startswith(stage.name_prefix)
    assert stage.name_prefix == f"gnomon-{stage.name}-"
    assert str(own_prefix(stage.name, "team-a")).startswith(stage.name_prefix)


def test_names_of_one_stage_never_begin_like_those_of_another() -> None:
    for one in STAGES.values():
        for other in STAGES.values():
            assert one is other or not one.name_prefix.startswith(other.name_prefix)


@pytest.mark.parametrize("name", ["dev-eu", "dev_eu", "Dev", "", "1dev", "dev*", "a" * 17])
def test_name_of_a_stage_cannot_be_mistaken_for_another(name: str) -> None:
    with pytest.raises(ValueError, match="name of the stage must be 1 to 16 lower-case letters and digits"):
        replace(DEV, name=name)


@pytest.mark.parametrize(
    "entry",
    [
        "gnomon-dev-mailer",
        "lambda:mailer",
        "lambda:gnomon-prod-mailer",
        "lambda:gnomon-dev-*",
        "s3:gnomon-dev-mailer",
        "lambda:",
        "",
    ],
)
def test_shared_targets_are_names_of_the_stage(entry: str) -> None:
    with pytest.raises(ValueError, match=r"target_rules\.shared_targets of the stage must be .*gnomon-dev-, got"):
        replace(DEV, target_rules=TargetRules(shared_targets=("lambda:gnomon-dev-mailer", entry)))


def test_values_of_a_stage_are_checked() -> None:
    with pytest.raises(ValueError, match="ports of the stage must be a number from 1 to 65535, got 0"):
        replace(DEV, target_rules=TargetRules(ports=(443, 0)))
    with pytest.raises(ValueError, match="handler_owners of the stage must be a handler's name"):
        replace(DEV, target_rules=TargetRules(handler_owners=(("*.close", ("team-a",)),)))
    with pytest.raises(ValueError, match="handler_owners of the stage must be a tuple of owners, got 'team-a'"):
        replace(DEV, target_rules=TargetRules(handler_owners=(("close", "team-a"),)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="customer_keys of the stage must be the ARN of a key"):
        replace(DEV, customer_keys=("arn:aws:kms:eu-central-1:123456789012:alias/ours",))


def test_ports_of_targets_are_those_of_https() -> None:
    assert all(stage.target_rules.ports == (443, 8_443) for stage in STAGES.values())


def test_only_the_local_stage_lets_targets_skip_the_address_guard() -> None:
    assert LOCAL.target_rules.unguarded_origins == ("http://127.0.0.1:*",)
    assert DEV.target_rules.unguarded_origins == PROD.target_rules.unguarded_origins == ()


def test_limits_of_callers() -> None:
    for stage in (DEV, PROD):
        limits = stage.caller_limits
        assert (limits.writes_per_minute, limits.reads_per_minute, limits.creations_per_day) == (100, 500, 1_000)
    assert LOCAL.caller_limits.writes_per_minute >= 100_000


def test_no_priority_s_concurrency_is_outside_what_lambda_takes() -> None:
    for stage in STAGES.values():
        each = stage.run_concurrency
        assert all(2 <= value <= 1_000 for value in (each.high, each.normal, each.low))


@pytest.mark.parametrize("stage", STAGES.values(), ids=list(STAGES))
def test_no_owner_can_take_all_that_it_shares(stage) -> None:
    """Its share leaves at least half of the executor, and polls, to the others."""
    limits = stage.owner_limits
    for share, most in zip(limits.shares, astuple(stage.run_concurrency), strict=True):
        assert 1 <= share.processes <= most // 2
    assert 1 <= limits.waiting_polls <= stage.poll_concurrency // 2


def test_a_new_account_can_deploy_dev() -> None:
    """Its quota is 10 executions at once, of which none may be reserved."""
    assert not DEV.reserves_concurrency
    assert LOCAL.reserves_concurrency
    assert PROD.reserves_concurrency


def test_the_stack_is_protected_in_production_only() -> None:
    assert (LOCAL.deletion_protection, DEV.deletion_protection, PROD.deletion_protection) == (False, False, True)


def test_outputs_are_the_contract(template: Template) -> None:
    assert set(template.outputs) == set(DESCRIPTIONS)
    assert template.readable(template.outputs["HintsDlqUrl"]["Value"]) == "Queues/HintsDlq"
    assert template.readable(template.outputs["UserPoolId"]["Value"]) == "Identity/Pool"

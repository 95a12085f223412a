import pytest

from infra.outputs import DESCRIPTIONS
from infra.stage import DEV, LOCAL, PROD, STAGES
from tests.infra.synthesized import Template


def test_stages() -> None:
    assert list(STAGES) == ["local", "dev", "prod"]


@pytest.mark.parametrize("stage", STAGES.values(), ids=list(STAGES))
def test_jobs_cannot_name_the_engine_s_own_resources(stage) -> None:
    """The stack's functions, queues and secrets are named after it, and targets are allowed by prefix."""
    assert not any(f"Gnomon-{stage.name}".startswith(prefix) for prefix in stage.target_rules.name_prefixes)
    assert all(len(prefix) > 1 and "*" not in prefix for prefix in stage.target_rules.name_prefixes)


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


def test_the_stack_is_protected_in_production_only() -> None:
    assert (LOCAL.deletion_protection, DEV.deletion_protection, PROD.deletion_protection) == (False, False, True)


def test_outputs_are_the_contract(template: Template) -> None:
    assert set(template.outputs) == set(DESCRIPTIONS)
    assert template.readable(template.outputs["WebhookSecretArn"]["Value"]) == "Storage/WebhookSecret.Id"
    assert template.readable(template.outputs["HintsDlqUrl"]["Value"]) == "Queues/HintsDlq"
    assert template.readable(template.outputs["UserPoolId"]["Value"]) == "Identity/Pool"

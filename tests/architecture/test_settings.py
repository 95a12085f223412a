"""Each function's variables in the template are exactly those that its settings read."""

import re
from dataclasses import replace

import pytest

from functions import settings
from infra.stage import DEV, STAGES
from tests.infra.synthesized import synthesize, synthesized

FUNCTIONS = {
    "Api": settings.ApiSettings,
    "Poll": settings.PollSettings,
    "Executor": settings.ExecutorSettings,
    "Steps": settings.StepsSettings,
    "Sweep": settings.SweepSettings,
    "Jobs": settings.JobsSettings,
    "DeadLetters": settings.DeadLettersSettings,
    "Lifecycle": settings.LifecycleSettings,
}


@pytest.mark.parametrize("stage", sorted(STAGES))
@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_the_template_sets_what_the_settings_name(stage: str, function: str) -> None:
    properties = synthesized(stage).properties(f"Functions/{function}/Function")

    variables = set(properties["Environment"]["Variables"])

    assert variables == {*FUNCTIONS[function].variables(), *settings.TELEMETRY_VARIABLES}


@pytest.mark.parametrize("stage", sorted(STAGES))
@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_the_settings_can_read_what_the_template_sets(stage: str, function: str) -> None:
    variables = synthesized(stage).properties(f"Functions/{function}/Function")["Environment"]["Variables"]

    read = FUNCTIONS[function].from_environment(variables)

    assert read.stage == stage


def test_the_values_are_those_of_the_stage() -> None:
    template = synthesized("dev")
    variables = template.properties("Functions/Api/Function")["Environment"]["Variables"]

    api = settings.ApiSettings.from_environment(variables)

    assert re.fullmatch(r"\d+\.\d+\.\d+", api.version)
    assert api.caller_limits == template.stage.caller_limits
    assert api.target_rules == template.stage.target_rules
    assert api.jobs_table == "Storage/Jobs"
    assert api.schedule_group == "Hints/Group"
    assert api.scheduler_role_arn == "Hints/Role.Arn"
    assert api.run_queues.high == settings.Queue(url="Queues/RunHigh", arn="Queues/RunHigh.Arn")
    assert api.run_queues.normal == settings.Queue(url="Queues/RunNormal", arn="Queues/RunNormal.Arn")
    assert api.run_queues.low == settings.Queue(url="Queues/RunLow", arn="Queues/RunLow.Arn")


@pytest.mark.slow
def test_rules_of_targets_arrive_as_the_stage_says() -> None:
    rules = settings.TargetRules(
        ports=(443,),
        shared_targets=("sqs:gnomon-dev-audit",),
        handler_owners=(("billing.*", ("team-billing", "team-b")), ("purge", ())),
    )
    template = synthesize(replace(DEV, target_rules=rules))

    for function in ("Api", "Executor", "Steps"):
        variables = template.properties(f"Functions/{function}/Function")["Environment"]["Variables"]
        read = FUNCTIONS[function].from_environment(variables).target_rules  # type: ignore[attr-defined]
        assert (read.unguarded_origins, read.ports, read.shared_targets) == ((), (443,), ("sqs:gnomon-dev-audit",))
        assert [(name, tuple(owners)) for name, owners in read.handler_owners] == list(rules.handler_owners)


def test_the_sweep_knows_how_many_messages_the_executor_can_have_in_hand() -> None:
    template = synthesized("prod")
    variables = template.properties("Functions/Sweep/Function")["Environment"]["Variables"]

    sweep = settings.SweepSettings.from_environment(variables)

    assert sweep.run_capacity == settings.RunCapacity(high=2_000, normal=2_000, low=500)

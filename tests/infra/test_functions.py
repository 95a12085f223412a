import pytest

from functions.api.schemas_poll import MAX_WAIT_SECONDS
from infra.stage import DEV, PROD
from tests.infra.synthesized import Template

MODULES = {
    "Api": "api",
    "Poll": "poll",
    "Executor": "executor",
    "Steps": "steps",
    "Sweep": "sweep",
    "Jobs": "jobs",
    "DeadLetters": "dead_letters",
    "Lifecycle": "lifecycle",
}
DAYS = {"local": 7, "dev": 30, "prod": 365}


def _function(template: Template, name: str) -> dict:
    return template.properties(f"Functions/{name}/Function")


def test_there_are_no_other_functions(template: Template) -> None:
    assert set(template.of_type("AWS::Lambda::Function")) == {f"Functions/{name}/Function" for name in MODULES}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_function_runs_its_module_on_current_python(template: Template, name: str) -> None:
    function = _function(template, name)

    assert function["Handler"] == f"functions.handlers.{MODULES[name]}.handler"
    assert function["Runtime"] == "python3.14"
    assert function["Architectures"] == ["arm64"]
    assert function["TracingConfig"] == {"Mode": "Active"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_function_has_a_role_and_a_log_of_its_own(template: Template, name: str) -> None:
    function = _function(template, name)

    assert function["Role"] == f"Functions/{name}/Role.Arn"
    assert function["LoggingConfig"] == {"LogGroup": f"Functions/{name}/Logs"}


def test_every_log_is_kept_as_long_as_the_stage_says(template: Template) -> None:
    kept = {path: group["RetentionInDays"] for path, group in template.of_type("AWS::Logs::LogGroup").items()}

    assert kept == dict.fromkeys(kept, DAYS[template.stage.name])
    assert set(kept) == {*(f"Functions/{name}/Logs" for name in MODULES), "HttpApi/AccessLog", "StateMachine/Logs"}


@pytest.mark.parametrize("name", ["Executor", "Steps", "Sweep", "Jobs"])
def test_chains_of_functions_and_queues_are_not_cut(template: Template, name: str) -> None:
    assert _function(template, name)["RecursiveLoop"] == "Allow"


@pytest.mark.parametrize("name", ["Api", "Poll", "DeadLetters", "Lifecycle"])
def test_functions_outside_the_chain_keep_loop_detection(template: Template, name: str) -> None:
    assert _function(template, name).get("RecursiveLoop", "Terminate") == "Terminate"


RESERVED = {
    "local": {"Sweep": 1, "Poll": 20},
    "dev": {},
    "prod": {"Sweep": 1, "Poll": 100, "Api": 100, "Jobs": 250, "Steps": 50},
}
QUOTA, UNRESERVED = 1_000, 100
"""Executions at once of an account by default, and of those what AWS leaves to all functions without a reservation."""


def test_concurrency_is_reserved_as_the_stage_says(template: Template) -> None:
    reserved = {name: _function(template, name).get("ReservedConcurrentExecutions") for name in MODULES}

    assert reserved == dict.fromkeys(MODULES) | RESERVED[template.stage.name]


def test_the_default_quota_has_room_for_the_executor_beside_what_is_reserved() -> None:
    for stage in (DEV, PROD):
        executor = stage.run_concurrency.high + stage.run_concurrency.normal + stage.run_concurrency.low
        left = QUOTA - sum(RESERVED[stage.name].values())
        assert left >= max(executor, UNRESERVED)


@pytest.mark.parametrize("name", ["Sweep", "Jobs"])
def test_lambda_repeats_no_asynchronous_call(template: Template, name: str) -> None:
    config = template.properties(f"Functions/{name}/Function/EventInvokeConfig")

    assert config["FunctionName"] == f"Functions/{name}/Function"
    assert config["MaximumRetryAttempts"] == 0


def test_timeouts(template: Template) -> None:
    timeouts = {name: _function(template, name)["Timeout"] for name in MODULES}

    assert timeouts["Api"] < 29, "the gateway gives up after 29 s"
    assert MAX_WAIT_SECONDS + 5 <= timeouts["Poll"] < 29
    assert timeouts["Executor"] == 90
    assert timeouts["Steps"] == timeouts["Jobs"] == 900, "they run what may take 840 s"
    assert timeouts["Sweep"] <= 60, "the next one starts a minute later"


def test_the_minute_sweep(template: Template) -> None:
    schedule = template.properties("MinuteSweep/Schedule")

    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert schedule["Target"]["Arn"] == "Functions/Sweep/Function.Arn"
    assert schedule["Target"]["RoleArn"] == "MinuteSweep/Role.Arn"
    assert schedule["Target"]["DeadLetterConfig"] == {"Arn": "Queues/SweepDlq.Arn"}
    assert "GroupName" not in schedule


def test_functions_cannot_delete_the_sweep_in_aws() -> None:
    for stage in (DEV, PROD):
        assert stage.own_schedule_group

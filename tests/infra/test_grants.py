"""What each role may do, written down a second time and in full: the template may hold no more and no less."""

import json
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from infra.grants import GRANTS
from infra.stage import DEV
from tests.infra.synthesized import Template, synthesize, synthesized

JOBS = "Storage/Jobs.Arn"
EXECUTIONS = "Storage/Executions.Arn"
IDEMPOTENCY = "Storage/Idempotency.Arn"
COORDINATION = "Storage/Coordination.Arn"
KEY = "Storage/Key.Arn"
STREAMS = {"Storage/Jobs.StreamArn", "Storage/Coordination.StreamArn"}
RUN_QUEUES = {"Queues/RunHigh.Arn", "Queues/RunNormal.Arn", "Queues/RunLow.Arn"}
SCHEDULES = "arn:<Partition>:scheduler:<Region>:<AccountId>:schedule/Hints/Group/*"
EXECUTIONS_OF_THE_MACHINE = "arn:<Partition>:states:<Region>:<AccountId>:execution:StateMachine/Attempts.Name:*"
ALLOWED_QUEUES = "arn:<Partition>:sqs:<Region>:<AccountId>:gnomon-<Stage>-*"
ALLOWED_FUNCTIONS = "arn:<Partition>:lambda:<Region>:<AccountId>:function:gnomon-<Stage>-*"
ALLOWED_SECRETS = "arn:<Partition>:secretsmanager:<Region>:<AccountId>:secret:gnomon-<Stage>-*"

WEBHOOK_KEYS = "arn:<Partition>:secretsmanager:<Region>:<AccountId>:secret:gnomon/<Stage>/webhook/*"

TABLE_KEY = {
    f"kms:{action}": {KEY}
    for action in (
        "Decrypt",
        "DescribeKey",
        "Encrypt",
        "GenerateDataKey",
        "GenerateDataKeyWithoutPlaintext",
        "ReEncryptFrom",
        "ReEncryptTo",
    )
}
SCHEDULING = {"scheduler:CreateSchedule": {SCHEDULES}, "iam:PassRole": {"Hints/Role.Arn"}}

CALLING_TARGETS = {
    "sqs:SendMessage": {*RUN_QUEUES, ALLOWED_QUEUES},
    "lambda:InvokeFunction": {"Functions/Jobs/Function.Arn", ALLOWED_FUNCTIONS},
    "secretsmanager:GetSecretValue": {WEBHOOK_KEYS, ALLOWED_SECRETS},
    "secretsmanager:CreateSecret": {WEBHOOK_KEYS},
}

FUNCTIONS: dict[str, dict[str, set[str]]] = {
    "Api": {
        **TABLE_KEY,
        **SCHEDULING,
        "dynamodb:GetItem": {JOBS, EXECUTIONS, COORDINATION},
        "dynamodb:BatchGetItem": {JOBS, COORDINATION},
        "dynamodb:PutItem": {JOBS, EXECUTIONS, IDEMPOTENCY, COORDINATION},
        "dynamodb:UpdateItem": {JOBS, COORDINATION},
        "dynamodb:DeleteItem": {JOBS, IDEMPOTENCY, COORDINATION},
        "dynamodb:Query": {f"{JOBS}/index/owner", f"{JOBS}/index/waiting", EXECUTIONS, COORDINATION},
        "sqs:SendMessage": RUN_QUEUES,
        "scheduler:DeleteSchedule": {SCHEDULES},
        "states:StopExecution": {EXECUTIONS_OF_THE_MACHINE},
        **{
            f"secretsmanager:{action}": {WEBHOOK_KEYS}
            for action in ("GetSecretValue", "CreateSecret", "PutSecretValue", "UpdateSecretVersionStage")
        },
    },
    "Poll": {
        **TABLE_KEY,
        **SCHEDULING,
        "dynamodb:Query": {f"{JOBS}/index/waiting", COORDINATION},
        "dynamodb:GetItem": {JOBS, EXECUTIONS, COORDINATION},
        "dynamodb:UpdateItem": {JOBS, COORDINATION},
        "dynamodb:PutItem": {EXECUTIONS, COORDINATION},
        "dynamodb:DeleteItem": {COORDINATION},
        "sqs:SendMessage": RUN_QUEUES,
    },
    "Executor": {
        **TABLE_KEY,
        **SCHEDULING,
        "dynamodb:GetItem": {JOBS, EXECUTIONS, COORDINATION},
        "dynamodb:BatchGetItem": {JOBS},
        "dynamodb:UpdateItem": {JOBS, COORDINATION},
        "dynamodb:PutItem": {EXECUTIONS, COORDINATION},
        "dynamodb:Query": {f"{JOBS}/index/waiting", COORDINATION},
        "dynamodb:DeleteItem": {COORDINATION},
        "sqs:ReceiveMessage": RUN_QUEUES,
        "sqs:DeleteMessage": RUN_QUEUES,
        "sqs:GetQueueAttributes": RUN_QUEUES,
        "sqs:ChangeMessageVisibility": RUN_QUEUES,
        "states:StartExecution": {"StateMachine/Attempts"},
        **CALLING_TARGETS,
    },
    "Steps": {
        **TABLE_KEY,
        **SCHEDULING,
        "dynamodb:GetItem": {JOBS, EXECUTIONS, COORDINATION},
        "dynamodb:UpdateItem": {JOBS},
        "dynamodb:PutItem": {EXECUTIONS, COORDINATION},
        "dynamodb:Query": {f"{JOBS}/index/waiting", COORDINATION},
        "dynamodb:DeleteItem": {COORDINATION},
        **CALLING_TARGETS,
    },
    "Sweep": {
        **TABLE_KEY,
        **SCHEDULING,
        "dynamodb:GetItem": {JOBS, EXECUTIONS, COORDINATION},
        "dynamodb:UpdateItem": {JOBS},
        "dynamodb:PutItem": {EXECUTIONS, COORDINATION},
        "dynamodb:DeleteItem": {COORDINATION},
        "dynamodb:Query": {
            *(f"{JOBS}/index/{index}" for index in ("attention", "owner", "waiting")),
            COORDINATION,
        },
        "sqs:SendMessage": RUN_QUEUES,
        "sqs:GetQueueAttributes": RUN_QUEUES,
    },
    "Jobs": {**TABLE_KEY, "dynamodb:UpdateItem": {COORDINATION}},
    "DeadLetters": {
        "kms:Decrypt": {KEY},
        "kms:DescribeKey": {KEY},
        "dynamodb:GetItem": {JOBS},
        "dynamodb:DescribeStream": {"Storage/Executions.StreamArn"},
        "dynamodb:GetRecords": {"Storage/Executions.StreamArn"},
        "dynamodb:GetShardIterator": {"Storage/Executions.StreamArn"},
        "dynamodb:ListStreams": {"*"},
        "sqs:SendMessage": {"Queues/DeadLetters.Arn", "Queues/Unreadable.Arn"},
    },
    "Lifecycle": {
        "kms:Decrypt": {KEY},
        "kms:DescribeKey": {KEY},
        "dynamodb:GetItem": {JOBS, EXECUTIONS},
        "dynamodb:DescribeStream": STREAMS,
        "dynamodb:GetRecords": STREAMS,
        "dynamodb:GetShardIterator": STREAMS,
        "dynamodb:ListStreams": {"*"},
        "events:PutEvents": {"Events/Bus.Arn"},
        "sqs:SendMessage": {"Queues/Unreadable.Arn"},
    },
}


def _of_every_function(name: str) -> dict[str, set[str]]:
    return {
        "logs:CreateLogStream": {f"Functions/{name}/Logs.Arn"},
        "logs:PutLogEvents": {f"Functions/{name}/Logs.Arn"},
        "xray:PutTraceSegments": {"*"},
        "xray:PutTelemetryRecords": {"*"},
    }


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_may_do_what_it_does_and_no_more(template: Template, name: str) -> None:
    expected = FUNCTIONS[name] | _of_every_function(name)
    if not template.stage.own_schedule_group:
        expected = {
            action: {arn.replace("/Hints/Group/", "/default/") for arn in arns} for action, arns in expected.items()
        }

    expected = {
        action: {arn.replace("<Stage>", template.stage.name) for arn in arns} for action, arns in expected.items()
    }
    for action, alias in template.stage.action_aliases:
        if action in expected:
            expected = {**expected, alias: expected[action]}

    assert template.permissions(f"Functions/{name}/Role") == expected


def test_two_stages_of_an_account_share_no_resource() -> None:
    """But for what has no resources of its own."""
    reached = {
        stage: {arn for name in FUNCTIONS for arns in _permissions(stage, name).values() for arn in arns}
        for stage in ("dev", "prod")
    }
    named = {stage: {arn for arn in arns if arn.startswith("arn:")} for stage, arns in reached.items()}
    named = {
        stage: {arn for arn in arns if "/Hints/" not in arn and "StateMachine/" not in arn}
        for stage, arns in named.items()
    }

    assert {len(arns) for arns in named.values()} == {4}
    for one in named["dev"]:
        for other in named["prod"]:
            assert not fnmatchcase(one.removesuffix("*") + "x", other)
            assert not fnmatchcase(other.removesuffix("*") + "x", one)


def _permissions(stage: str, name: str) -> dict[str, set[str]]:
    return synthesized(stage).permissions(f"Functions/{name}/Role")


CUSTOMER_KEY = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"


@pytest.mark.slow
def test_customer_keys_are_used_for_secrets_and_queues_only() -> None:
    template = synthesize(replace(DEV, customer_keys=(CUSTOMER_KEY,)))

    users = {}
    for name in FUNCTIONS:
        for statement in template.statements(f"Functions/{name}/Role"):
            if CUSTOMER_KEY in str(statement["Resource"]):
                assert statement["Resource"] == CUSTOMER_KEY
                service = statement["Condition"]["StringEquals"]["kms:ViaService"]
                users[name, service] = statement["Action"]

    assert users == {
        (name, service): actions
        for name in ("Executor", "Steps")
        for service, actions in {
            "secretsmanager.<Region>.amazonaws.com": "kms:Decrypt",
            "sqs.<Region>.amazonaws.com": ["kms:Decrypt", "kms:GenerateDataKey"],
        }.items()
    }


def test_only_the_local_stage_calls_actions_by_other_names(template: Template) -> None:
    assert bool(template.stage.action_aliases) == (template.stage.name == "local")


def test_only_the_local_stage_shares_the_default_group(template: Template) -> None:
    assert template.stage.own_schedule_group == (template.stage.name != "local")
    assert bool(template.of_type("AWS::Scheduler::ScheduleGroup")) == template.stage.own_schedule_group


def test_users_code_writes_progress_and_no_other_row(template: Template) -> None:
    (statement,) = [each for each in template.statements("Functions/Jobs/Role") if "dynamodb:" in str(each["Action"])]

    assert statement["Action"] == "dynamodb:UpdateItem"
    assert statement["Condition"] == {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["progress"]}}


def test_scheduler_may_send_hints_and_call_the_sweep(template: Template) -> None:
    assert template.permissions("Hints/Role") == {"sqs:SendMessage": RUN_QUEUES}
    assert template.permissions("MinuteSweep/Role") == {
        "lambda:InvokeFunction": {"Functions/Sweep/Function.Arn"},
        "sqs:SendMessage": {"Queues/SweepDlq.Arn"},
    }


def test_there_are_no_other_roles_and_no_other_policies(template: Template) -> None:
    roles = template.of_type("AWS::IAM::Role")

    others = {"Hints/Role", "MinuteSweep/Role", "StateMachine/Role"}
    assert set(roles) == {*(f"Functions/{name}/Role" for name in FUNCTIONS), *others}
    for role in roles.values():
        assert not role.get("ManagedPolicyArns")
        assert not role.get("Policies")
    for policy in template.of_type("AWS::IAM::Policy").values():
        assert len(policy["Roles"]) == 1


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_only_lambda_takes_the_role_of_a_function(template: Template, name: str) -> None:
    (statement,) = template.properties(f"Functions/{name}/Role")["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


@pytest.mark.parametrize("path", ["Hints/Role", "MinuteSweep/Role"])
def test_only_schedules_of_its_group_take_the_role_of_a_schedule(template: Template, path: str) -> None:
    group = "Hints/Group" if path == "Hints/Role" and template.stage.own_schedule_group else "default"
    (statement,) = template.properties(path)["AssumeRolePolicyDocument"]["Statement"]

    assert statement == {
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {
                "aws:SourceAccount": "<AccountId>",
                "aws:SourceArn": f"arn:<Partition>:scheduler:<Region>:<AccountId>:schedule-group/{group}",
            }
        },
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
    }


def test_the_key_is_used_through_its_services_only(template: Template) -> None:
    through: dict[str, set[str]] = {}
    for name in FUNCTIONS:
        for statement in template.statements(f"Functions/{name}/Role"):
            if "kms:" in json.dumps(statement["Action"]):
                condition = statement["Condition"]["StringEquals"]
                through.setdefault(name, set()).add(condition["kms:ViaService"].split(".")[0])

    assert through == {
        "Api": {"dynamodb", "secretsmanager"},
        "Poll": {"dynamodb"},
        "Executor": {"dynamodb", "secretsmanager"},
        "Steps": {"dynamodb", "secretsmanager"},
        "Sweep": {"dynamodb"},
        "Jobs": {"dynamodb"},
        "DeadLetters": {"dynamodb"},
        "Lifecycle": {"dynamodb"},
    }


@pytest.mark.parametrize("name", ["Api", "Poll", "Executor", "Steps", "Sweep"])
def test_the_role_of_the_hints_goes_to_scheduler_only(template: Template, name: str) -> None:
    (statement,) = [each for each in template.statements(f"Functions/{name}/Role") if each["Action"] == "iam:PassRole"]

    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


@pytest.mark.slow
def test_a_grant_is_a_statement_of_its_own_that_can_be_taken_away() -> None:
    without = GRANTS | {"sweep": [grant for grant in GRANTS["sweep"] if grant.name != "MeasureQueues"]}

    template = synthesize(DEV, grants=without)

    names = [statement.get("Sid") for statement in template.statements("Functions/Sweep/Role")]
    expected = [grant.name for grant in GRANTS["sweep"] if grant.name != "MeasureQueues"]
    assert [name for name in names if name in {grant.name for grant in GRANTS["sweep"]}] == expected
    assert "sqs:GetQueueAttributes" not in template.permissions("Functions/Sweep/Role")


@pytest.mark.parametrize("module", sorted(GRANTS))
def test_names_of_grants_are_unique_in_a_function(module: str) -> None:
    names = [grant.name for grant in GRANTS[module]]

    assert len(names) == len(set(names))
    assert all(name.isalnum() for name in names), "IAM takes letters and digits only"

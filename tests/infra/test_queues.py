import json

import pytest

from tests.infra.synthesized import Template

RUN_QUEUES = {"high": "Queues/RunHigh", "normal": "Queues/RunNormal", "low": "Queues/RunLow"}
LAST_QUEUES = ("Queues/HintsDlq", "Queues/SweepDlq", "Queues/DeadLetters", "Queues/Unreadable")
DAY = 86_400


def test_there_are_no_other_queues(template: Template) -> None:
    assert set(template.of_type("AWS::SQS::Queue")) == {*RUN_QUEUES.values(), *LAST_QUEUES}


@pytest.mark.parametrize("priority", sorted(RUN_QUEUES))
def test_a_hint_is_hidden_for_six_timeouts_and_tried_five_times(template: Template, priority: str) -> None:
    queue = template.properties(RUN_QUEUES[priority])
    executor = template.properties("Functions/Executor/Function")

    assert executor["Timeout"] <= 90
    assert queue["VisibilityTimeout"] >= 6 * executor["Timeout"]
    assert queue["RedrivePolicy"]["maxReceiveCount"] >= 5
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == "Queues/HintsDlq.Arn"
    # Hints carry their own delay; one of the queue's would make every hint late.
    assert queue.get("DelaySeconds", 0) == 0


@pytest.mark.parametrize("priority", sorted(RUN_QUEUES))
def test_each_priority_is_consumed_apart_and_in_parts(template: Template, priority: str) -> None:
    mapping = template.properties(f"Functions/Take{priority.capitalize()}")

    assert mapping["EventSourceArn"] == f"{RUN_QUEUES[priority]}.Arn"
    assert mapping["FunctionName"] == "Functions/Executor/Function"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] <= 10
    assert mapping["MaximumBatchingWindowInSeconds"] == 0
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": getattr(template.stage.run_concurrency, priority)}


@pytest.mark.parametrize("path", [*RUN_QUEUES.values(), *LAST_QUEUES])
def test_no_other_queue_hands_over_to_ours(template: Template, path: str) -> None:
    policy = template.properties(path).get("RedriveAllowPolicy")

    assert policy == (None if path == "Queues/HintsDlq" else {"redrivePermission": "denyAll"})


@pytest.mark.parametrize("path", LAST_QUEUES)
def test_what_failed_is_kept_for_two_weeks(template: Template, path: str) -> None:
    assert template.properties(path)["MessageRetentionPeriod"] == 14 * DAY


@pytest.mark.parametrize("path", [*RUN_QUEUES.values(), *LAST_QUEUES])
def test_messages_are_encrypted(template: Template, path: str) -> None:
    assert template.properties(path)["SqsManagedSseEnabled"] is True


@pytest.mark.parametrize("path", [*RUN_QUEUES.values(), *LAST_QUEUES])
def test_queues_refuse_plain_http_where_the_stage_says_so(template: Template, path: str) -> None:
    denials = [
        statement
        for policy in template.of_type("AWS::SQS::QueuePolicy").values()
        if path in policy["Queues"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
    ]

    expected = {
        "Action": "sqs:*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Resource": f"{path}.Arn",
    }
    assert denials == ([expected] if template.stage.enforce_ssl else [])


def test_only_the_local_stage_takes_plain_http(template: Template) -> None:
    assert template.stage.enforce_ssl == (template.stage.name != "local")


def test_no_stream_has_more_than_two_readers(template: Template) -> None:
    readers: dict[str, int] = {}
    for mapping in template.of_type("AWS::Lambda::EventSourceMapping").values():
        if mapping["EventSourceArn"].endswith(".StreamArn"):
            readers[mapping["EventSourceArn"]] = readers.get(mapping["EventSourceArn"], 0) + 1

    assert readers
    assert max(readers.values()) <= 2


def test_runs_that_failed_for_good_are_announced_from_the_stream(template: Template) -> None:
    mapping = template.properties("Functions/TakeDeadRuns")

    assert mapping["EventSourceArn"] == "Storage/Executions.StreamArn"
    assert mapping["FunctionName"] == "Functions/DeadLetters/Function"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] > 0
    assert 0 < mapping["MaximumRecordAgeInSeconds"] < DAY
    assert mapping["DestinationConfig"] == {"OnFailure": {"Destination": "Queues/Unreadable.Arn"}}
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    (pattern,) = mapping["FilterCriteria"]["Filters"]
    assert '"NewImage": {"dl": {"S": [{"exists": true}]}}' in pattern["Pattern"]


WRITTEN = ["INSERT", "MODIFY"]
TOLD = {
    "TakeChanges": ("Jobs", [{"eventName": WRITTEN, "dynamodb": {"Keys": {"S": {"S": ["S"]}}}}]),
    "TakeCoordination": (
        "Coordination",
        [
            {"eventName": WRITTEN, "dynamodb": {"Keys": {"kind": {"S": [{"prefix": "circuit#"}]}}}},
            {"eventName": ["INSERT"], "dynamodb": {"Keys": {"kind": {"S": ["worker"]}}}},
        ],
    ),
}


@pytest.mark.parametrize("name", sorted(TOLD))
def test_what_changes_is_told_from_the_streams(template: Template, name: str) -> None:
    mapping = template.properties(f"Functions/{name}")
    table, filters = TOLD[name]

    assert mapping["EventSourceArn"] == f"Storage/{table}.StreamArn"
    assert mapping["FunctionName"] == "Functions/Lifecycle/Function"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] > 0
    assert 0 < mapping["MaximumRecordAgeInSeconds"] < DAY
    assert mapping["DestinationConfig"] == {"OnFailure": {"Destination": "Queues/Unreadable.Arn"}}
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping.get("ParallelizationFactor", 1) == 1
    assert [json.loads(each["Pattern"]) for each in mapping["FilterCriteria"]["Filters"]] == filters


def test_there_is_one_bus_and_nothing_listens_by_itself(template: Template) -> None:
    assert set(template.of_type("AWS::Events::EventBus")) == {"Events/Bus"}
    assert template.of_type("AWS::Events::Rule") == {}

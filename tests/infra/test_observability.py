from bench.costs import ALARMS, MACHINE_CLIENTS
from tests.infra.synthesized import Template


def _alarms(template: Template) -> dict[str, dict]:
    return {path.rsplit("/", 1)[1]: each for path, each in template.of_type("AWS::CloudWatch::Alarm").items()}


def test_what_loses_or_delays_jobs_raises_an_alarm(template: Template) -> None:
    assert set(_alarms(template)) == {
        "SweepIsSilent",
        "SweepFails",
        "VisitsFail",
        "RowsCannotBeRead",
        "HintsGetLost",
        "ExecutorFails",
        "StepsFails",
        "AttemptsAreLost",
        "AttemptsAreCutOff",
        "DeadLettersFails",
        "LifecycleFails",
        "EventsWait",
        "HighRunsWait",
        "NormalRunsWait",
        "LowRunsWait",
        "HintsDlqNotEmpty",
        "SweepDlqNotEmpty",
        "DeadLettersNotEmpty",
        "UnreadableNotEmpty",
        "ApiFails",
    }
    assert all(alarm["AlarmDescription"] for alarm in _alarms(template).values())


def test_a_sweep_that_does_not_run_at_all_is_noticed(template: Template) -> None:
    alarm = _alarms(template)["SweepIsSilent"]

    assert alarm["TreatMissingData"] == "breaching"
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": "Functions/Sweep/Function"}]


def test_a_hint_in_its_dead_letter_queue_is_noticed(template: Template) -> None:
    alarm = _alarms(template)["HintsDlqNotEmpty"]

    assert alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": "Queues/HintsDlq.QueueName"}]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 0)


def test_production_is_told(prod: Template, local: Template) -> None:
    (topic,) = prod.of_type("AWS::SNS::Topic")

    assert all(alarm["AlarmActions"] == [topic] for alarm in _alarms(prod).values())
    assert not local.of_type("AWS::SNS::Topic")
    (policy,) = prod.of_type("AWS::SNS::TopicPolicy").values()
    (statement,) = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_repairs_are_counted_in_the_stages_own_namespace(template: Template) -> None:
    for name, metric in (("VisitsFail", "FailedVisits"), ("HintsGetLost", "Repaired")):
        alarm = _alarms(template)[name]
        assert (alarm["Namespace"], alarm["MetricName"]) == (f"Gnomon/{template.stage.name}", metric)
        assert alarm["Dimensions"] == [{"Name": "service", "Value": "sweep"}]
        assert alarm["EvaluationPeriods"] == 3


def test_a_row_that_cannot_be_read_is_told_at_once(template: Template) -> None:
    """It is counted once only."""
    alarm = _alarms(template)["RowsCannotBeRead"]
    assert (alarm["Namespace"], alarm["MetricName"]) == (f"Gnomon/{template.stage.name}", "UnreadableRows")
    assert (alarm["Threshold"], alarm.get("EvaluationPeriods")) == (0, 1)


def test_a_hint_that_waits_for_its_delay_raises_no_alarm(template: Template) -> None:
    """A message's age counts from its sending; the longest delay is 900 s."""
    assert _alarms(template)["NormalRunsWait"]["Threshold"] == 1200


def test_what_stands_idle_is_counted_as_it_is(template: Template) -> None:
    assert len(_alarms(template)) == ALARMS
    clients = template.of_type("AWS::Cognito::UserPoolClient").values()
    machines = [one for one in clients if "client_credentials" in one.get("AllowedOAuthFlows", [])]
    assert len(machines) == len(template.stage.machine_clients)
    assert MACHINE_CLIENTS == 1, "the costs are those of a stage with one machine"

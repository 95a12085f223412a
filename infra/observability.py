"""Alarms: each says that jobs are late, lost or failing, and nothing else."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from functions.settings import FAILED_VISITS, REPAIRED, UNREADABLE_ROWS
from infra.nag import acknowledge
from infra.stage import Stage

_FIVE_MINUTES = Duration.minutes(5)
_REPAIRS = (
    ("VisitsFail", FAILED_VISITS, "The sweep cannot look after some jobs for fifteen minutes; its log names them."),
    (
        "HintsGetLost",
        REPAIRED,
        "The sweep has repaired jobs for fifteen minutes on end: hints are lost or late, or owners of runs die.",
    ),
)


class Observability(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        api_id: str,
        functions: Mapping[str, lambda_.IFunction],
        machine: sfn.IStateMachine,
        run_queues: Mapping[str, sqs.IQueue],
        last_queues: Mapping[str, sqs.IQueue],
    ) -> None:
        """`last_queues` hold what needs a person; anything in them raises an alarm named by the queue's key."""
        super().__init__(scope, construct_id)
        self._topic = self._alarm_topic() if stage.alarm_topic else None

        self._alarm(
            "SweepIsSilent",
            "The sweep has not run for five minutes: hints that are lost stay lost, jobs run late.",
            functions["sweep"].metric_invocations(period=_FIVE_MINUTES, statistic="Sum"),
            threshold=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )
        for name in ("sweep", "executor", "steps", "dead_letters", "lifecycle"):
            self._alarm(
                f"{_camel(name)}Fails",
                f"The function {name} raised errors for fifteen minutes; its log names them.",
                functions[name].metric_errors(period=_FIVE_MINUTES, statistic="Sum"),
                threshold=0,
                periods=3,
            )
        self._alarm(
            "AttemptsAreLost",
            "Executions of the state machine ended without recording what came of their attempts, for fifteen minutes "
            "on end: the sweep repeats them when their leases are over.",
            machine.metric_failed(period=_FIVE_MINUTES, statistic="Sum"),
            threshold=0,
            periods=3,
        )
        # Not on aborted ones: each cancel of a running attempt aborts its execution.
        self._alarm(
            "AttemptsAreCutOff",
            "Executions of the state machine timed out: their function died or hung past every limit. The sweep "
            "repeats their attempts when their leases are over.",
            machine.metric_timed_out(period=_FIVE_MINUTES, statistic="Sum"),
            threshold=0,
        )
        for alarm, metric, description in _REPAIRS:
            self._alarm(
                alarm,
                description,
                cloudwatch.Metric(
                    namespace=stage.metrics_namespace,
                    metric_name=metric,
                    dimensions_map={"service": "sweep"},
                    period=_FIVE_MINUTES,
                    statistic="Sum",
                ),
                threshold=0,
                periods=3,
            )
        self._alarm(
            "RowsCannotBeRead",
            "The sweep has set aside jobs whose row this release cannot read: the runbook says how to repair one.",
            cloudwatch.Metric(
                namespace=stage.metrics_namespace,
                metric_name=UNREADABLE_ROWS,
                dimensions_map={"service": "sweep"},
                period=_FIVE_MINUTES,
                statistic="Sum",
            ),
            threshold=0,
        )
        for priority, queue in run_queues.items():
            self._alarm(
                f"{_camel(priority)}RunsWait",
                f"Due runs of priority {priority} wait for over five minutes: raise its concurrency in infra/stage.py, "
                "or find what holds the executor.",
                queue.metric_approximate_age_of_oldest_message(period=Duration.minutes(1), statistic="Maximum"),
                # A message's age counts from its sending, and a hint is sent up to 15 minutes before it is due.
                threshold=900 + 300,
                periods=3,
            )
        for name, queue in last_queues.items():
            self._alarm(
                f"{_camel(name)}NotEmpty",
                f"The queue {name} holds messages: the runbook says what they are.",
                queue.metric_approximate_number_of_messages_visible(period=_FIVE_MINUTES, statistic="Maximum"),
                threshold=0,
            )
        self._alarm(
            "EventsWait",
            "Lifecycle events are over five minutes late: the bus refuses them, or the function lifecycle fails.",
            functions["lifecycle"].metric("IteratorAge", period=_FIVE_MINUTES, statistic="Maximum"),
            threshold=300_000,
        )
        self._alarm(
            "ApiFails",
            "The API answered 5xx more than five times in five minutes.",
            cloudwatch.Metric(
                namespace="AWS/ApiGateway",
                metric_name="5xx",
                dimensions_map={"ApiId": api_id},
                period=_FIVE_MINUTES,
                statistic="Sum",
            ),
            threshold=5,
        )

    def _alarm(
        self,
        construct_id: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        threshold: float,
        comparison: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        """Raise the alarm while the metric is beyond the threshold for so many periods."""
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_description=description,
            metric=metric,
            comparison_operator=comparison,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))

    def _alarm_topic(self) -> sns.Topic:
        topic = sns.Topic(self, "Topic", display_name="Gnomon alarms", enforce_ssl=True)
        acknowledge(topic, SNS2="Messages carry alarm names and numbers, nothing of a job.")
        return topic


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))

"""EventBridge Scheduler: one-time hints beyond the queues' delay, and the minute sweep."""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.stage import Stage


class HintSchedules(Construct):
    """The group of one-time hints, and the role that Scheduler sends them with."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage, run_queues: Sequence[sqs.IQueue]) -> None:
        super().__init__(scope, construct_id)
        self.group_name = self._own_group() if stage.own_schedule_group else "default"
        self.role = _scheduler_role(
            self, "Role", group=self.group_name, description="EventBridge Scheduler sends hints to the run queues"
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid="SendHints", actions=["sqs:SendMessage"], resources=[queue.queue_arn for queue in run_queues]
            )
        )

    def _own_group(self) -> str:
        return scheduler.CfnScheduleGroup(self, "Group", name=f"{Stack.of(self).stack_name}-hints").ref

    @property
    def schedules_arn(self) -> str:
        """Every schedule of the group, and of no other."""
        return Stack.of(self).format_arn(
            service="scheduler",
            resource="schedule",
            resource_name=f"{self.group_name}/*",
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )


class MinuteSweep(Construct):
    """Calls the sweep every minute. In the default group: where hints have their own, no function may delete it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.IFunction, dead_letters: sqs.IQueue
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = _scheduler_role(self, "Role", group="default", description="EventBridge Scheduler calls the sweep")
        self.role.add_to_policy(
            iam.PolicyStatement(sid="InvokeSweep", actions=["lambda:InvokeFunction"], resources=[function.function_arn])
        )
        self.role.add_to_policy(
            iam.PolicyStatement(sid="KeepUndelivered", actions=["sqs:SendMessage"], resources=[dead_letters.queue_arn])
        )
        schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            description="Looks after jobs whose hint was lost",
            schedule_expression="rate(1 minute)",
            schedule_expression_timezone="UTC",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=function.function_arn,
                role_arn=self.role.role_arn,
                input="{}",
                # The next minute brings the next sweep: repeating an old one gains nothing.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=60, maximum_retry_attempts=1
                ),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=dead_letters.queue_arn),
            ),
        )
        schedule.node.add_dependency(self.role)


def _scheduler_role(scope: Construct, construct_id: str, *, group: str, description: str) -> iam.Role:
    """A role that Scheduler takes for schedules of this group and of no other."""
    stack = Stack.of(scope)
    return iam.Role(
        scope,
        construct_id,
        description=description,
        assumed_by=iam.ServicePrincipal(
            "scheduler.amazonaws.com",
            conditions={
                "StringEquals": {
                    "aws:SourceAccount": stack.account,
                    "aws:SourceArn": stack.format_arn(
                        service="scheduler", resource="schedule-group", resource_name=group
                    ),
                }
            },
        ),
    )

"""One stack a stage. It composes the constructs of this package and decides nothing itself."""

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import ArnFormat, CliCredentialsStackSynthesizer, DefaultStackSynthesizer, Stack, Tags
from aws_cdk.aws_dynamodb import ITable
from constructs import Construct

from infra import outputs
from infra.events import LifecycleBus
from infra.grants import GRANTS, Grant
from infra.http_api import HttpApi
from infra.identity import Identity
from infra.lambda_functions import Functions
from infra.nag import acknowledge_wildcards
from infra.observability import Observability
from infra.queues import RUN_BATCH, Queues
from infra.scheduling import HintSchedules, MinuteSweep
from infra.stage import Stage
from infra.state_machine import StateMachine
from infra.storage import Storage

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


class GnomonStack(Stack):
    """`code` is the folder of the functions and their dependencies that `infra.bundle` made."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        code: Path,
        grants: Mapping[str, Sequence[Grant]] = GRANTS,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            description=f"Gnomon, a job scheduler (stage {stage.name})",
            termination_protection=stage.deletion_protection,
            synthesizer=CliCredentialsStackSynthesizer() if stage.cli_credentials else DefaultStackSynthesizer(),
        )
        for key, value in (*stage.tags, ("stage", stage.name)):
            Tags.of(self).add(key, value)

        self.storage = Storage(self, "Storage", stage=stage)
        self.queues = Queues(self, "Queues", stage=stage)
        self.identity = Identity(self, "Identity", stage=stage)
        self.hints = HintSchedules(self, "Hints", stage=stage, run_queues=list(self.queues.run_queues.values()))
        self.events = LifecycleBus(self, "Events")
        self.functions = Functions(self, "Functions", stage=stage, code=code)
        self.state_machine = StateMachine(self, "StateMachine", stage=stage, function=self.functions.steps.function)
        self.http_api = HttpApi(
            self,
            "HttpApi",
            stage=stage,
            function=self.functions.api.function,
            poll_function=self.functions.poll.function,
            issuer=self.identity.issuer,
            client_ids=[
                client.user_pool_client_id
                for client in (self.identity.user_client, *self.identity.machine_clients.values())
            ],
        )

        self.functions.configure(self._settings(stage))
        self._permit(stage, grants)
        self.functions.consume_runs({name: queue.queue_arn for name, queue in self.queues.run_queues.items()})
        self.functions.consume_dead_runs(
            stream_arn=self._stream(self.storage.executions), unreadable_arn=self.queues.unreadable.queue_arn
        )
        self.functions.consume_changes(
            jobs_arn=self._stream(self.storage.jobs),
            coordination_arn=self._stream(self.storage.coordination),
            unreadable_arn=self.queues.unreadable.queue_arn,
        )
        MinuteSweep(self, "MinuteSweep", function=self.functions.sweep.function, dead_letters=self.queues.sweep_dlq)
        Observability(
            self,
            "Observability",
            stage=stage,
            api_id=self.http_api.api.api_id,
            functions={name: each.function for name, each in self.functions.all.items()},
            machine=self.state_machine.machine,
            run_queues=self.queues.run_queues,
            last_queues={
                "hints_dlq": self.queues.hints_dlq,
                "sweep_dlq": self.queues.sweep_dlq,
                "dead_letters": self.queues.dead_letters,
                "unreadable": self.queues.unreadable,
            },
        )
        outputs.declare(self, self._outputs())

    @staticmethod
    def _stream(table: ITable) -> str:
        arn = table.table_stream_arn
        if arn is None:
            raise ValueError(f"the table {table.node.path} has no stream")
        return arn

    def _settings(self, stage: Stage) -> dict[str, object]:
        """Values of all settings in functions/settings.py, by name."""
        return {
            "stage": stage.name,
            "api_address": stage.api_address,
            "version": tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"],
            "jobs_table": self.storage.jobs.table_name,
            "executions_table": self.storage.executions.table_name,
            "idempotency_table": self.storage.idempotency.table_name,
            "coordination_table": self.storage.coordination.table_name,
            "retry_defaults": dataclasses.asdict(stage.retry_defaults),
            "circuit_rules": dataclasses.asdict(stage.circuit_rules) | {"shared": list(stage.circuit_rules.shared)},
            "retention_days": stage.history_retention_days,
            "run_queues": {
                name: {"url": queue.queue_url, "arn": queue.queue_arn} for name, queue in self.queues.run_queues.items()
            },
            "run_capacity": {
                name: RUN_BATCH * functions for name, functions in dataclasses.asdict(stage.run_concurrency).items()
            },
            "owner_shares": {name: share._asdict() for name, share in stage.owner_limits.shares._asdict().items()},
            "recurring_jobs": stage.owner_limits.recurring_jobs,
            "shortest_interval_seconds": stage.owner_limits.shortest_interval_seconds,
            "waiting_polls": stage.owner_limits.waiting_polls,
            "schedule_group": self.hints.group_name,
            "scheduler_role_arn": self.hints.role.role_arn,
            "state_machine": self.state_machine.machine.state_machine_arn,
            "jobs_function": self.functions.jobs.function.function_name,
            "webhook_keys": {"prefix": _webhook_prefix(stage), "kms_key": self.storage.key.key_arn},
            "dead_letter_queue_url": self.queues.dead_letters.queue_url,
            "event_bus": self.events.bus.event_bus_name,
            "unreadable_queue_url": self.queues.unreadable.queue_url,
            "target_rules": json.loads(json.dumps(dataclasses.asdict(stage.target_rules))),  # lists for its tuples
            "caller_limits": dataclasses.asdict(stage.caller_limits),
            "machine_teams": [[client, team] for client, team in self.identity.machine_teams.items()],
        }

    def _permit(self, stage: Stage, grants: Mapping[str, Sequence[Grant]]) -> None:
        resources = self._resources(stage)
        for module, each in self.functions.all.items():
            each.permit([grant.also_called(dict(stage.action_aliases)) for grant in grants[module]], resources)
        for each in (self.functions.api, self.functions.executor, self.functions.steps):
            acknowledge_wildcards(
                each.role,
                self._webhook_keys_arn(stage),
                reason="An owner's webhook key is made at its first use; these are those of this stage.",
            )
        for each in (self.functions.executor, self.functions.steps):
            acknowledge_wildcards(
                each.role,
                *(arn for arns in self._allowed(stage).values() for arn in arns),
                reason="Targets and secrets that jobs may name are those whose name begins with gnomon-<stage>-, and "
                "no others.",
            )
        acknowledge_wildcards(
            self.functions.api.role,
            self.state_machine.executions_arn,
            reason="Executions are made at run time, one for each attempt, of this state machine only.",
        )
        functions = self.functions
        for each in (functions.api, functions.poll, functions.executor, functions.steps, functions.sweep):
            acknowledge_wildcards(
                each.role,
                self.hints.schedules_arn,
                reason="Schedules are made and deleted at run time, one for each hint, in this group only.",
            )

    def _resources(self, stage: Stage) -> dict[str, list[str]]:
        """What the names in infra.grants stand for, as ARNs."""
        storage, queues = self.storage, self.queues
        return {
            "table:jobs": [storage.jobs.table_arn],
            "table:jobs/owner": [f"{storage.jobs.table_arn}/index/owner"],
            "table:jobs/attention": [f"{storage.jobs.table_arn}/index/attention"],
            "table:jobs/waiting": [f"{storage.jobs.table_arn}/index/waiting"],
            "table:executions": [storage.executions.table_arn],
            "table:idempotency": [storage.idempotency.table_arn],
            "table:coordination": [storage.coordination.table_arn],
            "stream:jobs": [self._stream(storage.jobs)],
            "stream:coordination": [self._stream(storage.coordination)],
            "stream:executions": [self._stream(storage.executions)],
            "key": [storage.key.key_arn],
            "customer_keys": list(stage.customer_keys),
            "secrets:webhook": [self._webhook_keys_arn(stage)],
            **{f"queue:{name}": [queue.queue_arn] for name, queue in queues.run_queues.items()},
            "queue:dead_letters": [queues.dead_letters.queue_arn],
            "queue:unreadable": [queues.unreadable.queue_arn],
            "bus": [self.events.bus.event_bus_arn],
            "schedules": [self.hints.schedules_arn],
            "role:hints": [self.hints.role.role_arn],
            "machine": [self.state_machine.machine.state_machine_arn],
            "machine/executions": [self.state_machine.executions_arn],
            "function:jobs": [self.functions.jobs.function.function_arn],
            **self._allowed(stage),
            "any": ["*"],
        }

    def _webhook_keys_arn(self, stage: Stage) -> str:
        return self.format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{_webhook_prefix(stage)}*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _allowed(self, stage: Stage) -> dict[str, list[str]]:
        """ARNs of the functions, queues and secrets that jobs of this stage may name."""
        name = f"{stage.name_prefix}*"

        def arn(service: str, resource: str) -> str:
            return self.format_arn(
                service=service, resource=resource, resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME
            )

        return {
            "allowed:functions": [arn("lambda", "function")],
            "allowed:queues": [self.format_arn(service="sqs", resource=name, arn_format=ArnFormat.NO_RESOURCE_NAME)],
            "allowed:secrets": [arn("secretsmanager", "secret")],
        }

    def _outputs(self) -> dict[str, str]:
        storage, queues, functions = self.storage, self.queues, self.functions
        return {
            "ApiId": self.http_api.api.api_id,
            "ApiUrl": self.http_api.api.api_endpoint,
            "UserPoolId": self.identity.pool.user_pool_id,
            "UserClientId": self.identity.user_client.user_pool_client_id,
            "MachineClientId": next((each.user_pool_client_id for each in self.identity.machine_clients.values()), "-"),
            "MachineClientIds": self.to_json_string(
                {name: client.user_pool_client_id for name, client in self.identity.machine_clients.items()}
            ),
            "TokenUrl": f"{self.identity.domain.base_url()}/oauth2/token",
            "JobsTable": storage.jobs.table_name,
            "ExecutionsTable": storage.executions.table_name,
            "IdempotencyTable": storage.idempotency.table_name,
            "CoordinationTable": storage.coordination.table_name,
            "RunQueueHighUrl": queues.high.queue_url,
            "RunQueueNormalUrl": queues.normal.queue_url,
            "RunQueueLowUrl": queues.low.queue_url,
            "HintsDlqUrl": queues.hints_dlq.queue_url,
            "DeadLetterQueueUrl": queues.dead_letters.queue_url,
            "UnreadableQueueUrl": queues.unreadable.queue_url,
            "EventBusName": self.events.bus.event_bus_name,
            "ScheduleGroup": self.hints.group_name,
            "StateMachineArn": self.state_machine.machine.state_machine_arn,
            "ApiFunction": functions.api.function.function_name,
            "PollFunction": functions.poll.function.function_name,
            "ExecutorFunction": functions.executor.function.function_name,
            "StepsFunction": functions.steps.function.function_name,
            "SweepFunction": functions.sweep.function.function_name,
            "JobsFunction": functions.jobs.function.function_name,
            "DeadLettersFunction": functions.dead_letters.function.function_name,
            "LifecycleFunction": functions.lifecycle.function.function_name,
        }


def _webhook_prefix(stage: Stage) -> str:
    """What names of owners' webhook keys begin with. What jobs may name begins with `gnomon-`."""
    return f"gnomon/{stage.name}/webhook/"

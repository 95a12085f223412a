"""What is configured for a type holds for its jobs where they say nothing, and is remembered for a few seconds."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from functions.adapters.remembered_job_types import REMEMBERED_SECONDS, RememberedJobTypes
from functions.defaults import stage_defaults
from functions.domain.circuit import CircuitPolicy
from functions.domain.definition import Definition
from functions.domain.errors import CorruptDefinitionError
from functions.domain.job_type import StoredTypeConfig, TypeConfig
from functions.domain.retry import BackoffStrategy, RetryPolicy
from functions.settings import CircuitRules, RetryDefaults
from tests.factories import JOB_ID, NOW, make_document
from tests.fakes import FakeClock, InMemoryRetryConfigs

STAGE = TypeConfig(retry={"maxRetries": 1, "jitter": 0.0, "maxDelaySeconds": 30})


class TestInheritance:
    def read(self, **config: object) -> Definition:
        return Definition.read(make_document(retryConfig=config or None), "{}", job_id=JOB_ID, created_at=NOW)

    def test_field_by_field_the_job_over_its_type_over_the_stage(self) -> None:
        kind = TypeConfig.read({"maxRetries": 9, "backoffStrategy": "fixed", "retryableErrors": ["TIMEOUT"]})

        policy = self.read(maxRetries=3, retryableErrors=[]).under(kind.over(STAGE)).retry

        assert (policy.max_retries, policy.retryable_errors) == (3, frozenset())  # the job's, though it is the default
        assert policy.backoff_strategy is BackoffStrategy.FIXED
        assert (policy.jitter, policy.max_delay_seconds) == (0.0, 30)
        assert (policy.multiplier, policy.retry_window_seconds) == (2.0, None)

    def test_the_document_stays_what_the_caller_wrote(self) -> None:
        read = self.read(maxRetries=3)
        assert read.under(TypeConfig.read({"jitter": 0})).document == read.document

    def test_a_definition_without_its_type_s_word_has_no_policy(self) -> None:
        with pytest.raises(RuntimeError, match="ruled"):
            _ = self.read().retry

    def test_another_configuration_takes_the_place_of_the_first(self) -> None:
        first = self.read().under(TypeConfig.read({"maxRetries": 9, "jitter": 0}))
        assert first.under(TypeConfig.read({"maxRetries": 8})).retry == RetryPolicy.read({"maxRetries": 8})

    def test_parts_of_a_type(self) -> None:
        kind = TypeConfig.read({"circuitBreaker": {"openSeconds": 60}, "maxConcurrency": 20, "maxRetries": 1})
        assert (kind.circuit_breaker, kind.max_concurrency) == ({"openSeconds": 60}, 20)
        assert kind.retry == {"maxRetries": 1}

    def test_a_type_over_defaults_of_each_part(self) -> None:
        circuit = CircuitPolicy(open_seconds=1, failure_threshold=2)
        below = TypeConfig(stage_circuit=circuit, shared_circuits=frozenset({"handler:echo"}), max_concurrency=5)
        assert TypeConfig().over(below) == below
        above = TypeConfig(circuit_breaker={"openSeconds": 9}, max_concurrency=6).over(below)
        assert (above.circuit_for("handler:other"), above.max_concurrency) == (replace(circuit, open_seconds=9), 6)
        assert above.circuit_for("handler:echo") == replace(circuit, shared=True)

    @pytest.mark.parametrize(
        "document",
        [
            {"maxRetries": "many"},
            {"backoffStrategy": "odd"},
            {"circuitBreaker": 5},
            {"circuitBreaker": {"openSeconds": "long"}},
            {"maxConcurrency": []},
        ],
    )
    def test_one_that_cannot_be_read(self, document: dict[str, object]) -> None:
        with pytest.raises(CorruptDefinitionError):
            TypeConfig.read(document)

    def test_the_stage_s_defaults_are_those_of_the_contract(self) -> None:
        defaults = stage_defaults(RetryDefaults(), CircuitRules())
        assert RetryPolicy.read(defaults.retry) == RetryPolicy.read({}) == RetryPolicy()
        assert (defaults.stage_circuit, defaults.circuit_breaker) == (CircuitPolicy(), None)

    def test_what_the_stage_says_of_circuits(self) -> None:
        rules = CircuitRules(failure_threshold=2, open_seconds=3, success_threshold=4, shared=("handler:echo",))
        defaults = stage_defaults(RetryDefaults(), rules)
        assert defaults.circuit_for("handler:other") == CircuitPolicy(
            failure_threshold=2, open_seconds=3, success_threshold=4
        )
        assert defaults.circuit_for("handler:echo").shared


class Configs(InMemoryRetryConfigs):
    """Counts reads; raises `trouble` while there is some."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.trouble: Exception | None = None

    def get(self, job_type: str) -> StoredTypeConfig | None:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return super().get(job_type)

    def configure(self, job_type: str = "billing", **document: object) -> None:
        self.put(StoredTypeConfig(job_type=job_type, document=document, updated_at=NOW, updated_by="root"))


THROTTLED = ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": ""}}, "GetItem")
TROUBLES = [THROTTLED, EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), CorruptDefinitionError()]


class TestMemory:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def configs(self) -> Configs:
        return Configs()

    @pytest.fixture
    def types(self, configs: Configs, clock: FakeClock) -> RememberedJobTypes:
        return RememberedJobTypes(configs, clock=clock, defaults=STAGE)

    def test_no_type_costs_nothing(self, types: RememberedJobTypes, configs: Configs) -> None:
        assert types.get(None) == STAGE
        assert configs.reads == 0

    def test_a_type_without_a_configuration_follows_the_stage_and_is_read_once(
        self, types: RememberedJobTypes, configs: Configs
    ) -> None:
        assert [types.get("billing"), types.get("billing")] == [STAGE, STAGE]
        assert configs.reads == 1

    def test_a_change_counts_once_the_memory_is_over(
        self, types: RememberedJobTypes, configs: Configs, clock: FakeClock
    ) -> None:
        configs.configure(maxRetries=9)
        assert types.get("billing").retry == {**STAGE.retry, "maxRetries": 9}
        configs.configure(maxRetries=8)
        clock.advance(REMEMBERED_SECONDS - 0.1)
        assert types.get("billing").retry["maxRetries"] == 9
        clock.advance(0.1)
        assert types.get("billing").retry["maxRetries"] == 8
        assert configs.reads == 2

    @pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
    def test_what_was_known_last_serves_while_nothing_can_be_read(
        self, types: RememberedJobTypes, configs: Configs, clock: FakeClock, trouble: Exception
    ) -> None:
        configs.configure(maxRetries=9)
        types.get("billing")
        configs.trouble = trouble
        clock.advance(3600)
        assert types.get("billing").retry["maxRetries"] == 9
        configs.trouble = None
        configs.configure(maxRetries=8)
        clock.advance(REMEMBERED_SECONDS)
        assert types.get("billing").retry["maxRetries"] == 8

    @pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
    def test_the_stage_serves_where_nothing_is_known_and_the_log_says_so_once(
        self,
        types: RememberedJobTypes,
        configs: Configs,
        clock: FakeClock,
        trouble: Exception,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        configs.trouble = trouble
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert types.get("billing") == STAGE
                clock.advance(REMEMBERED_SECONDS)
        assert [record.getMessage() for record in caplog.records] == [
            "configuration of the job type billing cannot be read"
        ]
        assert configs.reads == 3

    def test_a_fault_of_ours_is_not_hidden(self, types: RememberedJobTypes, configs: Configs) -> None:
        configs.trouble = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            types.get("billing")

    def test_the_memory_is_bounded(self, types: RememberedJobTypes, configs: Configs) -> None:
        for number in range(1_001):
            types.get(f"type-{number}")
        types.get("type-1000")
        assert configs.reads == 1_001

    def test_a_second_trouble_is_told_again(
        self, types: RememberedJobTypes, configs: Configs, clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        for trouble in (THROTTLED, None, THROTTLED, THROTTLED):
            configs.trouble = trouble
            types.get("billing")
            clock.advance(REMEMBERED_SECONDS)
        assert len(caplog.records) == 2

    def test_what_fails_is_remembered_no_longer_than_anything_else(
        self,
        types: RememberedJobTypes,
        configs: Configs,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("functions.adapters.remembered_job_types.REMEMBERED_TYPES", 3)
        configs.trouble = CorruptDefinitionError()
        for number in [0, 1, 2, 3, 0]:
            types.get(f"type-{number}")
        assert len(caplog.records) == 5

"""What the model of docs/scaling.md takes from the stack is what is deployed."""

from __future__ import annotations

from bench.scaling import work
from tests.infra.synthesized import Template


def test_memory_and_batches(prod: Template) -> None:
    functions = prod.of_type("AWS::Lambda::Function").values()
    memory = {each["Handler"]: each["MemorySize"] for each in functions}
    assert memory["functions.handlers.api.handler"] == work.API_MB
    assert memory["functions.handlers.executor.handler"] == work.EXECUTOR_MB
    sources = prod.of_type("AWS::Lambda::EventSourceMapping").values()
    queues = [each for each in sources if "ScalingConfig" in each]
    assert {each["BatchSize"] for each in queues} == {work.HINTS_A_BATCH}
    assert not any("ProvisionedPollerConfig" in each for each in queues)

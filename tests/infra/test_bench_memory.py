"""The benchmark's price of a function's second is that of the memory it is given."""

from __future__ import annotations

from bench.function_time import MEMORY_MB
from infra.lambda_functions import _API, _EXECUTOR, _SWEEP


def test_the_benchmark_knows_the_memory_of_the_functions() -> None:
    assert {spec.module: spec.memory_mb for spec in (_API, _EXECUTOR, _SWEEP)} == MEMORY_MB

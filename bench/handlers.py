"""The handlers as Lambda starts them: a fresh interpreter, the module's import, what the first event makes.

`init` is what each handler makes before it looks at its first event; the environment is one that its settings read.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from functions.settings import CircuitRules, RetryDefaults, TargetRules

ROOT = Path(__file__).parents[1]

INIT: Mapping[str, tuple[str, ...]] = {
    "api": ("telemetry.logger()", "bootstrap.api()"),
    "poll": ("telemetry.logger()", "bootstrap.poll()"),
    "executor": ("telemetry.logger()", "telemetry.metrics()", "bootstrap.executor()"),
    "steps": ("telemetry.logger()", "telemetry.metrics()", "bootstrap.steps()"),
    "sweep": ("telemetry.logger()", "telemetry.metrics()", "bootstrap.sweeper()"),
    "dead_letters": ("telemetry.logger()", "telemetry.metrics()", "bootstrap.dead_letters()"),
    "lifecycle": ("telemetry.logger()", "telemetry.metrics()", "bootstrap.lifecycle()"),
    "jobs": (),
}


def start(handler: str) -> str:
    """Python lines that import a handler and do its init."""
    made = [f"functions.{call}" for call in INIT[handler]]
    return "\n".join([f"import functions.handlers.{handler}", *made])


def settings_environment() -> dict[str, str]:
    """Variables that the settings of every function read; nothing in them exists."""
    queue = {"url": "https://sqs.eu-central-1.amazonaws.com/123456789012/run", "arn": "arn:aws:sqs:::run"}
    return {
        "STAGE": "bench",
        "VERSION": "0.0.0",
        "API_ADDRESS": "https://{domain}",
        "JOBS_TABLE": "jobs",
        "EXECUTIONS_TABLE": "executions",
        "IDEMPOTENCY_TABLE": "idempotency",
        "COORDINATION_TABLE": "coordination",
        "RETRY_DEFAULTS": json.dumps(dataclasses.asdict(RetryDefaults())),
        "CIRCUIT_RULES": json.dumps(dataclasses.asdict(CircuitRules())),
        "RETENTION_DAYS": "30",
        "RUN_QUEUES": json.dumps(dict.fromkeys(("high", "normal", "low"), queue)),
        "RUN_CAPACITY": json.dumps(dict.fromkeys(("high", "normal", "low"), 100)),
        "SCHEDULE_GROUP": "hints",
        "SCHEDULER_ROLE_ARN": "arn:aws:iam::123456789012:role/hints",
        "OWNER_SHARES": json.dumps(
            {name: {"processes": 50, "starts_per_minute": 100_000} for name in ("high", "normal", "low")}
        ),
        "RECURRING_JOBS": "1000",
        "SHORTEST_INTERVAL_SECONDS": "1",
        "WAITING_POLLS": "10",
        "JOBS_FUNCTION": "jobs",
        "STATE_MACHINE": "arn:aws:states:eu-central-1:123456789012:stateMachine:attempts",
        "WEBHOOK_KEYS": json.dumps({"prefix": "gnomon/test/webhook/", "kms_key": "alias/aws/secretsmanager"}),
        "DEAD_LETTER_QUEUE_URL": queue["url"],
        "UNREADABLE_QUEUE_URL": queue["url"],
        "EVENT_BUS": "events",
        "TARGET_RULES": json.dumps(dataclasses.asdict(TargetRules())),
        "MACHINE_TEAMS": "[]",
        "CALLER_LIMITS": json.dumps(
            {"writes_per_minute": 100, "reads_per_minute": 500, "work_per_minute": 6000, "creations_per_day": 1000}
        ),
        "POWERTOOLS_SERVICE_NAME": "bench",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


def in_a_fresh_interpreter(code: str, *options: str, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python lines in an interpreter of their own, nothing of this process' environment in it but PATH.

    `path` comes first in its module search path, this project after it. Raises CalledProcessError.
    """
    environment = settings_environment() | {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(path), str(ROOT)))),
    }
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment,
        cwd=path,
        check=True,
        capture_output=True,
        text=True,
    )


_MODULES = """
import sys
before = set(sys.modules)
{start}
after = [(name, getattr(module, "__file__", None)) for name, module in sys.modules.items() if name not in before]
import json
print(json.dumps(after))
"""


def modules(code: str, *, path: Path = ROOT) -> dict[str, str | None]:
    """The modules that these Python lines load, in order, with their files."""
    loaded: dict[str, Any] = dict(json.loads(in_a_fresh_interpreter(_MODULES.format(start=code), path=path).stdout))
    return loaded


def top_level(name: str) -> str:
    return name.partition(".")[0]


def is_standard(name: str) -> bool:
    """Whether a module belongs to Python itself."""
    return top_level(name) in sys.stdlib_module_names or name.startswith(("_sysconfigdata_", "__mp_main__"))


def is_third_party(name: str) -> bool:
    return not is_standard(name) and top_level(name) != "functions"

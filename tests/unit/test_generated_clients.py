"""Clients that others generate from docs/openapi.json: they compile strictly, take good bodies, and refuse bad ones.

The generators are installed when these tests first run (gnomon/local/toolchain.py).
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from functions.api.openapi_operations import JOB_EXAMPLE, TYPE_EXAMPLE
from functions.api.openapi_workflows import WORKFLOW_EXAMPLE
from gnomon.local import toolchain
from gnomon.local.places import LOCAL, ROOT, locked
from tests.driver import Driver
from tests.fakes import World
from tests.gateway import Gateway
from tests.served import served

pytestmark = pytest.mark.timeout(420)

DOCUMENT = ROOT / "docs" / "openapi.json"
JOB_ID = "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"
HTTP = {"type": "http", "url": "https://example.com", "headers": {"X-Team": "a", "X-Key": {"secretArn": "arn"}}}
DAILY = {"type": "cron", "expression": "@daily"}
JOB = {"name": "a", "schedule": DAILY, "target": HTTP}


class Body(NamedTuple):
    schema: str
    value: dict[str, Any]


GOOD = [
    Body("JobBody", JOB_EXAMPLE),
    *(
        Body("JobBody", {**JOB, "target": target})
        for target in (
            HTTP,
            {"type": "http", "url": "https://example.com", "method": "PUT"},
            {"type": "handler", "name": "echo"},
            {"type": "lambda", "functionName": "gnomon-dev-team-a--x"},
            {"type": "sqs", "queueUrl": "https://sqs/1/gnomon-dev-team-a--q"},
            {"type": "worker", "queue": "reports"},
        )
    ),
    *(
        Body("JobBody", {**JOB, "schedule": schedule})
        for schedule in (
            {"type": "interval", "everySeconds": 5},
            {"type": "once", "at": "2027-01-31T16:00:00", "timezone": "Europe/Berlin"},
            {"type": "cron", "expression": "0 9 * * MON", "timezone": "Europe/Berlin"},
        )
    ),
    Body("JobBody", {"name": "b", "target": HTTP, "dependsOn": [{"jobId": JOB_ID, "on": "failure"}]}),
    Body("JobBody", {**JOB, "payload": [1, None, {"a": "b"}], "retryConfig": {"maxRetries": 1}, "priority": "high"}),
    Body("JobBody", {**JOB, "approval": {"role": "ops", "timeoutSeconds": 60}, "circuitBreaker": {}, "tags": ["a"]}),
    Body("JobPatch", {"tags": ["a"], "priority": None, "payload": None, "retryConfig": {"maxRetries": None}}),
    Body("JobPatch", {"target": {"url": "https://example.com", "headers": {"X-Team": None}}}),
    Body("JobPatch", {"target": {"type": "handler", "name": "echo", "url": None}, "schedule": {"timezone": "UTC"}}),
    Body("BulkBody", {"items": [JOB_EXAMPLE]}),
    Body("TypeConfigBody", TYPE_EXAMPLE),
    Body("WorkflowBody", WORKFLOW_EXAMPLE),
    Body("WorkflowBody", {"name": "w", "jobs": {"a": {"target": HTTP, "dependsOn": [{"jobId": JOB_ID}]}}}),
    Body("RetryBody", {"delaySeconds": 5}),
    Body("RetryBody", {}),
    Body("DecisionBody", {"comment": "fine"}),
    Body("NoFields", {}),
    Body("WorkerBody", {"queues": ["reports"]}),
    Body("PollBody", {"pollId": "1", "waitSeconds": 20}),
    Body("HeartbeatBody", {"executions": [{"id": "x", "fence": 1}]}),
    Body("ProgressBody", {"workerId": "w", "fence": 1, "percent": 50.5}),
    Body("CompleteBody", {"token": "t", "result": {"rows": 3}}),
    Body("FailBody", {"token": "t", "error": {"code": "HTTP_503"}}),
]
BAD = [
    Body("JobBody", {"bogus": 1}),
    Body("JobBody", {**JOB, "bogus": 1}),
    Body("JobBody", {"schedule": DAILY, "target": HTTP}),
    Body("JobBody", {"name": "a", "schedule": DAILY}),
    Body("JobBody", {**JOB, "name": 1}),
    Body("JobBody", {**JOB, "name": None}),
    Body("JobBody", {**JOB, "priority": "urgent"}),
    Body("JobBody", {**JOB, "timeoutSeconds": "60"}),
    Body("JobBody", {**JOB, "retryConfig": {"maxRetry": 1}}),
    Body("JobBody", {**JOB, "retryConfig": {"backoffStrategy": "slow"}}),
    Body("JobBody", {**JOB, "schedule": {"type": "cron"}}),
    Body("JobBody", {**JOB, "schedule": {"type": "cron", "everySeconds": 5}}),
    Body("JobBody", {**JOB, "schedule": {"type": "daily"}}),
    Body("JobBody", {**JOB, "target": {"type": "worker", "url": "https://example.com"}}),
    Body("JobBody", {**JOB, "target": {"type": "http", "queue": "reports"}}),
    Body("JobBody", {**JOB, "target": {"type": "carrier pigeon"}}),
    Body("JobBody", {**JOB, "target": {**HTTP, "headers": {"X-Team": 1}}}),
    Body("JobBody", {**JOB, "dependsOn": [{"job": "extract"}]}),
    Body("JobPatch", {"bogus": 1}),
    Body("JobPatch", {"priority": "urgent"}),
    Body("JobPatch", {"target": {"type": "carrier pigeon"}}),
    Body("JobPatch", {"retryConfig": {"maxRetries": "1"}}),
    Body("BulkBody", {"items": [{"bogus": 1}]}),
    Body("BulkBody", {}),
    Body("TypeConfigBody", {"maxRetries": "8"}),
    Body("WorkflowBody", {"name": "w", "jobs": {"a": {"name": "a"}}}),
    Body("WorkflowBody", {"name": "w", "jobs": {"a": {"target": HTTP, "dependsOn": [{"on": "success"}]}}}),
    Body("WorkflowBody", {"name": "w"}),
    Body("RetryBody", {"delaySeconds": "5"}),
    Body("NoFields", {"force": True}),
    Body("WorkerBody", {"queue": "reports"}),
    Body("HeartbeatBody", {"executions": [{"id": "x"}]}),
    Body("FailBody", {"token": "t"}),
    Body("FailBody", {"token": "t", "error": "HTTP_503"}),
]
PYTHON = {
    "worker target": 'JobBody(name="a", target=WorkerTarget(type_="worker", queue="q"), schedule=DAILY)',
    "without a schedule": 'JobBody(name="a", target=HttpTarget(type_="http", url="u"), depends_on=[])',
    "enumeration": 'JobBody(name="a", target=HTTP, schedule=DAILY, priority=JobBodyPriority.HIGH)',
    "patch": "JobPatch(tags=None, target=TargetPatch(url='u', queue=None))",
    "edge": 'WorkflowJob(target=HTTP, depends_on=[MemberDependency(job="a"), DependencyBody(job_id="b")])',
    "report": 'FailBody(token="t", error=ReportedError(code="X"))',
}
BAD_PYTHON = {
    "unknown field": "JobBody(bogus=1)",
    "missing target": 'JobBody(name="a")',
    "missing name": "JobBody(target=HTTP, schedule=DAILY)",
    "another enumeration": 'JobBody(name="a", target=HTTP, schedule=DAILY, priority="urgent")',
    "field of another target": 'WorkerTarget(type_="worker", url="u")',
    "type of another target": 'HttpTarget(type_="worker", url="u")',
    "schedule as target": 'JobBody(name="a", target=DAILY)',
    "text as number": 'JobBody(name="a", target=HTTP, timeout_seconds="60")',
    "null": "JobBody(name=None, target=HTTP)",
    "edge to nothing": 'WorkflowJob(target=HTTP, depends_on=["a"])',
    "report without error": 'FailBody(token="t")',
    "unknown field of a patch": "JobPatch(bogus=1)",
}
ANY_JSON = {"payload", "result"}
"""Fields that are any JSON, so that no type says more."""
EMPTY_ANSWERS = {"get_job", "restore_subject", "delete_job", "delete_retry_config"}
"""Operations one of whose answers has no body (204, 304): the generator types that one Any."""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = toolchain.environment() | {"COLUMNS": "200", "MYPY_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def must_succeed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def generators() -> None:
    with locked("setup"):
        toolchain.set_up(toolchain.client_generators(), LOCAL / "stamps")


@pytest.fixture(scope="module")
def typescript(generators: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typescript")
    command = toolchain.TYPESCRIPT / "node_modules" / ".bin" / "openapi-typescript"
    must_succeed(run(command, DOCUMENT, "--output", "api.ts", folder=folder))
    return folder


@pytest.fixture(scope="module")
def python(generators: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    (folder / "config.json").write_text('{"post_hooks": []}')
    options = ("--meta", "none", "--output-path", "client", "--config", "config.json", "--fail-on-warning")
    command = toolchain.GENERATORS / "bin" / "openapi-python-client"
    must_succeed(run(command, "generate", "--path", DOCUMENT, *options, folder=folder))
    return folder


def compiled(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "bodies.ts").write_text(f'import type {{ components }} from "./api";\n{source}')
    tsc = toolchain.TYPESCRIPT / "node_modules" / ".bin" / "tsc"
    return run(tsc, "--noEmit", "--strict", "--noUncheckedIndexedAccess", "bodies.ts", folder=folder)


def typed(folder: Path, *modules: str) -> subprocess.CompletedProcess[str]:
    mypy = toolchain.DEVELOPMENT / "bin" / "mypy"
    python = toolchain.GENERATORS / "bin" / "python"
    options = ("--strict", "--python-executable", python, "--config-file", os.devnull, "--no-color-output")
    return run(mypy, *options, *modules, folder=folder)


def test_the_document_is_valid(generators: None) -> None:
    must_succeed(run(toolchain.GENERATORS / "bin" / "openapi-spec-validator", DOCUMENT, folder=ROOT))


def test_typescript_takes_good_bodies_and_no_others(typescript: Path) -> None:
    """A line that is expected to fail and does not is an error itself."""
    lines = []
    for number, (schema, value) in enumerate(GOOD):
        lines.append(f'export const good{number}: components["schemas"]["{schema}"] = {json.dumps(value)};')
    for number, (schema, value) in enumerate(BAD):
        lines.append(f"// @ts-expect-error {json.dumps(value)}")
        lines.append(f'export const bad{number}: components["schemas"]["{schema}"] = {json.dumps(value)};')

    must_succeed(compiled(typescript, "\n".join(lines)))


def test_typescript_knows_every_field(typescript: Path) -> None:
    text = (typescript / "api.ts").read_text()

    unknown = {line.strip() for line in text.splitlines() if "unknown" in line and "*" not in line}

    headers = {"[name: string]: unknown;"}
    description = {"[key: string]: unknown;"}
    assert unknown == headers | description | {f"{name}{mark}: unknown;" for name in ANY_JSON for mark in ("", "?")}
    assert text.count("[key: string]: unknown;") == 1  # `info` of the API's own description
    assert re.findall(r"(\w+): Record<string, never>;", text) == ["NoFields"]


def test_python_takes_good_bodies_and_no_others(python: Path) -> None:
    head = [
        "from client.models import *",
        'HTTP = HttpTarget(type_="http", url="https://example.com")',
        'DAILY = CronSchedule(type_="cron", expression="@daily")',
    ]
    lines = [*head, *PYTHON.values(), *BAD_PYTHON.values()]
    (python / "bodies.py").write_text("\n".join(lines))

    said = typed(python, "client", "bodies.py").stdout

    refused = {int(number) for number in re.findall(r"^bodies\.py:(\d+): error", said, re.MULTILINE)}
    assert {lines[number - 1] for number in refused} == set(BAD_PYTHON.values()), said
    assert not re.findall(r"^client/.*: error", said, re.MULTILINE), said


def test_python_knows_every_field_and_answer(python: Path) -> None:
    fields = {
        f"{path.stem}.{field.target.id}"
        for path in (python / "client" / "models").glob("*.py")
        for cls in ast.parse(path.read_text()).body
        if isinstance(cls, ast.ClassDef)
        for field in cls.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and says_any(field.annotation)
    }
    vague = {name for name in fields if name.rpartition(".")[2] not in {*ANY_JSON, "additional_properties"}}
    assert vague == set()
    answers = {
        path.stem
        for path in (python / "client" / "api").rglob("*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef) and function.name == "sync_detailed"
        if function.returns is not None and says_any(function.returns)
    }
    assert answers == EMPTY_ANSWERS


def says_any(annotation: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation))


STORY = """
import json, sys
from client import AuthenticatedClient
from client.api.executions import list_job_history
from client.api.jobs import create_job, get_job, list_jobs, patch_job
from client.models import *

client = AuthenticatedClient(base_url=sys.argv[1], token="t")
body = JobBody(
    name="a",
    schedule=CronSchedule(type_="cron", expression="@daily"),
    target=HttpTarget(type_="http", url="http://127.0.0.1:9/x"),
    payload={"n": 1.5},
)
made = create_job.sync(client=client, body=body)
assert isinstance(made, Job), made
assert made.to_dict()["payload"] == {"n": 1.5}
assert isinstance(made.retry_config, type(body.retry_config))  # what was left out stays out
read = get_job.sync(made.id, client=client)
assert isinstance(read, Job) and isinstance(read.target, HttpTarget), read
changed = patch_job.sync(made.id, client=client, body=JobPatch(tags=["x"], target=TargetPatch(method=None)))
assert isinstance(changed, Job) and changed.tags == ["x"], changed
listed = list_jobs.sync(client=client, status=JobStatus.SCHEDULED)
assert isinstance(listed, JobList) and [job.id for job in listed.data] == [made.id], listed
history = list_job_history.sync(made.id, client=client)
assert isinstance(history, History) and history.data == [], history
refused = create_job.sync(client=client, body=JobBody(name="", target=body.target, schedule=body.schedule))
assert isinstance(refused, ErrorAnswer) and refused.error.code == "VALIDATION_ERROR", refused
print("done")
"""


@pytest.mark.usefixtures("loopback")
def test_python_s_client_speaks_with_the_api(python: Path) -> None:
    (python / "story.py").write_text(STORY)
    with served(Gateway(Driver(World()))) as url:
        said = must_succeed(run(toolchain.GENERATORS / "bin" / "python", "story.py", url, folder=python))
    assert said == "done\n"


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_no_schema_is_named_like_a_field_of_its_own() -> None:
    schemas = json.loads(DOCUMENT.read_text())["components"]["schemas"]
    clashes = {name for name, schema in schemas.items() if snake(name) in map(snake, schema.get("properties", ()))}
    assert clashes == set()


def test_every_object_of_the_document_has_a_name() -> None:
    """Generators call one that has none after the place where they find it first."""
    whole = json.loads(DOCUMENT.read_text())
    schemas = whole["components"]["schemas"]
    assert [path for name, schema in schemas.items() for path in anonymous(schema, name, top=True)] == []
    assert [path for name, methods in whole["paths"].items() for path in anonymous(methods, name, top=False)] == []


def anonymous(node: Any, path: str, *, top: bool) -> list[str]:
    if isinstance(node, list):
        return [found for each in node for found in anonymous(each, path, top=False)]
    if not isinstance(node, dict) or "openIdConnectUrl" in node:
        return []
    here = [path] if not top and node.get("type") == "object" and "properties" in node else []
    return here + [
        found
        for key, each in node.items()
        if key not in ("examples", "example")
        for found in anonymous(each, f"{path}.{key}", top=False)
    ]

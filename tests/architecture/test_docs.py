"""What is written in docs/ and README.md equals the code."""

from __future__ import annotations

import ast
import dataclasses
import enum
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from functions import settings, telemetry
from functions.adapters import dynamodb_items
from functions.domain import ending, execution, job, lease, path, result, upstream, visit
from functions.domain.retry import BackoffStrategy, RetryPolicy
from infra import outputs
from infra.stage import STAGES, MachineClient, OwnerLimits, Stage
from tests.api_client import Api
from tests.flows import FLOWS
from tests.infra.synthesized import synthesized
from tests.support.pages import CODE, codes, rows, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FUNCTIONS = {
    "api": settings.ApiSettings,
    "poll": settings.PollSettings,
    "executor": settings.ExecutorSettings,
    "steps": settings.StepsSettings,
    "sweep": settings.SweepSettings,
    "jobs": settings.JobsSettings,
    "dead_letters": settings.DeadLettersSettings,
    "lifecycle": settings.LifecycleSettings,
}


# --- docs/configuration.md ---


def test_the_variables_are_those_of_the_settings() -> None:
    wanted: dict[str, set[str]] = {}
    for function, kind in FUNCTIONS.items():
        for variable in (*kind.variables(), *settings.TELEMETRY_VARIABLES):
            wanted.setdefault(variable, set()).add(function)
    written = {
        variable.strip("`"): set(functions.split(", "))
        for variable, functions, _ in rows(section("docs/configuration.md", "Variables of the functions"))
    }
    assert written == wanted


def test_the_values_are_those_of_the_stages() -> None:
    written = {row[0].strip("`"): row[1:4] for row in rows(section("docs/configuration.md", "The stage"))}
    wanted = {
        field.name: [_shown(getattr(STAGES[name], field.name)) for name in ("local", "dev", "prod")]
        for field in dataclasses.fields(Stage)
        if field.name != "name"
    }
    assert written == wanted


def _shown(value: Any) -> str:
    match value:
        case None:
            return "–"
        case OwnerLimits():
            shares = ", ".join(f"{each.processes}/{each.starts_per_minute}" for each in value.shares)
            return f"{shares}; {value.waiting_polls}; {value.recurring_jobs}; {value.shortest_interval_seconds}"
        case bool():
            return "yes" if value else "no"
        case settings.TargetRules():
            parts = (value.unguarded_origins, value.ports, value.shared_targets, value.handler_owners)
            return "; ".join(", ".join(map(str, part)) for part in parts if part)
        case (MachineClient(), *_):
            return ", ".join(
                f"{each.name} ({each.role if each.team is None else f'{each.role} of {each.team}'})" for each in value
            )
        case tuple():
            return ", ".join("=".join(pair) for pair in value)
    if not dataclasses.is_dataclass(value):
        return str(value)
    parts = dataclasses.asdict(value)  # type: ignore[arg-type]  # it is an instance
    if "directory" in parts:
        return str(parts["directory"])
    return ", ".join(str(part) for part in parts.values() if part != ())


def test_the_outputs_are_those_of_the_stack() -> None:
    assert codes(section("docs/configuration.md", "Outputs of the stack")) == list(outputs.DESCRIPTIONS)


def test_the_variables_of_the_local_run_are_those_it_reads() -> None:
    read = {
        name
        for file in (ROOT / "gnomon").rglob("*.py")
        for name in re.findall(
            r'(?:get\(|\[|environment_token = environment\.get\()"(GNOMON_[A-Z_]+)"', file.read_text()
        )
    }
    assert set(codes(section("docs/configuration.md", "The local run"))) == read


# --- docs/runbook.md ---


@pytest.mark.slow
def test_the_alarms_are_those_of_the_stack() -> None:
    alarms = {path.rsplit("/", 1)[1] for path in synthesized("dev").of_type("AWS::CloudWatch::Alarm")}
    assert sorted(codes(section("docs/runbook.md", "Alarms"))) == sorted(alarms)


def test_the_metrics_are_those_that_are_counted() -> None:
    counted = {
        value
        for name, value in vars(telemetry).items()
        if name.isupper() and isinstance(value, str) and name not in ("NAMESPACE", "TYPE_CHECKING")
    }
    assert set(codes(section("docs/runbook.md", "Metrics"))) == counted


def test_the_log_lines_are_those_that_are_written() -> None:
    written = {(row[1], row[2].strip("`")) for row in rows(section("docs/runbook.md", "Log lines"))}
    assert written == set(_log_lines())


def _log_lines() -> Iterator[tuple[str, str]]:
    for file in (ROOT / "functions").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if not re.fullmatch(r"(telemetry\.)?_?log(ger)?(\(\))?", ast.unparse(node.func.value)):
                continue
            if node.func.attr in ("debug", "info", "warning", "error", "exception"):
                assert isinstance(node.args[0], ast.Constant), f"{file}: {ast.unparse(node)}"
                message = str(node.args[0].value).split("\n")[0].replace("%s", "…")
                yield ("ERROR" if node.func.attr == "exception" else node.func.attr.upper()), message


def test_the_fields_of_a_dead_letter_are_named() -> None:
    tree = ast.parse(text("functions/usecases/dead_letters.py"))
    keys = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    named = {
        name for code in CODE.findall(section("docs/runbook.md", "Dead letters")) for name in re.findall(r"\w+", code)
    }
    assert keys - named == {"owner"} - named


# --- docs/job-lifecycle.md ---


def test_the_statuses_are_those_of_the_domain() -> None:
    page = "docs/job-lifecycle.md"
    shown = {status for status in codes(section(page, "Status of a job")) if status.isupper()}
    assert shown == {status.value for status in job.JobStatus}
    assert codes(section(page, "Status of an execution")) == [status.value for status in execution.ExecutionStatus]
    drawn = set(re.findall(r"\b[A-Z]{6,}\b", re.search(r"```mermaid(.*?)```", text(page), re.DOTALL)[1]))  # type: ignore[index]
    assert drawn == {status.value for status in job.JobStatus}
    for outcome in job.Outcome:
        assert f"`{outcome.value}`" in text(page)


def test_the_reasons_are_those_of_the_code() -> None:
    part = section("docs/job-lifecycle.md", "Reasons")
    besides = CODE.findall(part.split("Of callers' actions", 1)[1])
    written = {*codes(part), *(code for code in besides if code.isupper())}
    assert written == set(_reasons())


def _reasons() -> Iterator[str]:
    """Every word in capitals that a decision or a use case gives, but error codes and statuses."""
    domain = [ROOT / "functions" / "domain" / f"{name}.py" for name in _DECIDING]
    for file in (*domain, *(ROOT / "functions" / "usecases").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            word = str(node.value) if isinstance(node, ast.Constant) else ""
            if re.fullmatch(r"[A-Z][A-Z_]{2,}", word) and word not in _ERRORS_OF_THE_ENGINE:
                yield word
    yield from (reason.value for reason in job.SkipReason)


_ERRORS_OF_THE_ENGINE = ("WORKER_LOST", "TARGET_ERROR", "PAYLOAD_ERROR", "TIMEOUT")
_DECIDING = (
    *("path", "decision", "dispatch", "approval", "claims", "ending", "lean", "visit", "commands", "retry"),
    "cancellation",
    *("upstream", "rounds", "looks", "following", "permits", "quarantine"),
)


def test_the_error_codes_are_those_of_the_code() -> None:
    written = {code for file in (ROOT / "functions").rglob("*.py") for code in _error_codes(file)}
    found = written | ending.UNSPENT.keys() | upstream.UNMET.keys() | result.NOT_KEPT
    assert set(codes(section("docs/job-lifecycle.md", "Error codes of an execution"))) == found


def _error_codes(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = [node.args[0]] if name == "failed" and node.args else []
        given += [one.value for one in node.keywords if name == "ExecutionError" and one.arg == "code"]
        for value in given:
            if isinstance(value, ast.JoinedStr):
                start = str(value.values[0].value)  # type: ignore[attr-defined]  # it begins with its constant part
                yield start + ("<status>" if start == "HTTP_" else "<class>")
                continue
            for part in ast.walk(value):
                if isinstance(part, ast.Constant) and str(part.value).isupper():
                    yield str(part.value)


def test_the_retry_delays_are_those_of_the_policy() -> None:
    strategies = (BackoffStrategy.EXPONENTIAL, BackoffStrategy.LINEAR, BackoffStrategy.FIXED)
    table = rows(section("docs/job-lifecycle.md", "Retries"))
    assert len(table) == 6
    for number, *cells in table:
        for strategy, cell in zip(strategies, cells, strict=True):
            policy = RetryPolicy(backoff_strategy=strategy)
            low = policy.delay(int(number), uniform=lambda low, _: low)
            high = policy.delay(int(number), uniform=lambda _, high: high)
            assert cell == f"{low}\N{EN DASH}{high}", (number, strategy)


# --- docs/architecture.md ---


def test_the_crash_table_names_every_flow_that_is_stopped() -> None:
    table = section("docs/architecture.md", "The crash table")
    assert {name for name in CODE.findall(table) if name in {flow.name for flow in FLOWS}} == {
        flow.name for flow in FLOWS
    }
    named = [name for row in rows(table) for name in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", row[0])]
    assert set(named) <= {flow.name for flow in FLOWS}


def test_the_bounds_of_the_crash_table_are_the_constants() -> None:
    table, tick = section("docs/architecture.md", "The crash table"), 60
    assert f"**{job.HINT_SLACK + tick} s**" in table
    assert f"**timeout + {lease.LEASE_MARGIN + lease.LEASE_GRACE + tick} s**" in table
    assert f"**call + {lease.LEASE_MARGIN} s**" in table
    assert f"**call + {lease.LEASE_MARGIN + lease.LEASE_GRACE + tick} s**" in table
    assert f"at most {path.DIRECT_SECONDS}," in table
    assert f"timeout + {lease.REPORT_GRACE + lease.CLOCK_SKEW + 1} s" in table
    waits = [min(visit.WAKE_BACKOFF * 2**wake, visit.WAKE_BACKOFF_MAX) for wake in range(visit.MAX_WAKES)]
    assert waits == [60, 120, 240, 480, *[900] * 6]
    assert "60 + 120 + 240 + 480 + 6 \N{MULTIPLICATION SIGN} 900 s" in table


def test_every_attribute_of_the_state_row_is_described() -> None:
    part = section("docs/architecture.md", "The state row")
    described = set(codes(part))
    fields = dynamodb_items._JOB
    written = {field.attribute for field in fields} | set(dynamodb_items.DEFINITION_ATTRIBUTES)
    assert described == written | {"jobId", "S", "as", "ow", "oc", "wp", "ws", "ur"}
    for row in rows(part):
        for name, attribute in zip(row[1].split(", "), CODE.findall(row[0]), strict=False):
            known = {field.attribute: field.name for field in fields}
            assert known.get(attribute, name) == name
    for field in dynamodb_items._RUN_FIELDS:
        assert f"`{field.attribute}`" in part.split("A run:", 1)[1]


# --- README.md ---


def test_the_request_of_the_readme_gets_its_answer() -> None:
    request, answer = re.search(
        r"```\nPOST /v1/jobs\n(.*?)\n\n201 Created\n(.*?)```", text("README.md"), re.DOTALL
    ).groups()  # type: ignore[union-attr]
    reply = Api().post("/v1/jobs", request)
    assert reply.status == 201, reply.text
    shown = json.loads(answer.replace("…,", ""))
    assert {name: value for name, value in reply.json.items() if name in shown and name != "id"} == {
        name: value for name, value in shown.items() if name != "id"
    }


@pytest.mark.parametrize(
    "kind", [job.JobStatus, execution.ExecutionStatus, job.SkipReason], ids=lambda kind: kind.__name__
)
def test_words_of_the_domain_are_their_own_values(kind: type[enum.StrEnum]) -> None:
    """Pages and code can only be compared where a member is called as it is stored."""
    assert all(member.name == member.value for member in kind)

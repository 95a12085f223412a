"""Every command of the program, in every form of output, at every kind of answer. Commands are found, not listed."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import testing
from typer.main import get_command
from typer.testing import CliRunner

from gnomon.cli import app
from gnomon.commands import session as session_module
from gnomon.safe_text import json_text, printable
from gnomon.workflow_client import WorkflowClient
from tests.api_contract import api_document
from tests.served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("loopback")

ID = "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"
EVIL = "gpj.\u202eexe\u2066 \x1b[2J\x9b31m \x07\u200f\ufeff\u2028\r"
"""Turns the direction, clears the screen, hides."""
ARGUMENTS: dict[str, list[str]] = {
    "jobs create": ["--name", "a", "--every", "60", "--handler", "h"],
    "jobs watch": [ID, "--interval", "0.2"],
    "workflow create": ["-"],
    "workflow watch": [ID, "--interval", "0.2"],
    "types get": ["billing"],
    "types set": ["billing", "--max-retries", "1"],
    "types delete": ["billing"],
    "circuits reset": ["http:x:443"],
    "webhooks secret": [],
    "webhooks rotate": [],
    "jobs transfer": [ID, "--to", "team-b"],
    "callers revoke": ["mallory"],
    "callers restore": ["mallory"],
    "preview": ["@daily"],
    "worker": ["json:dumps", "--queue", "q"],
    **{f"{group} list": [] for group in ("jobs", "workflow", "types", "circuits")},
}
"""Of the commands that take something else than one id."""
INPUT = json.dumps({"name": "w", "jobs": {"a": {"target": {"type": "handler", "name": "h"}}}})


def commands() -> list[str]:
    """`jobs list`, …: all there are, hidden ones too."""
    found: list[str] = []

    def walk(command: Any, path: list[str]) -> None:
        below = getattr(command, "commands", None)
        if below is None:
            found.append(" ".join(path))
            return
        for name, one in below.items():
            walk(one, [*path, name])

    walk(get_command(app), [])
    return found


COMMANDS = commands()


BUILT = get_command(app)


class Program:
    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, command: str, *more: str, columns: int = 200, arguments: list[str] | None = None) -> Any:
        given = ARGUMENTS.get(command, [ID]) if arguments is None else arguments
        connection = ["--api-url", self.url, "--token", "t"]
        runner = CliRunner(env={"NO_COLOR": "1", "COLUMNS": str(columns)})
        return runner.invoke(app, [*command.split(), *given, *connection, *more], input=INPUT)


class Server:
    """Gives the one answer that a test has chosen."""

    def __init__(self) -> None:
        self.answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(204)
        self.requests: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        return self.answer(request)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def program(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    monkeypatch.setattr(session_module, "WorkflowClient", functools.partial(WorkflowClient, sleep=lambda _: None))
    monkeypatch.setattr(testing, "_get_command", lambda _: BUILT)  # once, not with each call
    with served(server) as url:
        yield Program(url)


def must_be_safe(text: str) -> None:
    """Nothing but line ends and tabs has a meaning of its own for a terminal."""
    unsafe = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert unsafe <= {"\n", "\t"}


# --- errors ---


def error(status: int, code: str) -> Callable[[httpx.Request], httpx.Response]:
    details = [{"field": f"name{EVIL}", "message": f"{EVIL} is too long"}]
    document = {"error": {"code": code, "message": f"no {EVIL}", "details": details, "requestId": EVIL}}
    return lambda _: httpx.Response(status, json=document)


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("gone", request=request)


ERRORS = {
    "VALIDATION_ERROR": error(400, "VALIDATION_ERROR"),
    "FORBIDDEN": error(403, "FORBIDDEN"),
    "NOT_FOUND": error(404, "NOT_FOUND"),
    "CONFLICT": error(409, "CONFLICT"),
    "PRECONDITION_FAILED": error(412, "PRECONDITION_FAILED"),
    "PAYLOAD_TOO_LARGE": error(413, "PAYLOAD_TOO_LARGE"),
    "IDEMPOTENCY_KEY_REUSED": error(422, "IDEMPOTENCY_KEY_REUSED"),
    "UNAUTHORIZED": lambda _: httpx.Response(401, json={"message": f"Unauthorized {EVIL}"}),
    "HTTP_418": lambda _: httpx.Response(418, text=f"<html>{EVIL}"),
}
PASSING = {
    "RATE_LIMITED": error(429, "RATE_LIMITED"),
    "INTERNAL_ERROR": error(500, "INTERNAL_ERROR"),
    "UNAVAILABLE": error(503, "UNAVAILABLE"),
    "UNREACHABLE": lost,
    "UNREACHABLE (no JSON)": lambda _: httpx.Response(200, text=EVIL),
    "UNREACHABLE (no object)": lambda _: httpx.Response(200, json=[EVIL]),
}
"""A worker waits until they are over."""
LISTS = {
    "webhooks": "Leave --owner out",
    "callers": "SUBJECT is a user's",
    "jobs": "gnomon jobs list",
    "workflow": "gnomon workflow list",
    "types": "gnomon types list",
} | {"circuits": "gnomon circuits list"}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_error_is_told_in_the_form_that_was_asked_for(server: Server, program: Program, command: str) -> None:
    for name, answer in {**ERRORS, **({} if command == "worker" else PASSING)}.items():
        if command == "workflow get" and name.startswith("UNREACHABLE ("):
            continue  # with --mermaid any text is an answer
        server.answer = answer
        table, as_json = program(command), program(command, "-o", "json")
        for result in (table, as_json):
            assert result.exit_code == 1, (name, result.output)
            assert isinstance(result.exception, SystemExit), result.exception
            assert result.stdout == "", name
            must_be_safe(result.stderr)
        assert table.stderr.startswith("error: ")
        (line,) = as_json.stderr.splitlines() if command != "worker" else as_json.stderr.splitlines()[-1:]
        told = json.loads(line)["error"]
        assert told["code"] == name.split()[0]
        assert told.keys() >= {"code", "message", "details", "advice"}
        if name in ERRORS and name not in ("UNAUTHORIZED", "HTTP_418"):
            assert told["details"] == [{"field": f"name{EVIL}", "message": f"{EVIL} is too long"}]
            assert told["status"] == server.answer(httpx.Request("GET", "http://x")).status_code


@pytest.mark.parametrize("command", [one for one in COMMANDS if " " in one])
def test_what_is_not_there_is_looked_for_in_its_own_list(server: Server, program: Program, command: str) -> None:
    server.answer = ERRORS["NOT_FOUND"]
    told = program(command).stderr
    mine = LISTS[command.split(maxsplit=1)[0]]
    assert mine in told
    assert not any(other in told for other in LISTS.values() if other != mine)


@pytest.mark.parametrize("command", ["jobs get", "jobs pause", "jobs history", "workflow get", "workflow watch"])
def test_a_name_that_nobody_has_is_looked_for_in_its_own_list(server: Server, program: Program, command: str) -> None:
    server.answer = lambda _: httpx.Response(200, json={"data": [], "pagination": {}})
    result = program(command, arguments=[f"nope{EVIL}"])
    assert result.exit_code == 1
    assert LISTS[command.split(maxsplit=1)[0]] in result.stderr
    must_be_safe(result.output)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", [["-o", "json"], ["--output", "json"], ["--output=json"], ["-ojson"], []])
def test_a_command_line_that_makes_no_sense_is_an_error_like_others(
    program: Program, command: str, form: list[str]
) -> None:
    result = program(command, f"--colour{EVIL}", *form)
    assert result.exit_code == 2
    assert result.stdout == ""
    must_be_safe(result.stderr)
    if form:
        assert json.loads(result.stderr)["error"]["code"] == "USAGE_ERROR"
    assert "--colour" in result.stderr


# --- answers ---


def sample(schema: dict[str, Any], depth: int = 0) -> Any:  # noqa: C901 - a line a kind of schema
    """A value of the schema, with all its fields, in which every free text is evil."""
    schemas = api_document()["components"]["schemas"]
    if "$ref" in schema:
        return sample(schemas[schema["$ref"].rpartition("/")[2]], depth)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return sample(schema[union][0], depth)
    for constant in ("const", "enum"):
        if constant in schema:
            return schema[constant] if constant == "const" else schema[constant][-1]
    match schema.get("type"):
        case "object":
            named = {name: sample(one, depth + 1) for name, one in schema.get("properties", {}).items()}
            return named or {EVIL: sample(schema["additionalProperties"], depth + 1)}
        case "array":
            return [sample(schema["items"], depth + 1)] * 2
        case "integer" | "number":
            return schema.get("minimum", 7)
        case "boolean":
            return True
        case "string" if schema.get("format") == "date-time":
            return "2027-01-31T14:59:42Z"
        case "string" if schema.get("examples") and ("pattern" in schema or "minLength" in schema):
            return schema["examples"][0]
        case "string":
            return EVIL
    return {EVIL: [EVIL]}


def answer_of(request: httpx.Request) -> httpx.Response:
    """What the document promises for the operation, the last page of a list."""
    for template, methods in api_document()["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", template)
        if re.fullmatch(pattern, request.url.path) and request.method.lower() in methods:
            success = next(one for status, one in methods[request.method.lower()]["responses"].items() if status < "3")
            content = success.get("content", {})
            if request.url.params.get("format") == "mermaid":
                return httpx.Response(200, text=f"flowchart\n\t{EVIL}\n")
            if not content:
                return httpx.Response(204)
            document = sample(content["application/json"]["schema"])
            if "pagination" in document:
                document["pagination"] = {}
            return httpx.Response(200, json=document)
    raise AssertionError(f"{request.method} {request.url.path} is no operation")


@pytest.mark.slow
@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "worker"])
@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_text_of_others_steers_the_terminal(server: Server, program: Program, command: str, columns: int) -> None:
    server.answer = answer_of
    codes = {0, 1} if command.endswith("watch") else {0}
    table, as_json = program(command, columns=columns), program(command, "-o", "json", columns=columns)
    for result in (table, as_json):
        assert result.exit_code in codes, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        must_be_safe(result.output)
    if command.endswith("watch"):
        assert [json.loads(line) for line in as_json.stdout.splitlines()]
    else:
        json.loads(as_json.stdout)


def test_a_chart_keeps_its_lines(server: Server, program: Program) -> None:
    server.answer = answer_of
    result = program("workflow get", "--mermaid")
    assert result.stdout.count("\n") == 2
    must_be_safe(result.stdout)
    assert json.loads(program("workflow get", "--mermaid", "-o", "json").stdout)["mermaid"].startswith("flowchart")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.endswith((" list", " get", "history"))])
def test_json_is_the_whole_answer(server: Server, program: Program, command: str) -> None:
    """With what a later release may add."""

    def more(request: httpx.Request) -> httpx.Response:
        document = answer_of(request).json() | {"later": EVIL}
        if "pagination" in document:
            document["pagination"] = {"cursor": "c9", "later": 1}
        answered.append(document)
        return httpx.Response(200, json=document)

    answered: list[Any] = []
    server.answer = more
    options = ["--limit", "2"] if command.endswith((" list", "history")) else []
    assert json.loads(program(command, *options, "-o", "json").stdout) == answered[-1]


@pytest.mark.parametrize("command", ["jobs list", "workflow list", "types list"])
@pytest.mark.parametrize("columns", [80, 100, 120, 160])
def test_rows_of_lists_are_one_line(server: Server, program: Program, command: str, columns: int) -> None:
    server.answer = answer_of
    lines = program(command, columns=columns).stdout.splitlines()
    assert len(lines) == 3  # the head, and the two of the sample
    assert all(len(line) <= columns for line in lines)


# --- text ---


@given(st.text())
def test_printable_text_is_safe_and_safe_text_stays(text: str) -> None:
    shown = printable(text)
    assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - set("\u200c\u200d")
    if text.isprintable():
        assert shown == text
    assert printable(text, keep="\n").count("\n") == text.count("\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(JSON, st.sampled_from(["utf-8", "ascii", "iso-8859-1", None]), st.sampled_from([None, 2]))
def test_json_is_the_same_however_it_is_escaped(document: Any, encoding: str | None, indent: int | None) -> None:
    text = json_text(document, indent=indent, encoding=encoding)
    assert json.loads(text) == document
    text.encode(encoding or "utf-8")
    must_be_safe(text.replace("\u200c", "").replace("\u200d", ""))


def test_joiners_of_writing_and_emoji_stay() -> None:
    text = "می‌خواهم 👩‍💻 größe 名前"
    assert printable(text) == text
    assert json_text(text) == f'"{text}"'

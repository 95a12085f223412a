"""Every `gnomon …` command line that the pages, and the program's own help, show is one that the program takes."""

from __future__ import annotations

import json
import re
import shlex
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gnomon.cli import app
from tests.unit.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LEFT_OUT = "…"
"""Stands on a page for what is left out of a line."""
_PREFIX = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(?=gnomon(?: |$))")
_ALTERNATIVES = re.compile(r"^[a-z-]+(?:\|[a-z-]+)+$")


def commands(command: Any, path: str = "gnomon") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}")


def lines(text: str) -> Iterator[tuple[str, bool]]:
    """The command lines of a page, and whether each stands on a line of its own: then it is a whole one."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for shown, is_whole in (*product("".join(blocks).splitlines(), [True]), *product(spans, [False])):
        for part in re.split(r" && | \| ", shown):
            if match := _PREFIX.match(part.strip()):
                yield part.strip()[match.end() :].partition(" > ")[0], is_whole


def documented() -> Iterator[tuple[str, str, bool]]:
    for page in PAGES:
        for line, is_whole in lines(page.read_text(encoding="utf-8")):
            yield page.name, line, is_whole
    for path, command in commands(get_command(app)):
        for line, _ in lines(" ".join(filter(None, (command.help, command.epilog)))):
            yield path, line, True


def variants(line: str) -> Iterator[list[str]]:
    """The arguments; each of `approve|reject` in turn."""
    words = shlex.split(line, comments=True)[1:]
    yield from map(list, product(*(word.split("|") if _ALTERNATIVES.match(word) else [word] for word in words)))


def usage_error(arguments: list[str]) -> str | None:
    """The kind of error that the program's parser has with the arguments; None where it takes them. Nothing is run."""
    program: Any = get_command(app)
    for _, command in commands(program):
        if not hasattr(command, "commands"):
            command.callback = lambda **_: None
    try:
        program.main(args=list(arguments), prog_name="gnomon", standalone_mode=False)
    except Exception as error:
        if getattr(error, "exit_code", None) != 2:
            raise
        return type(error).__name__
    return None


FOUND = sorted(set(documented()))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line", "is_whole"), FOUND, ids=[f"{page}: {line}" for page, line, _ in FOUND])
def test_a_documented_line_is_one_that_the_program_takes(page: str, line: str, is_whole: bool) -> None:
    for arguments in variants(line):
        error = usage_error([one for one in arguments if one != LEFT_OUT])
        lacks = error in ("MissingParameter", "NoArgsIsHelpError")
        assert error is None or (lacks and (not is_whole or LEFT_OUT in arguments)), f"{page}: {line}: {error}"


@pytest.mark.usefixtures("loopback")
def test_documented_creations_make_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wholes = [args for _, line, whole in FOUND if whole for args in variants(line) if args[:2] == ["jobs", "create"]]
    wholes = [arguments for arguments in wholes if LEFT_OUT not in arguments and "--help" not in arguments]
    assert len(wholes) >= 3
    monkeypatch.chdir(tmp_path)
    for arguments in wholes:
        for file in (word.lstrip("@") for word in arguments if word.endswith(".json")):
            (tmp_path / file).write_text(json.dumps({"name": "x"}))
        with ApiServer() as api:
            monkeypatch.setenv("GNOMON_API_URL", api.url)
            monkeypatch.setenv("GNOMON_TOKEN", "token-of-scheduler")
            result = CliRunner(env={"NO_COLOR": "1"}).invoke(app, arguments)
            assert result.exit_code == 0, f"{arguments}: {result.output}"
            assert [request.method for request in api.requests] == ["POST"]


def test_the_pages_are_read() -> None:
    shown = {line for _, line, _ in FOUND}
    assert any(line.startswith("gnomon jobs create --name ping") for line in shown)
    assert {page for page, _, _ in FOUND} >= {"README.md", "workers.md", "workflows.md", "runbook.md"}
    assert usage_error(["jobs", "create", "nightly", "--cron", "0 2 * * *"]) == "UsageError"
    assert usage_error(["jobs", "lst"]) == "UsageError"
    assert usage_error(["jobs", "list", "--silence"]) == "NoSuchOption"
    assert usage_error(["jobs", "retry"]) == "MissingParameter"
    assert usage_error(["jobs", "list", "--silent"]) is None

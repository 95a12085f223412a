from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gnomon.errors import UsageError
from gnomon.stack_file import Connection, Role, connect

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = "http://127.0.0.1:4566/x"


def write_stack(path: Path, **fields: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    tokens = {"admin": "a", "scheduler": "s", "viewer": "v"}
    path.write_text(json.dumps({"apiUrl": LOCAL, "tokens": tokens, "webhookSecret": "whsec_eA==", **fields}))
    return path


def connection(directory: Path, **given: object) -> Connection:
    arguments = {"api_url": None, "token": None, "stack_file": None, "role": Role.SCHEDULER, "environment": {}}
    return connect(**{**arguments, **given}, directory=directory)  # type: ignore[arg-type]  # a test's own shorthand


def test_the_file_is_found_from_any_folder_below_and_the_role_picks_the_token(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    below = tmp_path / "docs" / "deep"
    below.mkdir(parents=True)
    assert connection(below) == Connection(api_url=LOCAL, token="s")
    assert connection(below, role=Role.VIEWER).token == "v"


def test_a_second_stack_is_found_by_its_port(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    write_stack(tmp_path / ".local" / "4577" / "stack.json", apiUrl="http://127.0.0.1:4577/x")
    assert connection(tmp_path, environment={"GNOMON_PORT": "4577"}).api_url == "http://127.0.0.1:4577/x"
    assert connection(tmp_path, environment={"GNOMON_PORT": "4566"}).api_url == LOCAL


def test_a_token_of_the_environment_alone_replaces_the_roles(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    assert connection(tmp_path, environment={"GNOMON_TOKEN": "mine"}) == Connection(api_url=LOCAL, token="mine")


def test_order_of_the_sources(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    named = write_stack(tmp_path / "named.json", apiUrl="http://127.0.0.1:1/named")
    flagged = write_stack(tmp_path / "flag.json", apiUrl="http://127.0.0.1:1/flag")
    environment = {"GNOMON_STACK": str(named)}
    assert connection(tmp_path, environment=environment).api_url == "http://127.0.0.1:1/named"
    environment |= {"GNOMON_API_URL": "https://api.example.com", "GNOMON_TOKEN": "t"}
    assert connection(tmp_path, environment=environment) == Connection(api_url="https://api.example.com", token="t")
    with_flag = connection(tmp_path, environment=environment, stack_file=flagged)
    assert with_flag == Connection(api_url="http://127.0.0.1:1/flag", token="s")
    both = connection(tmp_path, environment=environment, api_url="https://b.example.com", token="u", stack_file=flagged)
    assert both == Connection(api_url="https://b.example.com", token="u")


def test_an_address_without_a_token_never_takes_the_local_stacks(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    with pytest.raises(UsageError, match="GNOMON_API_URL is given without a token") as caught:
        connection(tmp_path, environment={"GNOMON_API_URL": "https://api.example.com"})
    assert "GNOMON_TOKEN" in str(caught.value.advice)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "is not JSON"), ("[]", "no JSON object"), ('{"apiUrl": "x"}', "lacks apiUrl or tokens")],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str, complaint: str) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(content)
    with pytest.raises(UsageError, match=complaint) as caught:
        connection(tmp_path, stack_file=broken)
    assert str(broken) in str(caught.value)


def test_what_is_missing_is_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No stack") as none:
        connection(tmp_path)
    assert "make up" in str(none.value.advice)
    with pytest.raises(UsageError, match="No such file"):
        connection(tmp_path, stack_file=tmp_path / "absent.json")
    write_stack(tmp_path / ".local" / "stack.json", tokens={"admin": "a"})
    with pytest.raises(UsageError, match="no token for role viewer"):
        connection(tmp_path, role=Role.VIEWER)

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gnomon.errors import UsageError
from gnomon.stack_file import Connection, Credentials, Role, connect
from gnomon.tokens import ClientCredentials

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


MACHINE = {
    "GNOMON_CLIENT_ID": "id",
    "GNOMON_CLIENT_SECRET": "s3cret",
    "GNOMON_TOKEN_URL": "https://login.example.com/oauth2/token",
}
ADDRESS = {"GNOMON_API_URL": "https://api.example.com"}


def test_client_credentials_of_the_environment_are_taken_before_its_token(tmp_path: Path) -> None:
    """They can be renewed; a token that a shell still has cannot."""
    found = connection(tmp_path, environment={**ADDRESS, **MACHINE, "GNOMON_TOKEN": "old"})
    wanted = Credentials(
        client_id="id", client_secret="s3cret", token_url="https://login.example.com/oauth2/token", scope=None
    )
    assert found == Connection(api_url="https://api.example.com", token=wanted)
    assert isinstance(found.tokens(lambda: found), ClientCredentials)
    assert "s3cret" not in repr(found)
    scoped = connection(tmp_path, environment={**ADDRESS, **MACHINE, "GNOMON_SCOPE": "gnomon/read gnomon/write"})
    assert scoped.token.scope == "gnomon/read gnomon/write"  # type: ignore[union-attr]  # it has credentials


def test_a_token_flag_is_taken_before_all_that_the_environment_has(tmp_path: Path) -> None:
    assert connection(tmp_path, token="mine", environment={**ADDRESS, **MACHINE}).token == "mine"


def test_client_credentials_replace_the_token_of_a_stack_file(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    found = connection(tmp_path, environment=MACHINE)
    assert found.api_url == LOCAL
    assert isinstance(found.token, Credentials)


def test_client_credentials_go_to_no_stack_but_that_of_the_environment(tmp_path: Path) -> None:
    """As GNOMON_TOKEN: beside GNOMON_API_URL they are that stack's."""
    file = write_stack(tmp_path / "other.json")
    assert connection(tmp_path, stack_file=file, environment={**ADDRESS, **MACHINE}).token == "s"


@pytest.mark.parametrize("missing", MACHINE)
@pytest.mark.parametrize("value", [None, ""])
def test_half_of_the_client_credentials_is_an_error_that_names_the_rest(
    tmp_path: Path, missing: str, value: str | None
) -> None:
    environment = {**ADDRESS, **MACHINE, "GNOMON_TOKEN": "t"}
    del environment[missing]
    with pytest.raises(UsageError, match=f"lack {missing}"):
        connection(tmp_path, environment=environment | ({} if value is None else {missing: value}))


def test_only_the_token_of_a_stack_file_is_read_again(tmp_path: Path) -> None:
    write_stack(tmp_path / ".local" / "stack.json")
    of_file = connection(tmp_path)
    tokens = of_file.tokens(lambda: connection(tmp_path))
    write_stack(tmp_path / ".local" / "stack.json", tokens={"scheduler": "fresh"})
    assert (tokens.current(), tokens.renewed("s"), tokens.current()) == ("s", "fresh", "fresh")
    for given in ({"token": "t"}, {"environment": {"GNOMON_TOKEN": "t"}}):
        found = connection(tmp_path, **given)
        assert not found.tokens(lambda found=found: found).renewable

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from gnomon.local import aws
from gnomon.local.deploy import fingerprint, free_origins, have_assets_bucket
from gnomon.local.places import at
from gnomon.local.users import access_tokens


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("functions/handlers/api.py", "infra/stack.py", "app.py", "cdk.json", "pyproject.toml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "functions.txt").write_text("pydantic")
    return tmp_path


@pytest.mark.parametrize(
    "changed", ["functions/handlers/api.py", "functions/new.py", "app.py", "cdk.json", "requirements/functions.txt"]
)
def test_changed_sources_are_deployed_again(sources: Path, changed: str) -> None:
    before = fingerprint("", sources)

    (sources / changed).write_text("2")

    assert fingerprint("", sources) != before


def test_a_renamed_file_is_a_change(sources: Path) -> None:
    before = fingerprint("", sources)

    (sources / "infra" / "stack.py").rename(sources / "infra" / "stacks.py")

    assert fingerprint("", sources) != before


def test_other_origins_are_a_change(sources: Path) -> None:
    assert fingerprint("http://127.0.0.1:*", sources) != fingerprint("", sources)


def test_what_python_and_tests_write_is_no_change(sources: Path) -> None:
    before = fingerprint("", sources)

    cache = sources / "functions" / "__pycache__"
    cache.mkdir()
    (cache / "api.pyc").write_bytes(b"1")
    (sources / "README.md").write_text("1")

    assert fingerprint("", sources) == before


def test_a_bucket_that_outlived_a_killed_emulator_is_used_again() -> None:
    clients = aws.Aws(at(4599))
    with Stubber(clients.s3) as s3:
        s3.add_client_error("create_bucket", "BucketAlreadyOwnedByYou", http_status_code=409)
        have_assets_bucket(clients)

        s3.add_client_error("create_bucket", "BucketAlreadyExists", http_status_code=409)
        with pytest.raises(ClientError):
            have_assets_bucket(clients)


def test_every_port_is_free_for_targets_but_those_of_emulators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.local.deploy.all_places", lambda: [at(4601), at(4599)])
    emulators = [f"!http://127.0.0.1:{port}" for port in (4566, 4599, 4601)]
    assert free_origins(at(4599), {}) == ",".join(["http://127.0.0.1:*", *emulators])
    assert free_origins(at(4599), {"GNOMON_LOCAL_ORIGINS": "http://127.0.0.1:8080"}) == "http://127.0.0.1:8080"
    assert free_origins(at(4599), {"GNOMON_LOCAL_ORIGINS": ""}) == ""


def test_tools_see_the_emulator_and_no_account_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "123456789012")

    told = aws.environment(at(4599))

    assert told["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4599"
    assert told["AWS_ACCESS_KEY_ID"] == "test"
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "CDK_DEFAULT_ACCOUNT"} & told.keys()
    assert "127.0.0.1" in told["NO_PROXY"].split(",")


class UserIsThereError(Exception):
    pass


class Cognito:
    """A user pool that keeps passwords."""

    exceptions = SimpleNamespace(UsernameExistsException=UserIsThereError)

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self.groups: dict[str, str] = {}
        self.users: list[str] = []

    def admin_create_user(self, **asked: Any) -> None:
        if asked["Username"] in self.users:
            raise UserIsThereError
        self.users.append(asked["Username"])

    def admin_set_user_password(self, **asked: Any) -> None:
        assert asked["Permanent"]
        self.passwords[asked["Username"]] = asked["Password"]

    def admin_add_user_to_group(self, **asked: Any) -> None:
        self.groups[asked["Username"]] = asked["GroupName"]

    def initiate_auth(self, **asked: Any) -> dict[str, Any]:
        name, password = asked["AuthParameters"]["USERNAME"], asked["AuthParameters"]["PASSWORD"]
        if self.passwords.get(name) != password:
            raise ClientError({"Error": {"Code": "NotAuthorizedException"}}, "InitiateAuth")
        return {"AuthenticationResult": {"AccessToken": f"token of {name}"}}


def _tokens(cognito: Cognito, file: Path, pool: str = "pool") -> dict[str, str]:
    return access_tokens(cognito, pool=pool, client="client", file=file)  # type: ignore[arg-type]  # a fake


def test_each_role_has_a_user_in_its_group(tmp_path: Path) -> None:
    cognito = Cognito()

    tokens = _tokens(cognito, tmp_path / "users.json")

    assert tokens == {role: f"token of {role}" for role in ("admin", "scheduler", "viewer")}
    assert cognito.groups == {role: role for role in tokens}
    assert len(set(cognito.passwords.values())) == 3


def test_users_keep_their_passwords_in_a_private_file(tmp_path: Path) -> None:
    cognito, file = Cognito(), tmp_path / "users.json"
    _tokens(cognito, file)
    before = dict(cognito.passwords)

    _tokens(cognito, file)

    assert cognito.passwords == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"pool": before}


def test_a_user_whose_password_was_lost_gets_a_new_one(tmp_path: Path) -> None:
    cognito, file = Cognito(), tmp_path / "users.json"
    _tokens(cognito, file)
    file.unlink()

    assert _tokens(cognito, file)["viewer"] == "token of viewer"


def test_a_fresh_pool_gets_its_own_users(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    _tokens(Cognito(), file, pool="old")
    fresh = Cognito()

    _tokens(fresh, file, pool="new")

    assert sorted(fresh.users) == ["admin", "scheduler", "viewer"]

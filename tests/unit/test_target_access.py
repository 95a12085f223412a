"""Whose functions, queues, secrets and handlers a job may use: at create, at retry and at send."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from functions.adapters.answers import completed
from functions.adapters.targets import TargetRouter
from functions.api.caller import TEAM_PREFIX
from functions.domain.errors import InvalidFieldError
from functions.domain.outcome import Invocation, TargetAnswer
from functions.domain.target import check_target
from functions.domain.target_access import check_access, own_prefix
from tests.api_client import Api, make_body, user
from tests.factories import make_rules
from tests.stored import redefine
from tests.support.sending import invocation
from tests.workflows import NEVER, Played, job, workflow

if TYPE_CHECKING:
    from tests.fakes import World

USER = "7d3f9c1e-2b4a-4c5d-8e6f-0a1b2c3d4e5f"
MACHINE = "4jnbhf2o0q9u3e8r7t6y5w1x2z"
OWNERS = ("team-a", "team-a-b", "team-b", "team-a_b", USER, MACHINE)
RULES = make_rules(
    shared_targets=("lambda:gnomon-test-mailer", "sqs:gnomon-test-audit", "secret:gnomon-test-team-b--proxy"),
    handler_owners=(
        ("billing.*", ("team-b",)),
        ("billing.public.*", ("*",)),
        ("billing.public.drop", ()),
        ("purge", ("team-a", MACHINE)),
    ),
)
ACCOUNT, REGION = "123456789012", "eu-central-1"


def lambda_target(name: str, *, account: str = ACCOUNT, region: str = REGION) -> dict[str, Any]:
    return {"type": "lambda", "functionName": f"arn:aws:lambda:{region}:{account}:function:{name}"}


def queue_target(name: str, *, account: str = ACCOUNT, region: str = REGION) -> dict[str, Any]:
    return {"type": "sqs", "queueUrl": f"https://sqs.{region}.amazonaws.com/{account}/{name}"}


def secret_target(name: str) -> dict[str, Any]:
    return {"type": "http", "url": "https://example.com/", "headers": {"X-Key": {"secretArn": name}}}


def secret_arn_target(name: str, *, account: str = ACCOUNT, region: str = REGION) -> dict[str, Any]:
    return secret_target(f"arn:aws:secretsmanager:{region}:{account}:secret:{name}")


KINDS: dict[str, Any] = {
    "function": lambda name: {"type": "lambda", "functionName": name},
    "alias": lambda name: {"type": "lambda", "functionName": f"{name}:live"},
    "function's ARN": lambda_target,
    "queue": queue_target,
    "secret": secret_target,
    "secret's ARN": lambda name: secret_arn_target(f"{name}-AbCdEf"),
}
ARNS: dict[str, Any] = {"function": lambda_target, "queue": queue_target, "secret": secret_arn_target}
FIELDS = {"lambda": "target.functionName", "sqs": "target.queueUrl", "http": "target.headers.X-Key.secretArn"}


class Reached:
    """Stands for all adapters: nothing a test refuses may come here."""

    def call(self, _invocation: Invocation, _target: dict[str, Any]) -> TargetAnswer:
        return completed('"reached"')

    call_handler = call


def send(target: dict[str, Any], owner: str, rules: Any = RULES) -> TargetAnswer:
    reached: Any = Reached()
    router = TargetRouter(http=reached, lambda_=reached, sqs=reached, rules=rules)
    return router.call(dataclasses.replace(invocation(), owner=owner), target)


def must_pass(target: dict[str, Any], owner: str, rules: Any = RULES) -> None:
    """At create, and at send."""
    check_target(target, rules, owner)
    assert send(target, owner, rules).result == '"reached"'


def must_be_refused(target: dict[str, Any], owner: str, rules: Any = RULES) -> tuple[str, str]:
    """At create, and with the same words at send: field and message."""
    with pytest.raises(InvalidFieldError) as caught:
        check_target(target, rules, owner)
    answer = send(target, owner, rules)
    assert answer.error is not None
    assert (answer.error.code, answer.retryable, answer.was_sent) == ("TARGET_ERROR", False, False)
    assert answer.error.message == caught.value.message
    return caught.value.field, caught.value.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("other", OWNERS)
def test_a_name_is_its_owner_s_alone(kind: str, owner: str, other: str) -> None:
    """Also where one owner's id is the beginning of another's: `team-a`, `team-a-b`, `team-a_b`."""
    target = KINDS[kind](f"gnomon-test-{owner}--db")
    if owner == other:
        must_pass(target, other)
        return

    field, message = must_be_refused(target, other)

    assert field == FIELDS[target["type"]]
    assert f'"gnomon-test-{other}--"' in message, "what would be allowed"
    assert f'jobs of "{other}"' in message


@pytest.mark.parametrize(
    "name",
    [
        "gnomon-test-team-a-db",  # one hyphen: it might be team-a-db's
        "gnomon-test-team-a-b-db",
        "gnomon-test-team-a-b--db",
        "gnomon-test-team-ab--db",
        "gnomon-test-team-a--",
        "gnomon-test-team-a-",
        "gnomon-test-team-a",
        "gnomon-test-team-A--db",
        "Gnomon-test-team-a--db",
        "GNOMON-TEST-TEAM-A--DB",
        "gnomon-test--team-a--db",
        "gnomon-test---db",
        "gnomon-test2-team-a--db",
        "gnomon-prod-team-a--db",
        "gnomon-dev-team-a--db",
        "gnomon--team-a--db",
        "gnomon-team-a--db",
        "team-a--db",
        "x-gnomon-test-team-a--db",
        "gnomon-test-team-a--db\n",
        " gnomon-test-team-a--db",
        "gnomon-test-team-a--db\u00e9",
        "gnomon-test-team-\u0430--db",  # Cyrillic
        "gnomon-test-team-a-\u2010db",
        "gnomon-test-team-a-\t-db",
        "gnomon-test-team-a--d%62",
        "gnomon-test-team-a--*",
        "gnomon-test-*",
        "*",
        "",
    ],
)
@pytest.mark.parametrize("kind", ["function", "function's ARN", "queue", "secret"])
def test_names_that_only_look_like_an_owner_s(kind: str, name: str) -> None:
    field, message = must_be_refused(KINDS[kind](name), "team-a")

    assert message.startswith(f"{field} ")


@pytest.mark.parametrize("owner", ["Team A", "team-a--", "team-a-", "a--b", "-a", "", "team-\u00e9", "team-a/b", "*"])
@pytest.mark.parametrize("kind", ["function", "queue", "secret"])
def test_owner_whose_id_cannot_be_part_of_a_name_has_shared_ones_only(kind: str, owner: str) -> None:
    _, message = must_be_refused(KINDS[kind](f"gnomon-test-{owner}--db"), owner)
    assert own_prefix("test", owner) is None
    if kind != "queue" or " " not in owner:
        assert "shared" in message or "must be" in message

    must_pass(KINDS["function"]("gnomon-test-mailer"), owner)


def test_names_of_an_owner_with_two_hyphens_are_not_those_of_another() -> None:
    """`team-a` may use `team-a--b--db`, so an owner `team-a--b` may not."""
    target = KINDS["secret"]("gnomon-test-team-a--b--db")
    must_pass(target, "team-a")
    must_be_refused(target, "team-a--b")


@pytest.mark.parametrize("owner", OWNERS)
def test_shared_names_are_every_owner_s(owner: str) -> None:
    must_pass(KINDS["function"]("gnomon-test-mailer"), owner)
    must_pass(KINDS["alias"]("gnomon-test-mailer"), owner)
    must_pass(KINDS["function's ARN"]("gnomon-test-mailer"), owner)
    must_pass(KINDS["queue"]("gnomon-test-audit"), owner)
    must_pass(KINDS["secret"]("gnomon-test-team-b--proxy"), owner)
    must_pass(secret_arn_target("gnomon-test-team-b--proxy"), owner)


@pytest.mark.parametrize(
    "target",
    [
        KINDS["queue"]("gnomon-test-mailer"),
        KINDS["secret"]("gnomon-test-mailer"),
        KINDS["function"]("gnomon-test-audit"),
        KINDS["function"]("gnomon-test-mailer2"),
        KINDS["queue"]("gnomon-test-audit.fifo"),
        KINDS["secret"]("gnomon-test-team-b--proxy2"),
        # Secrets Manager finds the secret gnomon-test-team-b--proxy-secret by this ARN, which is not shared.
        secret_arn_target("gnomon-test-team-b--proxy-secret"),
    ],
)
def test_shared_is_one_kind_and_exactly_that_name(target: dict[str, Any]) -> None:
    _, message = must_be_refused(target, "team-a")
    assert '"gnomon-test-team-a--"' in message


def test_a_refusal_lists_what_is_shared() -> None:
    _, message = must_be_refused(KINDS["function"]("billing"), "team-a")
    assert message == (
        'target.functionName "billing" is not allowed for jobs of "team-a": use a name that begins with '
        '"gnomon-test-team-a--", or a shared name ("gnomon-test-mailer").'
    )
    many = make_rules(shared_targets=tuple(f"lambda:gnomon-test-{n:02}" for n in range(30)))
    _, message = must_be_refused(KINDS["function"]("billing"), "team-a", many)
    assert '"gnomon-test-09" and 20 more).' in message
    _, message = must_be_refused(KINDS["function"]("billing"), "team-a", make_rules())
    assert message.endswith('use a name that begins with "gnomon-test-team-a--".')


@pytest.mark.parametrize(
    ("account", "region"), [("999999999999", REGION), (ACCOUNT, "eu-west-1"), ("999999999999", "us-east-1")]
)
@pytest.mark.parametrize("kind", ARNS)
def test_other_accounts_and_regions_are_refused_by_name(kind: str, account: str, region: str) -> None:
    field, message = must_be_refused(ARNS[kind]("gnomon-test-team-a--db", account=account, region=region), "team-a")
    assert field in FIELDS.values()
    assert f"is in account {account}, region {region}:" in message
    assert f"only account {ACCOUNT}, region {REGION}" in message


@pytest.mark.parametrize(
    "value",
    [
        "arn:aws:lambda:eu-central-1:123456789012:layer:gnomon-test-team-a--db",
        "arn:aws:s3:::gnomon-test-team-a--db",
        "123456789012:gnomon-test-team-a--db",
        "arn:aws:lambda:eu-central-1:\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662"
        ":function:gnomon-test-team-a--db",
        None,
        7,
        ["gnomon-test-team-a--db"],
        {"name": "gnomon-test-team-a--db"},
    ],
)
def test_values_that_name_no_function(value: object) -> None:
    must_be_refused({"type": "lambda", "functionName": value}, "team-a")


@pytest.mark.parametrize(
    "url",
    [
        "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--db?x=1",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--db?",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--db#",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-\ta--db",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/../123456789012/gnomon-test-team-a--db",
        "https://sqs.eu-central-1.amazonaws.com:443/123456789012/gnomon-test-team-a--db",
        "https://sqs.eu-central-1.amazonaws.com@evil.example/123456789012/gnomon-test-team-a--db",
        "https://eu-central-1.queue.amazonaws.com/123456789012/gnomon-test-team-a--db",
        "HTTPS://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--db",
        "http://sqs.eu-central-1.amazonaws.com/123456789012/gnomon-test-team-a--db",
        "gnomon-test-team-a--db",
        "https://[/123456789012/gnomon-test-team-a--db",
        None,
        {},
    ],
)
def test_values_that_name_no_queue(url: object) -> None:
    must_be_refused({"type": "sqs", "queueUrl": url}, "team-a")


@pytest.mark.parametrize("value", [{}, {"secretArn": None}, {"secretArn": ["x"]}, {"other": "x"}])
def test_stored_headers_that_name_no_secret_are_not_sent(value: object) -> None:
    target = {"type": "http", "url": "https://example.com/", "headers": {"X-Key": value}}
    with pytest.raises(InvalidFieldError):
        check_access(target, RULES, "team-a")
    assert send(target, "team-a").was_sent is False


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("echo", set(OWNERS)),
        ("billing", set(OWNERS)),
        ("billing.close", {"team-b"}),
        ("billing.public.show", set(OWNERS)),
        ("billing.public.drop", set()),
        ("billing.publicity", {"team-b"}),
        ("purge", {"team-a", MACHINE}),
        ("purge.all", set(OWNERS)),
        ("Purge", set(OWNERS)),
    ],
)
def test_handlers_are_run_by_whom_the_stage_lists(name: str, allowed: set[str]) -> None:
    target = {"type": "handler", "name": name}
    for owner in OWNERS:
        if owner in allowed:
            must_pass(target, owner)
            continue
        field, message = must_be_refused(target, owner)
        assert field == "target.name"
        assert f'"{name}"' in message
        assert f'jobs of "{owner}"' in message
        assert ("no job may run it" in message) == (not allowed)
        assert all(f'"{each}"' in message for each in allowed)


def test_a_name_comes_before_names_that_begin_so() -> None:
    rules = make_rules(handler_owners=(("a*", ("team-b",)), ("a", ("team-a",)), ("*", ())))
    must_pass({"type": "handler", "name": "a"}, "team-a", rules)
    must_be_refused({"type": "handler", "name": "a"}, "team-b", rules)
    must_pass({"type": "handler", "name": "ab"}, "team-b", rules)
    must_be_refused({"type": "handler", "name": "b"}, "team-b", rules)


# --- through the API ---

TEAM_A, TEAM_B = user("ann", "scheduler", "team-a"), user("bob", "scheduler", "team-b")
ADMIN = user("root", "admin", "team-b")
OWN = {"type": "lambda", "functionName": "gnomon-test-team-a--report"}
OTHER = {"type": "lambda", "functionName": "gnomon-test-team-b--report"}


def test_team_prefix_is_part_of_the_owner() -> None:
    assert own_prefix("dev", f"{TEAM_PREFIX}a") == "gnomon-dev-team-a--"


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_with_another_owner_s_target_is_not_created(kind: str) -> None:
    api = Api(claims=TEAM_A)
    reply = api.post("/v1/jobs", make_body(target=KINDS[kind]("gnomon-test-team-b--db")))
    assert (reply.status, reply.code) == (400, "VALIDATION_ERROR")
    assert list(reply.fields) == [FIELDS[KINDS[kind]("x")["type"]]]
    assert api.get("/v1/jobs").json["data"] == []
    assert api.post("/v1/jobs", make_body(target=KINDS[kind]("gnomon-test-team-a--db"))).status == 201


def test_bulk_and_workflows_are_checked_for_the_caller_s_team() -> None:
    api = Api(claims=TEAM_A)
    items = [make_body(target=OWN), make_body(target=OTHER)]
    assert [one["status"] for one in api.post("/v1/jobs/bulk", {"items": items}).json["data"]] == [201, 400]

    body = {"name": "two", "jobs": {"first": {"target": OWN}, "second": {"target": OTHER}}}
    reply = api.post("/v1/workflows", body)
    assert (reply.status, list(reply.fields)) == (400, ["jobs.second.target.functionName"])


def test_changes_are_checked_for_the_job_s_owner_whoever_makes_them() -> None:
    api = Api(claims=TEAM_A)
    path = api.create(target=OWN)
    api.claims = ADMIN
    for reply in (api.put(path, make_body(target=OTHER)), api.patch(path, {"target": OTHER})):
        assert (reply.status, list(reply.fields)) == (400, ["target.functionName"])
        assert '"gnomon-test-team-a--"' in reply.message
    assert api.patch(path, {"target": {"functionName": "gnomon-test-team-a--other"}}).status == 200


def test_a_change_that_leaves_the_target_alone_is_not_refused_for_it() -> None:
    """So that a job whose target is no longer allowed can be switched off."""
    api = Api(claims=TEAM_A)
    path = api.create(target=OWN)
    give_away(api.world, path)
    reply = api.patch(path, {"enabled": False}, claims=TEAM_B)
    assert (reply.status, reply.json["enabled"]) == (200, False)


def give_away(world: World, path: str, owner: str = "team-b") -> None:
    """Change the owner in the job's row, as only the table's owner can."""
    job_id = path.rpartition("/")[2]
    world.jobs.rows[job_id] = dataclasses.replace(world.jobs.rows[job_id], owner=owner)


def test_a_run_by_hand_of_what_the_owner_may_not_use_is_refused() -> None:
    api = Api(claims=TEAM_A)
    path = api.create(target=OWN)
    give_away(api.world, path)
    reply = api.post(f"{path}/execute", headers={"x-idempotency-key": "k"}, claims=TEAM_B)
    assert (reply.status, list(reply.fields)) == (400, ["target.functionName"])
    assert '"gnomon-test-team-b--"' in reply.message
    assert not api.world.jobs.rows[path.rpartition("/")[2]].runs
    give_away(api.world, path, "team-a")
    assert api.post(f"{path}/execute", claims=TEAM_A).status == 200


def test_a_retry_of_what_the_owner_may_not_use_is_refused() -> None:
    played = Played()
    played.api.claims = TEAM_A
    played.failing = {"x"}
    path = played.api.create(name="x", schedule={"type": "once", "at": "2027-01-15T08:00:10Z"}, target=OWN, **NEVER)
    played.run()
    give_away(played.world, path)
    reply = played.api.post(f"{path}/retry", {}, headers={"x-idempotency-key": "k"}, claims=TEAM_B)
    assert (reply.status, list(reply.fields)) == (400, ["target.functionName"])
    played.run()
    assert played.called == ["x"]
    give_away(played.world, path, "team-a")
    assert played.api.post(f"{path}/retry", {}, claims=TEAM_A).status == 200


def test_a_retry_of_a_workflow_with_such_a_job_retries_none() -> None:
    """Its target was allowed when it was made, and is not now."""
    played = Played()
    played.api.claims = TEAM_A
    played.failing = {"a", "b"}
    path = played.create(workflow(a=job(**NEVER), b=job(target=OWN, **NEVER)))
    played.run()
    redefine(played.world.jobs, played.ids(path)["b"], target={**OWN, "functionName": "gnomon-test-team-b--report"})
    reply = played.api.post(f"{path}/retry", headers={"x-idempotency-key": "k"})
    assert (reply.status, list(reply.fields)) == (400, ["jobs.b.target.functionName"])
    played.run()
    assert sorted(played.called) == ["a", "b"]
    redefine(played.world.jobs, played.ids(path)["b"], target=OWN)
    assert played.api.post(f"{path}/retry", headers={"x-idempotency-key": "k"}).status == 200, "the key was not spent"


def test_the_sender_is_told_the_owner_of_the_row() -> None:
    played = Played()
    played.api.claims = TEAM_A
    path = played.api.create(schedule={"type": "once", "at": "2027-01-15T08:00:10Z"}, target=OWN)
    give_away(played.world, path)
    owners: list[str] = []
    answer = played.world.targets.answers[0]

    def told(invocation: Invocation) -> TargetAnswer:
        owners.append(invocation.owner)
        return answer(invocation)

    played.world.targets.answers = [told]
    played.run()
    assert owners == ["team-b"]

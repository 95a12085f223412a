"""Which functions, queues, secrets and handlers the jobs of an owner may use
(docs/decisions/0076-names-of-targets-carry-their-owner.md).

The API checks this when a job is created, changed, retried or run by hand, the sender checks it again before each call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from functions.domain.errors import InvalidFieldError
from functions.domain.target_url import UrlRules, one_of, shown_value

EVERY_OWNER = "*"
"""Stands for all owners in a stage's list of who may run a handler."""
SEPARATOR = "--"
"""Ends the owner in a name. No owner has names of its own whose id contains it or ends with a hyphen, so a name belongs
to one owner at most."""
SHOWN_NAMES = 10
"""Shared names that a refusal lists."""

_OWNER = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")

_FUNCTION = re.compile(
    r"(?P<arn>arn:aws[a-z-]*:lambda:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):function:)?"
    r"(?P<name>[A-Za-z0-9_-]{1,64})(?::[A-Za-z0-9_$-]{1,128})?",
    re.ASCII,
)
_SECRET = re.compile(
    r"(?P<arn>arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):secret:)?"
    r"(?P<name>[A-Za-z0-9/_+=.@-]{1,512})",
    re.ASCII,
)
_QUEUE_PATH = re.compile(r"/(?P<account>\d{12})/(?P<name>[A-Za-z0-9_-]{1,80}(?:\.fifo)?)", re.ASCII)
_QUEUE_HOST = re.compile(r"sqs\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_QUEUE_FORM = "must be a queue's URL, https://sqs.<region>.amazonaws.com/<account>/<name>"


class StageRules(UrlRules, Protocol):
    """What a stage says of targets; `settings.TargetRules` is one."""

    @property
    def shared_targets(self) -> tuple[str, ...]:
        """`lambda:<name>`, `sqs:<name>`, `secret:<name>`: what the jobs of every owner may name."""
        ...

    @property
    def handler_owners(self) -> tuple[tuple[str, Sequence[str]], ...]:
        """A handler, or the beginning of names with `*` after it, and the owners whose jobs may run it."""
        ...


class TargetRules(StageRules, Protocol):
    """What jobs of a stage may name as targets; TargetPolicy is one."""

    @property
    def stage(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def region(self) -> str: ...


class TargetPolicy(NamedTuple):
    """The rules of one stage in one account."""

    stage: str
    account: str
    region: str
    unguarded_origins: tuple[str, ...]
    ports: tuple[int, ...]
    shared_targets: tuple[str, ...]
    handler_owners: tuple[tuple[str, Sequence[str]], ...]

    @classmethod
    def of_stage(cls, stage: str, rules: StageRules, *, home: str) -> TargetPolicy:
        """`home`: the ARN of anything in the stage's account and region."""
        _, _, _, region, account, *_ = home.split(":")
        return cls(
            stage=stage,
            account=account,
            region=region,
            unguarded_origins=rules.unguarded_origins,
            ports=rules.ports,
            shared_targets=rules.shared_targets,
            handler_owners=rules.handler_owners,
        )


def own_prefix(stage: str, owner: str) -> str | None:
    """How names of what belongs to an owner begin; None for an owner whose id cannot be part of a name."""
    return f"gnomon-{stage}-{owner}{SEPARATOR}" if _OWNER.fullmatch(owner) else None


def check_access(target: Mapping[str, Any], rules: TargetRules, owner: str) -> None:
    """Raise InvalidFieldError unless jobs of this owner may use what the target names; nothing is asked of AWS.

    It reads what is stored, too, so it takes a target of any form and refuses what it cannot read.
    """
    kind = target.get("type")
    if kind == "lambda":
        value = target.get("functionName")
        _check_named("target.functionName", value, _FUNCTION, "a function's name or ARN", "lambda", rules, owner)
    elif kind == "sqs":
        _check_queue(target.get("queueUrl"), rules, owner)
    elif kind == "handler":
        _check_handler(target.get("name"), rules, owner)
    elif kind == "http":
        for field, value in _secrets(target.get("headers")):
            _check_named(field, value, _SECRET, "a secret's name or ARN", "secret", rules, owner)


def _secrets(headers: object) -> Iterator[tuple[str, object]]:
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(value, Mapping):
            yield f"target.headers.{name}.secretArn", value.get("secretArn")


def _check_named(
    field: str, value: object, form: re.Pattern[str], what: str, kind: str, rules: TargetRules, owner: str
) -> None:
    match = form.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise wrong(field, value, f"must be {what}")
    if match["arn"] is not None:
        _check_place(field, value, match["account"], match["region"], rules)
    _check_name(field, value, match["name"], kind, rules, owner)


def _check_queue(url: object, rules: TargetRules, owner: str) -> None:
    # SQS goes by the account and the name: the SDK calls the region's endpoint, never this host.
    field = "target.queueUrl"
    if not isinstance(url, str) or len(url) > 512:
        raise wrong(field, url, _QUEUE_FORM)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise wrong(field, url, _QUEUE_FORM) from error
    match = _QUEUE_PATH.fullmatch(parts.path)
    at_home = _QUEUE_HOST.fullmatch(parts.netloc) if parts.scheme == "https" else None
    is_known = at_home is not None or _is_emulated(url, rules)
    if match is None or not is_known or f"{parts.scheme}://{parts.netloc}{parts.path}" != url:
        raise wrong(field, url, _QUEUE_FORM)
    _check_place(field, url, match["account"], at_home["region"] if at_home else rules.region, rules)
    _check_name(field, url, match["name"], "sqs", rules, owner)


def _is_emulated(url: str, rules: TargetRules) -> bool:
    """Whether the queue lives on an emulator beside a stage whose unguarded origins are on the same host."""
    host = urlsplit(url).hostname
    return any(
        urlsplit(entry.removesuffix(":*")).hostname == host
        for entry in rules.unguarded_origins
        if not entry.startswith("!")
    )


def _check_place(field: str, value: object, account: str, region: str, rules: TargetRules) -> None:
    if (account, region) != (rules.account, rules.region):
        raise wrong(
            field,
            value,
            f"is in account {account}, region {region}: "
            f"only account {rules.account}, region {rules.region} of this stage is allowed",
        )


def _check_name(field: str, value: object, name: str, kind: str, rules: TargetRules, owner: str) -> None:
    prefix = own_prefix(rules.stage, owner)
    if prefix is not None and name.startswith(prefix) and name != prefix:
        return
    # Exactly: the ARN of a secret that was shortened by its last six characters stands for another secret.
    if f"{kind}:{name}" in rules.shared_targets:
        return
    shared = sorted(entry.partition(":")[2] for entry in rules.shared_targets if entry.startswith(f"{kind}:"))
    more = f" and {len(shared) - SHOWN_NAMES} more" if len(shared) > SHOWN_NAMES else ""
    listed = f"a shared name ({one_of(shared[:SHOWN_NAMES])}{more})" if shared else ""
    whose = f"is not allowed for jobs of {shown_value(owner)}"
    if prefix is None:
        raise wrong(field, value, f"{whose}, which cannot be part of a name: use {listed or 'another target'}")
    or_shared = f", or {listed}" if listed else ""
    raise wrong(field, value, f"{whose}: use a name that begins with {one_of([prefix])}{or_shared}")


def _check_handler(name: object, rules: TargetRules, owner: str) -> None:
    entry = max(
        (each for each in rules.handler_owners if isinstance(name, str) and _is_about(each[0], name)),
        # The longest entry decides, and a name before names that begin so.
        key=lambda each: (len(each[0].removesuffix("*")), not each[0].endswith("*")),
        default=None,
    )
    if entry is None or EVERY_OWNER in entry[1] or owner in entry[1]:
        return
    allowed = f"only jobs of {one_of(sorted(entry[1]))}" if entry[1] else "no job"
    raise wrong("target.name", name, f"is not allowed for jobs of {shown_value(owner)}: {allowed} may run it")


def _is_about(entry: str, name: str) -> bool:
    return name.startswith(entry[:-1]) if entry.endswith("*") else name == entry


def wrong(field: str, value: object, rule: str) -> InvalidFieldError:
    return InvalidFieldError(field, f"{field} {shown_value(value)} {rule}.")

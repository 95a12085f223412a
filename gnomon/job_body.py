"""From what a person types to the body of `POST /v1/jobs`. Pure, but for reading the files a flag names."""

from __future__ import annotations

import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gnomon.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ON = ("success", "failure", "completion")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd]?)")


def seconds(text: str, *, flag: str) -> int:
    """`90`, `90s`, `15m`, `2h` or `1d` in seconds; raises UsageError naming the flag."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{flag} {text!r} is no duration.", advice="Write seconds, or a number with s, m, h or d: 15m."
        )
    return int(match[1]) * _UNITS[match[2]]


def schedule(
    *, cron: str | None, every: str | None, at: str | None, in_: str | None, timezone: str | None, now: datetime
) -> dict[str, Any]:
    """The one schedule given; raises UsageError for none or several."""
    given = {"--cron": cron, "--every": every, "--at": at, "--in": in_}
    flag, value = _one_of(given, "a schedule", "--cron '0 9 * * MON-FRI', --every 15m, --at 2027-01-31T16:00:00+01:00")
    if timezone is not None and flag in {"--every", "--in"}:
        raise UsageError(f"--timezone says nothing about {flag}.", advice="Leave it out: this one counts elapsed time.")
    zone = {} if timezone is None else {"timezone": timezone}
    if flag == "--cron":
        return {"type": "cron", "expression": value, **zone}
    if flag == "--every":
        return {"type": "interval", "everySeconds": seconds(value, flag=flag)}
    if flag == "--at":
        return {"type": "once", "at": value, **zone}
    return {"type": "once", "at": rfc3339(now + timedelta(seconds=seconds(value, flag=flag)))}


def dependencies(given: Sequence[str], *, when: str | None = None) -> list[dict[str, str]]:
    """`ID` or `ID:failure` each, as `dependsOn` has them, with the condition on the one there is; raises UsageError for
    another word after the colon, and for a condition that could be meant for several, or for none."""
    found: list[dict[str, str]] = []
    if when is not None and len(given) != 1:
        raise UsageError(
            "--when is a condition on the result of one --depends-on.",
            advice="With several, write them into a file: --file job.json.",
        )
    for one in given:
        job_id, colon, on = one.partition(":")
        if colon and on not in _ON:
            raise UsageError(
                f"--depends-on {one}: {on!r} is no way to end.", advice=f"Write ID:{', ID:'.join(_ON)}, or just ID."
            )
        found.append({"jobId": job_id, **({"on": on} if colon else {}), **({} if when is None else {"when": when})})
    return found


def gate(
    *,
    role: str | None,
    approvers: Sequence[str],
    timeout: str | None,
    on_timeout: str | None,
    four_eyes: bool | None,
) -> dict[str, Any] | None:
    """An approval gate, as `approval` has it, None for none; raises UsageError for one that nobody may open."""
    more = without_absent(
        {
            "approvers": list(approvers),
            "timeoutSeconds": None if timeout is None else seconds(timeout, flag="--approval-timeout"),
            "onTimeout": on_timeout,
            "fourEyes": four_eyes,
        }
    )
    if role is None and more:
        raise UsageError("A gate needs --approval-role.", advice="It names the group whose members decide.")
    return None if role is None else {"role": role, **more}


def target(
    *,
    http: str | None,
    method: str | None,
    handler: str | None,
    lambda_: str | None,
    sqs: str | None,
    worker: str | None,
) -> dict[str, Any]:
    """The one target given; raises UsageError for none or several."""
    given = {"--http": http, "--handler": handler, "--lambda": lambda_, "--sqs": sqs, "--worker": worker}
    example = "--http https://example.com/hook, --handler NAME, --lambda NAME, --sqs URL, --worker QUEUE"
    flag, value = _one_of(given, "a target", example)
    if method is not None and flag != "--http":
        raise UsageError("--method goes with --http only.", advice="Leave it out.")
    if flag == "--http":
        return {"type": "http", "url": value, **({} if method is None else {"method": method.upper()})}
    kind, field = {
        "--handler": ("handler", "name"),
        "--lambda": ("lambda", "functionName"),
        "--sqs": ("sqs", "queueUrl"),
        "--worker": ("worker", "queue"),
    }[flag]
    return {"type": kind, field: value}


def payload(text: str) -> Any:
    """JSON, or `@file` with JSON in it, or `@-` for standard input; raises UsageError."""
    source = text[1:] if text.startswith("@") else None
    return parse_json(text if source is None else read_text(source, flag="--payload"), flag="--payload")


def job_file(name: str) -> dict[str, Any]:
    """A whole job body from a file, or `-` for standard input; raises UsageError."""
    document = parse_json(read_text(name, flag="--file"), flag="--file")
    if not isinstance(document, dict):
        raise UsageError(f"--file {name} holds no JSON object.", advice='It is the body of POST /v1/jobs: {"name": …}.')
    return document


def workflow_file(name: str) -> dict[str, Any]:
    """A whole workflow from a file, or `-` for standard input; raises UsageError."""
    document = parse_json(read_text(name, flag="FILE"), flag="FILE")
    if not isinstance(document, dict):
        raise UsageError(f"{name} holds no JSON object.", advice='It is the body of POST /v1/workflows: {"name": …}.')
    return document


def read_text(name: str, *, flag: str) -> str:
    """The text of a file, `-` for standard input."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"{flag} {name}: {error.strerror}.", advice="Name a file you can read, or - for input."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag} {name} is not UTF-8.", advice="Save it as UTF-8.") from error


def parse_json(text: str, *, flag: str) -> Any:
    """JSON as the API takes it, so without NaN and infinities; raises UsageError."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    try:
        document = json.loads(text, parse_constant=refuse)
        json.dumps(document, allow_nan=False)
    except (ValueError, RecursionError) as error:
        advice = "Quote it for the shell: --payload '{\"a\": 1}', or use @file."
        if flag in ("--file", "FILE"):
            advice = "Mend the file: it is the body of the request."
        raise UsageError(f"{flag} is not JSON: {error}.", advice=advice) from error
    return document


def without_absent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was given: fields that are None, or an empty list or object, are left to the API's defaults."""
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {})}


def rfc3339(instant: datetime) -> str:
    """UTC in whole seconds, rounded up: a slot is never before the instant that was asked for."""
    whole = math.ceil(instant.timestamp())
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _one_of(given: Mapping[str, str | None], what: str, example: str) -> tuple[str, str]:
    chosen = [(flag, value) for flag, value in given.items() if value is not None]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(given)
    if not chosen:
        raise UsageError(f"The job needs {what}: one of {names}.", advice=f"For example {example}.")
    raise UsageError(
        f"{' and '.join(flag for flag, _ in chosen)} exclude each other.", advice=f"Give {what} once: one of {names}."
    )

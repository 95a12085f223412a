"""Jobs, attempts and slots as a person reads them: tables, local times, and how far away they are."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gnomon.shapes import Circuit, Execution, Gate, Job, Preview, RetryConfig

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "QUEUED": "cyan",
    "SCHEDULED": "blue",
    "RETRYING": "yellow",
    "PAUSED": "yellow",
    "BLOCKED": "yellow",
    "SKIPPED": "dim",
    "CANCELLED": "dim",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "PERMANENTLY_FAILED": "red",
}


def printable(value: object) -> str:
    """Text of others without control characters, so that a job's name cannot steer the terminal."""
    return _CONTROL.sub("�", str(value))


def parse(instant: str | None) -> datetime | None:
    """RFC 3339 as an aware datetime."""
    return None if instant is None else datetime.fromisoformat(instant)


def moment(instant: str | None, now: datetime) -> str:
    """In `now`'s zone, with the distance: `20:07:20 (in 3 s)`; with its date when that is another day."""
    at = parse(instant)
    if at is None:
        return ""
    local = at.astimezone(now.tzinfo)
    form = "%H:%M:%S" if local.date() == now.date() else "%Y-%m-%d %H:%M:%S"
    return f"{local.strftime(form)} ({distance(at - now)})"


def distance(away: timedelta) -> str:
    """`in 3 s`, `2 min ago`, `in 5 h`, `3 d ago`."""
    total = away.total_seconds()
    size = abs(total)
    if size < 1:
        return "now"
    amount = next(
        f"{int(size // unit)} {name}"
        for unit, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
        if size >= unit and (unit == 1 or size >= 2 * unit)
    )
    return f"in {amount}" if total > 0 else f"{amount} ago"


def schedule_words(schedule: Mapping[str, Any]) -> str:
    match schedule.get("type"):
        case "cron":
            zone = schedule.get("timezone")
            return printable(f"cron {schedule.get('expression')}" + (f" {zone}" if zone else ""))
        case "interval":
            return printable(f"every {schedule.get('everySeconds')} s")
        case _:
            return printable(f"once {schedule.get('at')}")


def when_words(job: Job) -> str:
    """When the job runs: by its schedule, or after others."""
    parents, schedule = job.get("dependsOn", []), job.get("schedule", {})
    if not parents:
        return schedule_words(schedule) if schedule else ""
    after = f"after {parents[0]['jobId']}" if len(parents) == 1 else f"after {job.get('join', 'all')} of {len(parents)}"
    return printable(after + (f", not before {schedule.get('at')}" if schedule else ""))


def target_words(target: Mapping[str, Any]) -> str:
    kind = target.get("type")
    field = {"http": "url", "handler": "name", "lambda": "functionName", "sqs": "queueUrl", "worker": "queue"}.get(
        str(kind), "name"
    )
    return printable(f"{kind} {target.get(field, '')}")


def next_run(job: Job, now: datetime) -> str | Text:
    """When the job's next slot is due; a paused job has none that will run."""
    return moment(job.get("nextRunAt") if job.get("enabled", True) else None, now)


def jobs_table(jobs: Iterable[Job], now: datetime) -> Table:
    table = Table("ID", "NAME", "STATUS", "SCHEDULE", "NEXT RUN", "LAST RUN", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for job in jobs:
        table.add_row(
            printable(job["id"]),
            Text(printable(job.get("name", ""))),
            job_status(job),
            Text(when_words(job)),
            next_run(job, now),
            last_run(job, now),
        )
    return table


def job_details(job: Job, now: datetime) -> Table:
    """One job, a field a line."""
    table = Table(show_header=False, box=None, pad_edge=False)
    rows: list[tuple[str, str | Text]] = [
        ("id", printable(job["id"])),
        ("name", printable(job.get("name", ""))),
        ("status", status(job.get("status", ""))),
        ("silent since", Text(moment(job.get("silentSince"), now), style="red")),
        ("schedule", when_words(job)),
        ("waits for", printable(job.get("upstream", {}).get("waitingFor") or "")),
        ("target", target_words(job.get("target", {}))),
        ("next run", next_run(job, now)),
        *(("waits", gate_line(gate, now)) for gate in job.get("gates", [])),
        ("last run", last_run(job, now)),
        ("created", moment(job.get("createdAt"), now)),
        ("owner", printable(job.get("owner", ""))),
        ("revision", str(job.get("revision", ""))),
        ("tags", printable(", ".join(job.get("tags", [])))),
    ]
    for name, value in rows:
        if value:
            table.add_row(Text(name, style="bold"), value if isinstance(value, Text) else Text(value))
    return table


def gate_line(gate: Gate, now: datetime) -> str:
    """A run at its approval gate: who decides, and until when."""
    role = gate.get("role") or "?"
    return printable(f"{gate['runId']} for approval by {role} until {moment(gate['decideBy'], now)}")


def executions_table(executions: Sequence[Execution], now: datetime, *, title: str | None = None) -> Table:
    """Attempts in the order given. LATE is the start against the instant it was due, in milliseconds."""
    table = Table("SLOT", "ATTEMPT", "STATUS", "STARTED", "LATE", "TOOK", "WHAT", title=title, box=None, pad_edge=False)
    table.title_justify = "left"
    table.columns[4].justify = table.columns[5].justify = "right"
    due = due_instants(executions)
    for execution in executions:
        started = parse(execution.get("startedAt"))
        table.add_row(
            clock_time(execution.get("scheduledFor") or execution.get("from"), now),
            str(execution.get("attempt") or ""),
            status(execution.get("status", "")),
            clock_time(execution.get("startedAt"), now, milliseconds=True),
            milliseconds(started, due.get(execution.get("id", ""))),
            milliseconds(parse(execution.get("completedAt")), started),
            Text(what(execution, now)),
        )
    return table


def retry_configs_table(configs: Iterable[RetryConfig], now: datetime) -> Table:
    table = Table("TYPE", "CONFIGURED", "CHANGED", "BY", box=None, pad_edge=False)
    for config in configs:
        words = ", ".join(f"{name} {_word(value)}" for name, value in _configured(config))
        changed = moment(config.get("updatedAt"), now)
        table.add_row(
            Text(printable(config["jobType"])), Text(words), changed, Text(printable(config.get("updatedBy", "")))
        )
    return table


def retry_config_details(config: RetryConfig, now: datetime) -> Table:
    """What is configured for a type, a field a line."""
    table = Table(show_header=False, box=None, pad_edge=False)
    rows = [
        ("type", printable(config["jobType"])),
        *((name, _word(value)) for name, value in _configured(config)),
        ("changed", moment(config.get("updatedAt"), now)),
        ("by", printable(config.get("updatedBy", ""))),
    ]
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def circuits_table(circuits: Iterable[Circuit], now: datetime) -> Table:
    table = Table("CIRCUIT", "STATE", "FAILURES", "SINCE", "OPEN UNTIL", "PROBE", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for circuit in circuits:
        table.add_row(
            Text(printable(circuit["key"])),
            circuit["state"],
            str(circuit["failures"]),
            moment(circuit.get("since"), now),
            moment(circuit.get("openUntil"), now),
            circuit.get("probe") or "",
        )
    return table


def _configured(config: RetryConfig) -> list[tuple[str, object]]:
    return [(name, value) for name, value in config.items() if name not in ("jobType", "updatedAt", "updatedBy")]


def _word(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def preview_table(preview: Preview, now: datetime) -> Table:
    table = Table("LOCAL TO THE ZONE", "UTC", "FROM NOW", box=None, pad_edge=False)
    for slot, local in zip(preview["slots"], preview["local"], strict=True):
        at = parse(slot)
        table.add_row(printable(local), printable(slot), "" if at is None else distance(at - now))
    return table


def execution_line(execution: Execution, now: datetime, *, among: Sequence[Execution]) -> str:
    """One attempt as a plain line, for logs and pipes; `among` the others says when it was due."""
    late = milliseconds(parse(execution.get("startedAt")), due_instants(among).get(execution.get("id", "")))
    parts = [
        clock_time(execution.get("completedAt") or execution.get("startedAt"), now, milliseconds=True),
        f"slot {clock_time(execution.get('scheduledFor') or execution.get('from'), now)}",
        f"attempt {execution['attempt']}" if execution.get("attempt") else "",
        printable(execution.get("status", "")),
        f"started {late} late" if late else "",
        what(execution, now),
    ]
    return "  ".join(part for part in parts if part)


def what(execution: Execution, now: datetime) -> str:
    """Why it ended so, and what follows."""
    parts: list[str] = []
    error = execution.get("error")
    if error:
        parts.append(f"{error.get('code', '')}: {error.get('message', '')}")
    # That a retry follows is said by its time.
    progress = execution.get("progress")
    if progress:
        parts.append(f"{progress.get('percent', 0):g} % {progress.get('message', '')}".rstrip())
    told_below = ("RETRY_SCHEDULED", execution.get("deferredFor") if execution.get("deferrals") else None)
    if execution.get("reason") and execution["reason"] not in told_below:
        parts.append(str(execution["reason"]))
    if put_off := execution.get("deferrals"):
        parts.append(f"put off {'once' if put_off == 1 else f'{put_off} times'}: {execution.get('deferredFor')}")
    decided = execution.get("approval")
    if decided:
        said = f": {decided['comment']}" if decided.get("comment") else ""
        parts.append(f"{decided['decision']} by {decided['by']}{said}")
    if execution.get("count"):
        parts.append(f"{execution['count']} slots to {clock_time(execution.get('to'), now)}")
    if execution.get("nextRetryAt"):
        verb = "starts" if execution.get("status") == "QUEUED" else "retry"
        parts.append(f"{verb} at {clock_time(execution['nextRetryAt'], now)}")
    return printable("; ".join(parts))


def due_instants(executions: Iterable[Execution]) -> dict[str, datetime]:
    """When each attempt was due, by execution id: the first at its slot, a later one when the one before said."""
    retries = {
        (execution.get("runId"), execution.get("attempt", 0) + 1): parse(execution.get("nextRetryAt"))
        for execution in executions
    }
    due: dict[str, datetime] = {}
    for execution in executions:
        attempt = execution.get("attempt", 1)
        at = parse(execution.get("scheduledFor")) if attempt == 1 else retries.get((execution.get("runId"), attempt))
        if at is not None and "id" in execution:
            due[execution["id"]] = at
    return due


def milliseconds(later: datetime | None, earlier: datetime | None) -> str:
    if later is None or earlier is None:
        return ""
    return f"{round((later - earlier) / timedelta(milliseconds=1))} ms"


def clock_time(instant: str | None, now: datetime, *, milliseconds: bool = False) -> str:
    """`20:07:20` in `now`'s zone, with its date when that is another day."""
    at = parse(instant)
    if at is None:
        return ""
    local = at.astimezone(now.tzinfo)
    day = "" if local.date() == now.date() else local.strftime("%Y-%m-%d ")
    fraction = f".{local.microsecond // 1000:03d}" if milliseconds else ""
    return f"{day}{local.strftime('%H:%M:%S')}{fraction}"


def last_run(job: Job, now: datetime) -> Text:
    run = job.get("lastRun")
    if not run:
        return Text("")
    outcome = run.get("outcome", "")
    return Text.assemble(status(outcome), f" {moment(run.get('scheduledFor'), now)}")


def job_status(job: Job) -> Text:
    """The job's status, and that it is silent."""
    silent = Text(" SILENT", style="red") if job.get("silentSince") else Text("")
    return Text.assemble(status(job.get("status", "")), silent)


def status(word: str) -> Text:
    return Text(printable(word), style=_STYLES.get(word, ""))

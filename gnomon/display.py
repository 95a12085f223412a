"""Jobs and their attempts as a person reads them. Times are in this machine's zone, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gnomon.moments import away, clock_time, distance, milliseconds, moment, parse
from gnomon.safe_text import printable
from gnomon.type_display import (
    circuits_table,
    fields_table,
    preview_table,
    retry_config_details,
    retry_configs_table,
    webhook_key_details,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from datetime import datetime

    from rich.console import Console

    from gnomon.shapes import Gate, HistoryEntry, Job, JobSummary, WaitingFor

__all__ = [
    "circuits_table",
    "clock_time",
    "distance",
    "execution_line",
    "executions_table",
    "fitted",
    "gate_line",
    "job_details",
    "jobs_table",
    "moment",
    "next_run",
    "preview_table",
    "printable",
    "retry_config_details",
    "retry_configs_table",
    "short_ids",
    "status",
    "webhook_key_details",
    "what",
    "when_words",
]

WIDE = 180
"""Columns from which a job's whole row fits. Below, ids are short, and times are distances."""
_WITH_SCHEDULES = 110
_SHORT_ID = 8
_ENDLESS = 100_000
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
_BRIEF = {"PERMANENTLY_FAILED": "FAILED"}


def schedule_words(schedule: Mapping[str, Any]) -> str:
    match schedule.get("type"):
        case "cron":
            zone = schedule.get("timezone")
            return printable(f"cron {schedule.get('expression')}" + (f" {zone}" if zone else ""))
        case "interval":
            return printable(f"every {schedule.get('everySeconds')} s")
        case _:
            return printable(f"once {schedule.get('at')}")


def when_words(job: Job | JobSummary) -> str:
    """When the job runs: by its schedule, or after others."""
    parents, schedule = job.get("dependsOn", []), cast("dict[str, Any]", job.get("schedule", {}))
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


def next_run(job: Job | JobSummary, now: datetime) -> str:
    """When the job's next slot is due; a paused job has none that will run."""
    return moment(_next(job), now)


def _next(job: Job | JobSummary) -> str | None:
    return job.get("nextRunAt") if job.get("enabled", True) else None


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The first characters of each id: eight, or as many as make them differ."""
    known = list(ids)
    length = next(
        (size for size in range(_SHORT_ID, 36) if len({one[:size] for one in known}) == len(set(known))), None
    )
    return {one: one[:length] for one in known}


def jobs_table(jobs: Sequence[Job | JobSummary], now: datetime, *, width: int = WIDE) -> Table:
    """A row for each job. Below WIDE columns the row is brief, so that it stays one line."""
    if width < WIDE:
        return _brief_jobs_table(jobs, now, has_schedules=width >= _WITH_SCHEDULES)
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


def _brief_jobs_table(jobs: Sequence[Job | JobSummary], now: datetime, *, has_schedules: bool) -> Table:
    heads = ["ID", "NAME", "STATUS", *(["SCHEDULE"] if has_schedules else []), "NEXT RUN", "LAST RUN"]
    table = Table(*heads, box=None, pad_edge=False)
    one_line(table, cut={"NAME", "SCHEDULE"})
    ids = short_ids(job["id"] for job in jobs)
    for job in jobs:
        run = job.get("lastRun")
        outcome = run["outcome"] if run else ""
        last = Text.assemble(status(_BRIEF.get(outcome, outcome)), " ", away(run["scheduledFor"], now) if run else "")
        table.add_row(
            printable(ids[job["id"]]),
            Text(printable(job.get("name", ""))),
            job_status(job),
            *([Text(when_words(job))] if has_schedules else []),
            away(_next(job), now),
            last,
        )
    return table


def one_line(table: Table, *, cut: Set[object]) -> None:
    """Keep each row of the table on one line: the columns in `cut` are cut where the rest leaves too little room."""
    for column in table.columns:
        column.no_wrap = True
        if column.header in cut:
            column.overflow = "ellipsis"
            column.ratio = 1  # takes what the others leave, once the table is as wide as the terminal


def fitted(table: Table, console: Console) -> Table:
    """The table, as wide as the terminal where its rows are wider, so that its column of `one_line` is cut alone."""
    endless = console.options.update(max_width=_ENDLESS)
    table.expand = Measurement.get(console, endless, table).maximum > console.width
    return table


def job_details(job: Job, now: datetime) -> Table:
    """One job, a field a line."""
    rows: list[tuple[str, str | Text]] = [
        ("id", printable(job["id"])),
        ("name", printable(job.get("name", ""))),
        ("status", status(job.get("status", ""))),
        ("silent since", Text(moment(job.get("silentSince"), now), style="red")),
        ("schedule", when_words(job)),
        ("waits for", waiting_words(job.get("waitingFor"), now)),
        ("target", target_words(cast("dict[str, Any]", job.get("target", {})))),
        ("next run", next_run(job, now)),
        *(("waits", gate_line(gate, now)) for gate in job.get("gates", [])),
        ("last run", last_run(job, now)),
        ("created", moment(job.get("createdAt"), now)),
        ("owner", printable(job.get("owner", ""))),
        ("revision", str(job.get("revision", ""))),
        ("tags", printable(", ".join(job.get("tags", [])))),
    ]
    return fields_table((name, value) for name, value in rows if value)


def waiting_words(waiting: WaitingFor | None, now: datetime) -> str:
    """`worker reports since 20:07:20 (3 s ago)`; nothing for what waits for its time alone."""
    if not waiting:
        return ""
    since = moment(waiting["since"], now)
    words = (waiting["kind"].replace("_", " "), waiting["name"] or "", f"since {since}" if since else "")
    return printable(" ".join(word for word in words if word))


def gate_line(gate: Gate, now: datetime) -> str:
    """A run at its approval gate: who decides, and until when."""
    role = gate.get("role") or "?"
    return printable(f"{gate['runId']} for approval by {role} until {moment(gate['decideBy'], now)}")


def executions_table(
    executions: Sequence[HistoryEntry], now: datetime, *, title: str | None = None, width: int = WIDE
) -> Table:
    """Attempts in the order given. LATE is the start against the instant it was due, in milliseconds."""
    heads = ["SLOT", "ATTEMPT", "STATUS", "STARTED", "LATE", "TOOK", "WHAT"]
    if width < WIDE * 2 // 3:
        heads = ["SLOT", "NO.", "STATUS", "TOOK", "WHAT"]
    table = Table(*heads, title=title, box=None, pad_edge=False)
    table.title_justify = "left"
    for column in table.columns[:-1]:
        column.no_wrap = True
        column.justify = "right" if column.header in {"LATE", "TOOK"} else "left"
    due = due_instants(executions)
    for entry in map(fields, executions):
        started = parse(entry.get("startedAt"))
        cells: dict[str, str | Text] = {
            "SLOT": clock_time(entry.get("scheduledFor") or entry.get("from"), now),
            "ATTEMPT": str(entry.get("attempt") or ""),
            "STATUS": status(entry.get("status", "")),
            "STARTED": clock_time(entry.get("startedAt"), now, milliseconds=True),
            "LATE": milliseconds(started, due.get(entry.get("id", ""))),
            "TOOK": milliseconds(parse(entry.get("completedAt")), started),
            "WHAT": Text(_what(entry, now)),
        }
        cells["NO."] = cells["ATTEMPT"]
        table.add_row(*(cells[head] for head in heads))
    return table


def execution_line(execution: HistoryEntry, now: datetime, *, among: Sequence[HistoryEntry]) -> str:
    """One attempt as a plain line, for logs and pipes; `among` the others says when it was due."""
    entry = fields(execution)
    late = milliseconds(parse(entry.get("startedAt")), due_instants(among).get(entry.get("id", "")))
    parts = [
        clock_time(entry.get("completedAt") or entry.get("startedAt"), now, milliseconds=True),
        f"slot {clock_time(entry.get('scheduledFor') or entry.get('from'), now)}",
        f"attempt {entry['attempt']}" if entry.get("attempt") else "",
        printable(entry.get("status", "")),
        f"started {late} late" if late else "",
        _what(entry, now),
    ]
    return "  ".join(part for part in parts if part)


def what(execution: HistoryEntry, now: datetime) -> str:
    """Why it ended so, and what follows."""
    return _what(fields(execution), now)


def _what(entry: Mapping[str, Any], now: datetime) -> str:
    parts: list[str] = []
    error = entry.get("error")
    if error:
        parts.append(f"{error.get('code', '')}: {error.get('message', '')}")
    # That a retry follows is said by its time.
    progress = entry.get("progress")
    if progress:
        parts.append(f"{progress.get('percent', 0):g} % {progress.get('message', '')}".rstrip())
    told_below = ("RETRY_SCHEDULED", entry.get("deferredFor") if entry.get("deferrals") else None)
    if entry.get("reason") and entry["reason"] not in told_below:
        parts.append(str(entry["reason"]))
    if put_off := entry.get("deferrals"):
        parts.append(f"put off {'once' if put_off == 1 else f'{put_off} times'}: {entry.get('deferredFor')}")
    decided = entry.get("approval")
    if decided:
        said = f": {decided['comment']}" if decided.get("comment") else ""
        parts.append(f"{decided['decision']} by {decided['by']}{said}")
    if waiting := waiting_words(entry.get("waitingFor"), now):
        parts.append(f"waits for {waiting}")
    if entry.get("count"):
        parts.append(f"{entry['count']} slots to {clock_time(entry.get('to'), now)}")
    if entry.get("nextRetryAt"):
        verb = "starts" if entry.get("status") == "QUEUED" else "retry"
        parts.append(f"{verb} at {clock_time(entry['nextRetryAt'], now)}")
    return printable("; ".join(parts))


def due_instants(executions: Iterable[HistoryEntry]) -> dict[str, datetime]:
    """When each attempt was due, by execution id: the first at its slot, a later one when the one before said."""
    entries = [fields(execution) for execution in executions]
    retries = {(entry.get("runId"), entry.get("attempt", 0) + 1): parse(entry.get("nextRetryAt")) for entry in entries}
    due: dict[str, datetime] = {}
    for entry in entries:
        attempt = entry.get("attempt", 1)
        at = parse(entry.get("scheduledFor")) if attempt == 1 else retries.get((entry.get("runId"), attempt))
        if at is not None and "id" in entry:
            due[entry["id"]] = at
    return due


def fields(entry: HistoryEntry) -> Mapping[str, Any]:
    """What an attempt or a line of skipped slots has, whichever it is."""
    return cast("Mapping[str, Any]", entry)


def last_run(job: Job | JobSummary, now: datetime) -> Text:
    run = job.get("lastRun")
    if not run:
        return Text("")
    return Text.assemble(status(run.get("outcome", "")), f" {moment(run.get('scheduledFor'), now)}")


def job_status(job: Job | JobSummary) -> Text:
    """The job's status, what it waits for, and that it is silent."""
    silent = Text(" SILENT", style="red") if job.get("silentSince") else Text("")
    waiting = job.get("waitingFor")
    kind = Text(printable(f" ({waiting['kind'].replace('_', ' ')})"), style="dim") if waiting else Text("")
    return Text.assemble(status(job.get("status", "")), kind, silent)


def status(word: str) -> Text:
    return Text(printable(word), style=_STYLES.get(word, ""))

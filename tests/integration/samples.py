"""What the files in events/ say: rows and messages of each shape that a release ever wrote or sent.

A changed shape gets a new file beside the old one, and a line here; the old one stays as long as it may be stored.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from functions.domain.definition import Priority
from functions.domain.execution import Execution, ExecutionError, ExecutionStatus, SkippedSlots
from functions.domain.job import Followed, Gap, Job, SkipReason, Upstream
from functions.domain.run import Approval, Decision, LastRun, Outcome, RunState
from functions.domain.silence import Silence
from tests.factories import JOB_ID, NOW, make_definition, make_run

EVENTS = Path(__file__).parents[2] / "events"

DEFINITION = make_definition(
    payload='{"invoice":17,"rate":1.0}',
    schedule={"type": "cron", "expression": "*/5 * * * *", "timezone": "Europe/Berlin"},
    retryConfig={"maxRetries": 5},
    overlapPolicy="allow",
    priority="high",
    spreadSeconds=30,
)
FULL_ROW = Job(
    id=JOB_ID,
    owner="team-billing",
    created_by="d2c4a6e8-1020-4304-8506-0708090a0b0c",
    created_at=NOW,
    revision=3,
    seq=41,
    write_id="AbCdEfGhIjKl",
    revised_by="MnOpQrStUvWx",
    definition=DEFINITION,
    priority=Priority.HIGH,
    spread=7,
    next_slot=NOW + 900,
    last_slot=NOW + 600,
    runs=MappingProxyType(
        {
            f"{NOW + 600}": make_run(started_at=NOW + 607.25, started_by="YzAbCdEfGhIj", fence=5),
            f"{NOW + 300}": make_run(state=RunState.WAITING, attempt=1, due_at=NOW + 640, fence=4),
            f"{NOW + 601}mabcdefgh": make_run(state=RunState.QUEUED, due_at=None, manual=True, fence=0),
        }
    ),
    fence=5,
    gap=Gap(first=NOW, last=NOW, count=1, reason=SkipReason.OVERLAP),
    catch_up_to=NOW + 900,
    starts=3,
    brake_minute=NOW // 60,
    brake_count=2,
    attention_at=NOW + 670,
    wakes=1,
    paused=True,
    cancelled=True,
    deleted_at=NOW + 650,
    last_run=LastRun(
        slot_id=str(NOW),
        attempt=4,
        outcome=Outcome.PERMANENTLY_FAILED,
        fence=3,
        ended_at=NOW + 90,
        error_code="TIMEOUT",
    ),
)
ROW_WITH_ALARM = replace(
    FULL_ROW,
    paused=False,
    cancelled=False,
    deleted_at=None,
    silence=Silence(after=90_000, since=NOW - 100_000, last_success_at=NOW - 100_000, alerted=True, once=True),
)
"""Since there are silence alarms."""
ROW_OF_A_GRAPH = replace(
    ROW_WITH_ALARM,
    last_slot=None,
    next_slot=None,
    silence=None,
    gap=None,
    catch_up_to=None,
    runs=MappingProxyType(
        {
            f"{NOW + 610}dabcdefgh": make_run(
                state=RunState.WAITING,
                attempt=0,
                due_at=NOW + 4_210,
                waits_for="approval",
                manual=True,
                took=(3, 12),
                verdict=Outcome.SKIPPED,
                verdict_for="UPSTREAM_FAILED",
                approval=Approval(decision=Decision.REJECTED, by="alice", at=NOW + 640, comment="Not before Monday."),
            )
        }
    ),
    last_run=LastRun(
        slot_id=f"{NOW}dabcdefgh",
        attempt=1,
        outcome=Outcome.SKIPPED,
        fence=3,
        ended_at=NOW + 90,
        reason="UPSTREAM_CANCELLED",
    ),
    upstream=Upstream(marks=(3, 12), look_at=NOW + 4_200, since=NOW + 600, blocked_by=1),
    followed=Followed(ends=2, told=1, cursor="1c1e7d3f-2b4a-4c5d-8e6f-0a1b2c3d4e5f", once=True),
)
"""Since jobs depend on others and wait for people."""
END = LastRun(
    slot_id=str(NOW),
    attempt=4,
    outcome=Outcome.PERMANENTLY_FAILED,
    fence=4,
    ended_at=NOW + 71,
    error_code="HTTP_503",
    ended_by="AbCdEfGhIjKl",
    started_at=NOW + 70.125,
    completed_at=NOW + 70.5,
    result='{"ok":false}',
)
FAILED_EXECUTION = Execution(
    job_id=JOB_ID,
    slot_id=str(NOW),
    attempt=4,
    status=ExecutionStatus.FAILED,
    final=True,
    fence=4,
    write_id="AbCdEfGhIjKl",
    started_at=NOW + 70.125,
    completed_at=NOW + 70.5,
    next_retry_at=NOW + 80,
    reason="RETRIES_EXHAUSTED",
    error=ExecutionError(code="HTTP_503", message="HTTP 503 Service Unavailable"),
    result='{"ok":false}',
)
GAP_ROW = SkippedSlots(
    job_id=JOB_ID, first=NOW, last=NOW + 300, count=2, reason=SkipReason.PAUSED, recorded_at=NOW + 400.5
)


def sample(name: str) -> dict[str, Any]:
    """The content of events/<name>.json."""
    content: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return content

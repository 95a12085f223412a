"""What the API answers about workflows, as in gnomon/shapes.py."""

from typing import Literal, TypedDict

from gnomon.shapes import JobStatus, LastRun, WaitingFor

WorkflowStatus = Literal["RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]
WorkflowMemberStatus = JobStatus | Literal["DELETED"]


class WorkflowBlocker(TypedDict):
    """A job that another one waits for; `name` is None for one outside the workflow."""

    name: str | None
    jobId: str
    status: WorkflowMemberStatus


class WorkflowMember(TypedDict):
    """A job of a workflow. `waitsFor` is None for one that runs or has ended."""

    name: str
    jobId: str
    status: WorkflowMemberStatus
    waitsFor: Literal["jobs", "approval", "time", "resume", "turn"] | None
    waitingFor: WaitingFor | None
    blockedBy: list[WorkflowBlocker]
    nextRunAt: str | None
    readyAt: str | None
    startedAt: str | None
    endedAt: str | None
    lastRun: LastRun | None


WorkflowEdge = TypedDict(
    "WorkflowEdge",
    {
        "from": str | None,
        "fromId": str,
        "to": str,
        "on": Literal["success", "failure", "completion"],
        "when": str | None,
    },
)


class WorkflowSpan(TypedDict):
    """What a job has added to the time of its workflow."""

    name: str
    jobId: str
    seconds: int


class _WorkflowHead(TypedDict):
    id: str
    name: str
    owner: str
    createdBy: str
    createdAt: str


class Workflow(_WorkflowHead):
    """Jobs that were created together."""

    status: WorkflowStatus
    jobs: list[WorkflowMember]
    edges: list[WorkflowEdge]
    criticalPath: list[WorkflowSpan]


class WorkflowSummary(_WorkflowHead):
    jobCount: int

"""Row 1: what the API's function does by itself in one request, beside a bare handler of the same body.

The ports are the in-memory ones of the tests. Their time is measured by itself, by doing once more what the request
asked of them, and is taken off: in production they are other processes on the network.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.bare_app import Answers, by_hand, by_powertools
from bench.measuring import Spread, cpu_seconds, interleaved, pinned, ratios
from functions.api.app import create_app
from functions.domain.job import Job
from functions.domain.target_access import TargetPolicy
from functions.settings import TargetRules
from functions.usecases.services import Services
from tests.api_client import sample_event
from tests.fakes import InMemoryRateLimits, World

ROUNDS = 90
TIMES = 40
"""Requests a measurement."""
JOBS_OF_A_LIST = 20
UNLIMITED = 10**9
RULES = TargetPolicy(stage="bench", account="123456789012", region="eu-central-1", **dataclasses.asdict(TargetRules()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTime:
    """Microseconds of CPU a request."""

    request: str
    whole: Spread
    ports: Spread
    """Of `whole`: the in-memory ports."""
    own: Spread
    by_powertools: Spread
    by_hand: Spread
    ratio: Spread
    """Own time to the bare handler by Powertools' validation."""
    ratio_by_hand: Spread
    """Own time to the leanest handler."""


def reference_body() -> dict[str, Any]:
    """The reference job: one-time, `http`, a payload of 200 bytes."""
    return {
        "name": "nightly report",
        "schedule": {"type": "once", "at": "2027-01-16T02:00:00Z"},
        "target": {"type": "http", "url": "https://reports.example.com/build"},
        "payload": {"text": "x" * 189},
    }


def measure_requests(*, rounds: int = ROUNDS) -> list[RequestTime]:
    """POST, GET one and GET list."""
    prepared = Prepared()
    with pinned():
        return [
            _measured("POST /v1/jobs", prepared.create, prepared, rounds),
            _measured("GET /v1/jobs/{jobId}", prepared.get_job, prepared, rounds),
            _measured(f"GET /v1/jobs ({JOBS_OF_A_LIST} jobs)", prepared.list_jobs, prepared, rounds),
        ]


class PortCall(NamedTuple):
    port: str
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Recorded:
    """Stands before a port and keeps what it was asked."""

    def __init__(self, name: str, port: object, calls: list[PortCall]) -> None:
        self._name, self._port, self._calls = name, port, calls

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.append(PortCall(self._name, method, args, kwargs))
            return getattr(self._port, method)(*args, **kwargs)

        return call


class Served:
    """The API over a world of its own, in which `jobs` wait."""

    def __init__(self, jobs: Mapping[str, Job] | None = None, *, record: bool = False) -> None:
        world = World()
        for job in (jobs or {}).values():
            world.jobs.put(job)
        limits = InMemoryRateLimits(
            reads_per_minute=UNLIMITED,
            writes_per_minute=UNLIMITED,
            work_per_minute=UNLIMITED,
            creations_per_day=UNLIMITED,
        )
        self.world = world
        self.calls: list[PortCall] = []
        self.ports: dict[str, Any] = {
            "limits": limits,
            "jobs": world.jobs,
            "history": world.history,
            "timetable": world.timetable,
            "idempotency": world.idempotency,
            "owners": world.owners,
            "workers": world.workers,
            "progress": world.progress,
            "retry_configs": world.retry_configs,
            "types": world.types,
            "machine": world.machine,
            "dependents": world.dependents,
            "graphs": world.graphs,
            "workflows": world.workflows,
            "circuits": world.circuits,
            "slots": world.slots,
            "clock": world.clock,
        }
        shown = dict(self.ports)
        if record:
            shown = {name: Recorded(name, port, self.calls) for name, port in self.ports.items()}
        self.app = create_app(
            Services(**{name: port for name, port in shown.items() if name != "limits"}),
            limits=shown["limits"],
            rules=RULES,
            check_address=lambda _url: None,  # it asks the DNS
            stage="bench",
            version="0",
        )

    def again(self, calls: list[PortCall]) -> Callable[[], None]:
        """Does to this world's ports what was recorded at another's."""
        bound = [(getattr(self.ports[call.port], call.method), call.args, call.kwargs) for call in calls]

        def work() -> None:
            for method, args, kwargs in bound:
                method(*args, **kwargs)

        return work


class Prepared:
    """The events, the jobs they find, and what is answered to them."""

    def __init__(self) -> None:
        self.create = sample_event("api-create-job") | {"body": json.dumps(reference_body())}
        del self.create["headers"]["x-idempotency-key"]
        served = Served()
        created = [served.app(self.create, None) for _ in range(JOBS_OF_A_LIST)]
        self.jobs = dict(served.world.jobs.rows)
        path = created[0]["headers"]["Location"]
        self.get_job = sample_event("api-get-job") | {"rawPath": path}
        del self.get_job["headers"]["if-none-match"]
        self.get_job["requestContext"]["http"]["path"] = path
        query = {"rawQueryString": "limit=50", "queryStringParameters": {"limit": "50"}}
        self.list_jobs = sample_event("api-list-jobs") | query
        job = json.loads(served.app(self.get_job, None)["body"])
        self.answers = Answers(
            added={name: value for name, value in job.items() if name not in reference_body().keys() | {"id"}},
            jobs={job["id"]: job},
            page=json.loads(served.app(self.list_jobs, None)["body"]),
        )


def _measured(name: str, event: dict[str, Any], prepared: Prepared, rounds: int) -> RequestTime:
    recorder = Served(prepared.jobs, record=True)
    for _ in range(TIMES):
        recorder.app(event, None)
    bare = {
        "by_hand": by_hand(prepared.answers),
        "by_powertools": by_powertools(prepared.answers),
    }

    def whole() -> float:
        app = Served(prepared.jobs).app
        return cpu_seconds(lambda: app(event, None), times=TIMES)

    def ports() -> float:
        return cpu_seconds(Served(prepared.jobs).again(recorder.calls), times=1) / TIMES

    _same_answer(name, Served(prepared.jobs).app(event, None), *(resolve(event, None) for resolve in bare.values()))
    measures = {"whole": whole, "ports": ports} | {
        label: lambda resolve=resolve: cpu_seconds(lambda: resolve(event, None), times=TIMES)  # type: ignore[misc]  # bound here
        for label, resolve in bare.items()
    }
    interleaved(measures, rounds=2)  # Nothing is loaded or compiled later.
    values = {label: [1e6 * value for value in each] for label, each in interleaved(measures, rounds=rounds).items()}
    own = [one - ports for one, ports in zip(values["whole"], values["ports"], strict=True)]
    return RequestTime(
        request=name,
        own=Spread.of(own),
        ratio=ratios(own, values["by_powertools"]),
        ratio_by_hand=ratios(own, values["by_hand"]),
        **{label: Spread.of(each) for label, each in values.items()},
    )


def _same_answer(name: str, ours: Mapping[str, Any], *floors: Mapping[str, Any]) -> None:
    """A floor that answers something else is none."""
    for floor in floors:
        one, other = json.loads(ours["body"]), json.loads(floor["body"])
        if (ours["statusCode"], one.keys()) != (floor["statusCode"], other.keys()):
            raise AssertionError(f"{name}: the floor answers {floor}, not {ours}")

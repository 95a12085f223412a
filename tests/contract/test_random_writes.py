"""Random sequences of conditional writes: the fake of each port and its adapter on moto answer alike, and store alike.

The simulation decides over the fakes: what it shows holds as far as they refuse exactly what DynamoDB refuses. Reads
that are stale, writes that come again, keys of every length and character are drawn on purpose.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.adapters.dynamodb_circuits import DynamoDbCircuits
from functions.adapters.dynamodb_definitions import row_name
from functions.adapters.dynamodb_graph import DynamoDbDependents
from functions.adapters.dynamodb_history import DynamoDbHistory
from functions.adapters.dynamodb_idempotency import DynamoDbIdempotencyKeys
from functions.adapters.dynamodb_jobs import DynamoDbJobs
from functions.adapters.dynamodb_owners import DynamoDbOwners
from functions.adapters.dynamodb_progress import DynamoDbProgress
from functions.adapters.dynamodb_retry_configs import DynamoDbRetryConfigs
from functions.adapters.dynamodb_slots import DynamoDbSlots
from functions.adapters.dynamodb_workers import DynamoDbWorkers
from functions.domain.circuit import Probe
from functions.domain.concurrency import Slot
from functions.domain.errors import GnomonError, LostRaceError
from functions.domain.execution import ExecutionStatus
from functions.domain.ids import slot_id
from functions.domain.job import Gap, SkipReason
from functions.domain.job_type import StoredTypeConfig
from functions.domain.progress import Progress
from functions.domain.run import LastRun, Outcome, RunState
from functions.domain.worker import Worker, new_worker_id
from tests.conftest import Aws
from tests.contract.conftest import RETENTION_DAYS
from tests.factories import NOW, make_execution, make_job, make_run, new_id
from tests.fakes import (
    InMemoryCircuits,
    InMemoryHistory,
    InMemoryIdempotencyKeys,
    InMemoryJobs,
    InMemoryOwners,
    InMemoryProgress,
    InMemoryRetryConfigs,
    InMemorySlots,
    InMemoryWorkers,
)
from tests.graph_fakes import InMemoryDependents
from tests.kept_items import all_items, check_item
from tests.seeded import ids_of
from tests.tables import create_tables

pytestmark = pytest.mark.slow

EXAMPLES, STEPS = 12, 15
NAMES = ("a", "#", "a#b|c", "name with spaces", "Müller ✓ 漢字", ":value", "'\"\\", "x" * 255, "ü" * 127)
"""Of owners, keys, queues: at the edges of what the API takes."""
TEXTS = ("", " ", "text", "\u0000\u2028\U0001f4a5", "x" * 256)
PAYLOADS = ("{}", '""', "[1.0, -0.0, 1e-7]", '{"text": "' + "y" * 3_000 + '"}')
"""The last one has a row of its own."""


WRITES = (
    "take",
    "free",
    "save",
    "register",
    "put",
    "report",
    "record",
    "record_gap",
    "record_end",
    "create",
    "create_all",
)


class CountingJobs(InMemoryJobs):
    """Whether a definition has a row of its own is a matter of bytes, which the fake does not count by itself."""

    _row_name = staticmethod(row_name)


class Both:
    """A port in memory and on moto: what is called is called on both, and must come to the same."""

    def __init__(self, fake: Any, real: Any, seed: int) -> None:
        self.fake, self.real, self.choose = fake, real, random.Random(seed)
        self.count = itertools.count()
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            answer = self._once(name, args, options)
            if name in WRITES and self.choose.random() < 0.15:  # its answer was lost
                return self._once(name, args, options)
            return answer

        return call

    def _once(self, name: str, args: Any, options: Any) -> Any:
        self.log.append(f"{name} {args} {options}"[:300])
        fake, real = (_answer(getattr(port, name), args, options) for port in (self.fake, self.real))
        assert fake == real, "\n".join([*self.log[-12:], f"fake: {fake}", f"moto: {real}"])
        return None if isinstance(real, tuple) and real[:1] == ("raised",) else real

    @property
    def mark(self) -> str:
        """Fresh, as each write's is."""
        return f"w{next(self.count)}"

    def name(self) -> str:
        return self.choose.choice(NAMES)


def _answer(call: Callable[..., Any], args: Any, options: Any) -> Any:
    try:
        return _plain(call(*args, **options))
    except LostRaceError as error:
        return "raised", type(error), error.current
    except GnomonError as error:
        return "raised", type(error), vars(error)


def _plain(answer: Any) -> Any:
    return list(answer) if isinstance(answer, (tuple, Iterator)) else answer


def slots(both: Both) -> Iterator[None]:
    """Few keys and indexes, so that most calls meet another."""
    keys = [f"key:{both.name()}|{one}" for one in both.choose.sample(NAMES[:7], 2)]
    holders, seen = [f"h{n}" for n in range(3)], {key: [None] for key in keys}
    while True:
        yield
        key, index = both.choose.choice(keys), both.choose.choice([0, 1, 9, 10, 100])
        slot = Slot(index=index, holder=both.choose.choice(holders), mark=both.mark, at=NOW, until=NOW + 60)
        instead = both.choose.choice(seen[key][-6:])
        seen[key].append(slot)
        both.take(key, slot, instead_of=instead)
        mark = both.choose.choice([None, None, slot.mark, "w0"])
        both.free(key, both.choose.choice([0, 1, 9]), holder=both.choose.choice(holders), mark=mark)
        for one in keys:
            seen[one] += both.held(one)


def circuits(both: Both) -> Iterator[None]:
    keys = sorted(both.name() for _ in range(3))
    read = [both.get(key) for key in keys]
    while True:
        yield
        old = both.choose.choice(read[-8:])
        new = replace(
            old,
            write_id=both.mark,
            failures=both.choose.randrange(9),
            successes=both.choose.randrange(3),
            since=NOW + both.choose.choice([0, 0.25, 0.1]),
            open_until=both.choose.choice([None, NOW, 0]),
            probe=both.choose.choice([None, Probe(execution_id=both.choose.choice(TEXTS), until=NOW)]),
        )
        read.append(both.save(old, new, now=NOW + 0.5))
        read.append(both.get(both.choose.choice(keys)))


def workers(both: Both) -> Iterator[None]:
    ids, read = [new_worker_id(both.name()) for _ in range(3)], []
    while True:
        yield
        one, at = both.choose.choice(ids), NOW + both.choose.choice([0, 1, -5, 60.5])
        if both.fake.get(one) is None:
            queues = tuple(both.choose.sample(NAMES, both.choose.choice([1, 3])))
            new = Worker(
                id=one,
                owner=both.name(),
                created_by=both.name(),
                name=both.choose.choice(TEXTS),
                queues=queues,
                max_items=both.choose.randrange(1, 11),
                registered_at=NOW,
                seen_at=NOW,
            )
            both.register(new)
        read.append(both.seen(one, now=at))
        read.append(both.get(one))
        known = [worker for worker in read[-6:] if worker is not None]
        if known:
            old = both.choose.choice(known)
            new = replace(
                old,
                draining=both.choose.random() < 0.5,
                poll_id=both.choose.choice([None, both.mark]),
                intended=both.choose.choice([(), ("e1",), ("e1", "e2")]),
            )
            read.append(both.save(old, new))


def progress(both: Both) -> Iterator[None]:
    ids, at = [f"{new_id()}-{slot_id(NOW)}-0001" for _ in range(2)], float(NOW)
    while True:
        yield
        one, at = both.choose.choice(ids), at + both.choose.choice([0, 0.5, 0.999, 1.0, 1.5, -2])
        said = Progress(percent=both.choose.choice([0, 100, 33.3, 1e-7]), message=both.choose.choice(TEXTS))
        both.report(one, said, now=at)
        both.read(one)


def idempotency(both: Both) -> Iterator[None]:
    places = [(both.name(), both.choose.choice([*NAMES[:6], "k" * 255])) for _ in range(2)]
    claims: list[Any] = []
    while True:
        yield
        scope, key = both.choose.choice(places)
        ids = tuple(new_id() for _ in range(both.choose.choice([1, 3])))
        at, hashed = (
            NOW + both.choose.choice([0, 0, 10, 3_599, 3_600, 3_601, 9_000]),
            both.choose.choice(["h", "h", "i"]),
        )
        claims.append((scope, key, both.claim(scope, key, body_hash=hashed, ids=ids, now=at)))
        made = [one for one in claims[-4:] if one[2] is not None]
        if made and both.choose.random() < 0.4:
            both.release(*both.choose.choice(made))


def retry_configs(both: Both) -> Iterator[None]:
    types = [both.name()[:64] for _ in range(3)]
    while True:
        yield
        document = {
            "maxRetries": both.choose.randrange(9),
            "nonRetryableErrors": both.choose.choice([[], ["HTTP_400"]]),
        }
        one = both.choose.choice(types)
        config = StoredTypeConfig(job_type=one, document=document, updated_at=NOW, updated_by=both.name())
        both.put(config)
        both.get(both.choose.choice(types))
        if both.choose.random() < 0.4:
            both.delete(both.choose.choice(types))


def owners(both: Both) -> Iterator[None]:
    while True:
        yield
        both.register(both.name())


def history(both: Both) -> Iterator[None]:
    jobs, gaps = [new_id() for _ in range(2)], list(SkipReason)
    while True:
        yield
        job, at = both.choose.choice(jobs), NOW + 60 * both.choose.randrange(3)
        key = {"job_id": job, "slot_id": both.choose.choice([slot_id(at), f"{at}mabcdefgh"])}
        attempt = both.choose.choice([1, 1, 2, 9_999])
        execution = make_execution(
            **key,
            attempt=attempt,
            write_id=both.mark,
            status=both.choose.choice([ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT]),
            final=both.choose.random() < 0.5,
            result=both.choose.choice([None, '""', '"' + "r" * 300 + '"']),
            next_retry_at=both.choose.choice([None, NOW]),
            completed_at=NOW + both.choose.choice([0.0, 0.1, 0.123456]),
        )
        both.record(execution)
        both.get(job, key["slot_id"], attempt)
        gap = Gap(first=at, last=at + 60 * both.choose.randrange(4), count=2, reason=both.choose.choice(gaps))
        both.record_gap(job, gap, now=NOW + both.choose.random())
        end = LastRun(slot_id=key["slot_id"], attempt=1, outcome=Outcome.COMPLETED, fence=attempt, ended_at=NOW)
        number = both.choose.randrange(1, 4)
        both.record_end(job, number, end)
        both.end(job, number)
        both.list(job, limit=both.choose.choice([1, 3, 100]), cursor=None)


def dependents(both: Both) -> Iterator[None]:
    jobs = [new_id() for _ in range(5)]
    while True:
        yield
        child, parents = both.choose.choice(jobs), both.choose.sample(jobs, both.choose.choice([1, 2, 4]))
        both.add(child, parents)
        both.remove(both.choose.choice(jobs), both.choose.sample(jobs, 2))
        after = both.choose.choice([None, *jobs])
        both.of(both.choose.choice(jobs), after=after, limit=both.choose.choice([1, 2, 9]))


def jobs(both: Both) -> Iterator[None]:
    ids, owner = [new_id() for _ in range(4)], both.name()
    read: list[Any] = []

    def drawn(one: str) -> Any:
        return make_job(
            id=one, owner=owner, created_by=both.name(), payload=both.choose.choice(PAYLOADS), write_id=both.mark
        )

    while True:
        yield
        one = both.choose.choice(ids)
        if both.choose.random() < 0.3:
            read.append(both.create(drawn(one)))
        elif both.choose.random() < 0.2:
            some = [drawn(each) for each in both.choose.sample(ids, 2)]
            both.create_all(some)
        read.append(both.get(one, with_definition=both.choose.random() < 0.8))
        known = [row for row in read[-8:] if row is not None]
        if known:
            old = both.choose.choice(known)
            new = _changed(both, old)
            graph = both.choose.choice([None, None, None, 0, 1])
            read.append(both.save(old, new, graph=graph))
        both.get_many(both.choose.sample(ids, 3))
        both.get_rows(both.choose.sample(ids, 3))
        both.set_aside(one, until=NOW + 900)
        both.list_by_owners([owner], limit=both.choose.choice([1, 2, 50]), cursor=None)


def _changed(both: Both, old: Any) -> Any:
    """A row that anything may have become of."""
    run = make_run(
        state=both.choose.choice(list(RunState)),
        waits_for=both.choose.choice([None, "approval", f"worker:{both.choose.choice(NAMES)}"]),
        holds=both.choose.choice([(), ("key:a|b#0",), ("key:a|b#0", "type:c#1")]),
        started_at=both.choose.choice([None, NOW + 0.1]),
    )
    definition = old.definition
    if both.choose.random() < 0.4:
        definition = make_job(id=old.id, payload=both.choose.choice(PAYLOADS)).definition
    return replace(
        old,
        write_id=both.mark,
        revision=old.revision + both.choose.choice([0, 1]),
        definition=definition,
        runs=MappingProxyType(both.choose.choice([{}, {slot_id(NOW): run}])),
        paused=both.choose.random() < 0.3,
        attention_at=both.choose.choice([None, NOW, NOW + 900]),
        next_slot=both.choose.choice([None, NOW + 60]),
        gap=both.choose.choice([None, Gap(first=NOW, last=NOW + 60, count=2, reason=SkipReason.OVERLAP)]),
        deleted_at=both.choose.choice([None, None, None, NOW]),
        fence=both.choose.choice([0, 10**9]),
    )


def ports(aws: Aws) -> dict[str, Callable[[], tuple[Any, Any, Callable[[Both], Iterator[None]]]]]:
    client, table = aws.dynamodb, aws.coordination_table
    return {
        "slots": lambda: (InMemorySlots(), DynamoDbSlots(client, table), slots),
        "circuits": lambda: (InMemoryCircuits(), DynamoDbCircuits(client, table), circuits),
        "workers": lambda: (InMemoryWorkers(), DynamoDbWorkers(client, table), workers),
        "progress": lambda: (InMemoryProgress(), DynamoDbProgress(client, table), progress),
        "owners": lambda: (InMemoryOwners(), DynamoDbOwners(client, table), owners),
        "retry configurations": lambda: (InMemoryRetryConfigs(), DynamoDbRetryConfigs(client, table), retry_configs),
        "dependents": lambda: (InMemoryDependents(), DynamoDbDependents(client, table), dependents),
        "idempotency keys": lambda: (
            InMemoryIdempotencyKeys(),
            DynamoDbIdempotencyKeys(client, aws.idempotency_table),
            idempotency,
        ),
        "history": lambda: (
            InMemoryHistory(),
            DynamoDbHistory(client, aws.executions_table, retention_days=RETENTION_DAYS),
            history,
        ),
        "jobs": lambda: (CountingJobs(), DynamoDbJobs(client, aws.jobs_table, graphs=table), jobs),
    }


PORTS = (
    "slots",
    "circuits",
    "workers",
    "progress",
    "owners",
    "retry configurations",
    "dependents",
    "idempotency keys",
    "history",
    "jobs",
)


@pytest.mark.parametrize("port", PORTS)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_fake_and_adapter_answer_every_sequence_alike(aws: Aws, port: str, seed: int) -> None:
    for table in (aws.jobs_table, aws.executions_table, aws.idempotency_table, aws.coordination_table):
        aws.dynamodb.delete_table(TableName=table)
    create_tables(aws.dynamodb)
    fake, real, calls = ports(aws)[port]()
    with ids_of(seed):
        both = Both(fake, real, seed)
        for _ in itertools.islice(calls(both), STEPS):
            pass


def test_what_is_stored_after_all_that_is_as_every_item_should_be(aws: Aws) -> None:
    for port, make in ports(aws).items():
        fake, real, calls = make()
        with ids_of(1):
            both = Both(fake, real, 1)
            for _ in itertools.islice(calls(both), 3 * STEPS):
                pass
        assert both.log, port
    tables = (aws.jobs_table, aws.executions_table, aws.idempotency_table, aws.coordination_table)
    for table, item in all_items(aws.dynamodb, {name: name for name in tables}):
        check_item(table, item)

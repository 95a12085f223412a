"""docs/scaling.md: everything between its markers is written here."""

from __future__ import annotations

from collections.abc import Sequence

from bench.scaling import quotas, work
from bench.scaling.cost import SECONDS_A_MONTH, monthly, stored_a_month, total
from bench.scaling.limits import Limit, Scope, Whose, first, limits, longest_lead, ramp
from bench.scaling.settings import UTILISATION, owner_partitions, settings, shards
from bench.scaling.work import BULK, PATHS, SINGLE, Path
from bench.tables import Table
from functions.adapters.dynamodb_keys import SHARDS
from functions.usecases.sweep import MAX_ACTS
from infra.stage import PROD

RATE = 10_000
BEGIN = "<!-- numbers: written by `python -m bench.scaling --write` -->"
END = "<!-- end of numbers -->"


def tables() -> Sequence[Table]:
    found = limits(PROD)
    return [_limits(found), _settings(), _costs(), _assumptions(), _quotas()]


def _limits(found: Sequence[Limit]) -> Table:
    """In the order in which they bind when jobs come a hundred a call."""
    ordered = sorted(found, key=lambda limit: (limit.jobs(BULK), limit.jobs(SINGLE)))
    return Table(
        f"Submissions a second at which each limit binds; {RATE:,} are wanted",
        ("limit", "binds", "whose", "single calls", "bulk", "verdict of bulk"),
        [
            (
                limit.name,
                limit.scope,
                {"stage": "stage `prod`", "design": "design", "quota": "AWS, raisable", "AWS": "AWS, fixed"}[
                    limit.whose
                ],
                _rate(limit.jobs(SINGLE)),
                _rate(limit.jobs(BULK)),
                "holds" if limit.jobs(BULK) >= RATE else "BINDS",
            )
            for limit in ordered
        ],
        [*_firsts(found), *_rest()],
    )


def _firsts(found: Sequence[Limit]) -> list[str]:
    lines = []
    for path in PATHS:

        def lowest(scope: Scope, *whose: Whose, path: Path = path) -> str:
            limit = first(found, path, scope=scope, whose=whose)
            return f"{_rate(limit.jobs(path))}/s ({limit.name})"

        lines.append(
            f"{path.name}, as shipped: one caller {lowest('one caller', 'stage')}, all {lowest('all', 'stage')}. "
            f"With the stage's values raised: one caller {lowest('one caller', 'design')}, all "
            f"{lowest('all', 'design')}. With the design changed too, by AWS's default quotas: "
            f"{lowest('all', 'quota', 'AWS')}."
        )
    return lines


def _rest() -> list[str]:
    burst, swept = ramp(RATE), MAX_ACTS / 60
    return [
        f"Attention: each job makes an entry and takes it away, {RATE * work.ATTENTION_WRITES:,} write units/s; "
        f"{SHARDS} partitions of {quotas.PARTITION_WRITES.value:,.0f} hold {_rate(first_of_attention())} jobs/s; "
        f"{shards(RATE)} are needed, each used to {UTILISATION:.0%} at most.",
        f"One owner: its jobs are one partition of the index `owner`: {_rate(quotas.PARTITION_WRITES.value)} jobs/s. "
        f"{RATE:,}/s of one owner need {owner_partitions(RATE)} partitions, which a list then reads side by side.",
        f"Far jobs: schedules fire {quotas.SCHEDULE_INVOCATIONS.value:,.0f} times a second at most, "
        f"{quotas.SCHEDULE_INVOCATIONS.value / RATE:.0%} of what is wanted; at that rate {quotas.SCHEDULES.value:,.0f} "
        f"schedules are used up when jobs are due more than "
        f"{longest_lead(quotas.SCHEDULE_INVOCATIONS.value) / 3600:.1f} h ahead on average.",
        f"A burst after a quiet time, pollers in standard mode: {burst.seconds:.0f} s until they keep up, by when "
        f"{burst.waiting:,} hints wait and start {burst.lateness:.0f} s late; with provisioned pollers none.",
        f"The sweep repairs {MAX_ACTS:,} jobs a tick, {swept:.0f} a second: it keeps up while fewer than "
        f"{swept / RATE:.2%} of the hints are lost.",
    ]


def first_of_attention() -> float:
    return SHARDS * quotas.PARTITION_WRITES.value / work.ATTENTION_WRITES


def _settings() -> Table:
    rows = []
    for single, bulk in zip(*(settings(RATE, path, PROD) for path in PATHS), strict=True):
        verdict = "enough" if bulk.enough else "RAISE"
        rows.append((single.what, single.where, single.now, single.needed, bulk.needed, verdict))
    return Table(
        f"Settings for {RATE:,} submissions a second, all of one caller",
        ("setting", "whose", "now", "needed, single calls", "needed, bulk", "for bulk"),
        rows,
        [f"What is bounded is used to {UTILISATION:.0%} at most; warm throughput is the rate itself."],
    )


def _assumptions() -> Table:
    return Table(
        "What the model takes for granted",
        ("assumption", "value"),
        [
            ("a call to DynamoDB, to SQS, ms", f"{work.DYNAMODB_MS:g}, {work.SQS_MS:g}"),
            ("the target's answer, ms", f"{work.TARGET_MS:g}"),
            ("CPU of a call by boto3, of a job in the API, ms", f"{work.CALL_CPU_MS:g}, {work.JOB_CPU_MS:g}"),
            ("so a single call, a bulk call, ms", f"{SINGLE.api_seconds * 1000:.0f}, {BULK.api_seconds * 1000:.0f}"),
            ("so a batch of ten hints in the executor, ms", f"{work.batch_seconds() * 1000:.0f}"),
            ("write units a job, single, bulk (counted)", f"{SINGLE.writes:g}, {BULK.writes:.2f}"),
            ("runs that fail for good", f"{work.FAILING:.0%}"),
        ],
    )


def _quotas() -> Table:
    known = {name: value for name, value in vars(quotas).items() if isinstance(value, quotas.Quota)}
    return Table(
        "Quotas of an account",
        ("quota", "value", "raised on request", "source"),
        [
            (quota.unit, f"{quota.value:,.0f}", "yes" if quota.raisable else "no", quota.source)
            for quota in known.values()
        ],
    )


def _costs() -> Table:
    bills = [
        (f"{name}, {kind}", monthly(RATE, path, provisioned=provisioned))
        for name, path in (("single", SINGLE), ("bulk", BULK))
        for kind, provisioned in (("on demand", False), ("provisioned", True))
    ]
    rows = [
        (rows[0].what, *(f"{row.dollars:,.0f}" for row in rows))
        for rows in zip(*(bill for _, bill in bills), strict=True)
    ]
    jobs = RATE * SECONDS_A_MONTH / 1e6
    return Table(
        f"Dollars a month for {RATE:,} jobs a second, all day",
        ("what", *(name for name, _ in bills)),
        [
            *rows,
            ("total", *(f"{total(bill):,.0f}" for _, bill in bills)),
            ("for a million jobs", *(f"{total(bill) / jobs:.2f}" for _, bill in bills)),
        ],
        [
            f"State rows do not expire before their jobs are deleted: a month adds "
            f"{stored_a_month(RATE) / 1000:,.0f} TB, which the month after pays for again.",
        ],
    )


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def markdown() -> str:
    return "\n\n".join(_table(table) for table in tables())


def rewritten(page: str) -> str:
    """The page with the present numbers between its markers; raises ValueError where it has not both."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


def _table(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    details = "\n".join(f"- {line}" for line in table.details)
    return f"### {table.title}\n\n{rows}" + (f"\n\n{details}" if details else "")

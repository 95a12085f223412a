"""List prices in us-east-1, before any free tier, read on 29 November 2026. The only place a price is written down.

`source` says where each was read. Prices of AWS marked "quoted" were read in texts that quote the AWS Price List of the
day given, not on AWS's own page, and those of third parties in what these say of AWS; "from memory" ones were read
nowhere. Check them before you count on them.
"""

from __future__ import annotations

from dataclasses import dataclass

REGION = "us-east-1"
READ_ON = "2026-11-29"

MILLION = 1_000_000
HOURS_A_MONTH = 730
DAYS_A_MONTH = HOURS_A_MONTH / 24

_QUOTED = "AWS Price List, quoted"
_MEMORY = "from memory, unverified"
_THIRD = "third parties that quote AWS, 2025 and 2026"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    dollars: float
    per: float
    """So many units cost `dollars`."""
    unit: str
    source: str

    def of(self, units: float) -> float:
        """Dollars."""
        return units * self.dollars / self.per

    @property
    def counted(self) -> str:
        """What `dollars` buys."""
        return f"{self.per:,.0f}".replace(",", " ") + f" {self.unit}"


HTTP_API = Price(
    dollars=1.00,
    per=MILLION,
    unit="HTTP API requests of up to 512 KB",
    source="AWS whitepaper on private APIs, cost optimization",
)
LAMBDA_REQUEST = Price(dollars=0.20, per=MILLION, unit="Lambda requests", source=f"{_QUOTED} 2026-09-19")
LAMBDA_GB_SECOND = Price(dollars=0.0000133334, per=1, unit="Lambda GB-second on arm64", source=f"{_QUOTED} 2026-09-19")
WRITE_UNIT = Price(dollars=0.625, per=MILLION, unit="DynamoDB write units on demand", source=f"{_QUOTED} 2026-09-06")
READ_UNIT = Price(dollars=0.125, per=MILLION, unit="DynamoDB read units on demand", source=f"{_QUOTED} 2026-09-06")
WRITE_CAPACITY_HOUR = Price(
    dollars=0.00065, per=1, unit="hour of a DynamoDB write unit a second, provisioned", source=f"{_QUOTED} 2026-09-06"
)
READ_CAPACITY_HOUR = Price(
    dollars=0.00013, per=1, unit="hour of a DynamoDB read unit a second, provisioned", source=f"{_QUOTED} 2026-09-06"
)
SQS_REQUEST = Price(
    dollars=0.40, per=MILLION, unit="requests to standard queues of up to 64 KB", source=f"{_QUOTED}, undated"
)
SCHEDULE = Price(
    dollars=1.00,
    per=MILLION,
    unit="EventBridge Scheduler invocations (their call of the target is extra)",
    source=f"{_QUOTED}, undated",
)
STORAGE = Price(dollars=0.25, per=1, unit="GB-month in DynamoDB", source=f"{_QUOTED} 2026-09-06")
EVENTS = Price(dollars=1.00, per=MILLION, unit="EventBridge custom events of up to 64 KB", source=_MEMORY)
LOGS = Price(dollars=0.50, per=1, unit="GB taken in by CloudWatch Logs", source=_MEMORY)
METRIC = Price(dollars=0.30, per=1, unit="custom metric a month", source=_MEMORY)
TRACES = Price(dollars=5.00, per=MILLION, unit="X-Ray traces", source=_MEMORY)
KMS_REQUEST = Price(dollars=0.03, per=10_000, unit="KMS requests", source=_MEMORY)
KMS_KEY = Price(dollars=1.00, per=1, unit="customer key a month", source=_MEMORY)
SECRET = Price(dollars=0.40, per=1, unit="secret a month", source=_MEMORY)
ALARM = Price(dollars=0.10, per=1, unit="alarm of standard resolution a month", source=_THIRD)
MACHINE_CLIENT = Price(dollars=6.00, per=1, unit="Cognito client for machines a month", source=_THIRD)
MACHINE_TOKEN = Price(dollars=2.25, per=1_000, unit="tokens given to Cognito clients for machines", source=_THIRD)
TRAFFIC = Price(dollars=0.09, per=1, unit="GB out to the internet", source=_MEMORY)

UTILISATION = 0.7
"""Of provisioned capacity: what is paid and not used is part of the price."""

STEP_FUNCTIONS = Price(
    dollars=25.00,
    per=MILLION,
    unit="Step Functions state transitions, Standard",
    source="aws.amazon.com/step-functions/pricing",
)


def provisioned(hour: Price) -> Price:
    """The price of a unit out of provisioned capacity that is used to `UTILISATION`."""
    return Price(
        dollars=hour.dollars / UTILISATION,
        per=3600,
        unit=f"units at {UTILISATION:.0%} of {hour.unit}",
        source=hour.source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """What somebody pays for a million one-time jobs elsewhere, without their own functions and logs."""

    name: str
    dollars: float
    counted: str
    lacks: str
    """What Gnomon's price has and this one has not."""
    source: str


ALTERNATIVES = (
    Alternative(
        name="Google Cloud Tasks",
        dollars=0.80,
        counted="create and dispatch, $0.40 per million operations",
        lacks="no history of runs; 30 days ahead; 500/s a queue; no cron",
        source="cloud.google.com/tasks pricing",
    ),
    Alternative(
        name="EventBridge Scheduler and SQS, raw",
        dollars=SCHEDULE.of(MILLION) + SQS_REQUEST.of(1.2 * MILLION),
        counted="1 invocation, 1 send, receive and delete ten a batch",
        lacks="no state, history, cancelling of runs or retries by policy; the minute, not the second",
        source=f"{_QUOTED}, undated",
    ),
    Alternative(
        name="Upstash QStash, pay as you go",
        dollars=10.00,
        counted="1 message; each retry is another",
        lacks="delays up to a year",
        source="QStash plans as listed by api-evangelist",
    ),
    Alternative(
        name="AWS Lambda durable functions",
        dollars=17.50,
        counted="2 operations and 2 invocations of a job that waits",
        lacks="300 starts/s; code of one's own around it",
        source=f"{_QUOTED}, undated",
    ),
    Alternative(
        name="Inngest, above the plan",
        dollars=50.00,
        counted="1 execution; whether steps count besides is unverified; Pro is $75 a month",
        lacks="",
        source="a generated listing of plans, unverified",
    ),
    Alternative(
        name="Step Functions Standard, one a job",
        dollars=STEP_FUNCTIONS.of(4 * MILLION),
        counted="4 transitions",
        lacks="300 starts/s; 25 000 events of history",
        source=STEP_FUNCTIONS.source,
    ),
    Alternative(
        name="Temporal Cloud",
        dollars=3 * 50.00,
        counted="3 actions a job (assumed), $50 per million actions; $25 from 100 million on",
        lacks="plans begin at a monthly minimum",
        source="temporalio/documentation, docs/evaluate/cloud/pricing.mdx",
    ),
)

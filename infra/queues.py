"""The run queues and those that hold what could not be delivered, read or done."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.nag import acknowledge
from infra.stage import Stage

CONSUMER_TIMEOUT = Duration.seconds(90)
"""Of the function behind the run queues."""
RUN_BATCH = 10
"""Messages that it takes at once."""

_LONGEST = Duration.days(14)
_NO_REDRIVE = sqs.RedriveAllowPolicy(redrive_permission=sqs.RedrivePermission.DENY_ALL)


class Queues(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self.hints_dlq = self._queue("HintsDlq")
        self.high = self._run_queue("RunHigh")
        self.normal = self._run_queue("RunNormal")
        self.low = self._run_queue("RunLow")
        self.sweep_dlq = self._queue("SweepDlq")
        self.dead_letters = self._queue("DeadLetters")
        self.unreadable = self._queue("Unreadable")
        acknowledge(
            self.dead_letters,
            SQS3="Announces runs that failed for good to a consumer of the user's, which brings its own queue for "
            "failures; the history rows in the sparse index `dead` are the record.",
        )
        for last in (self.unreadable, self.sweep_dlq):
            acknowledge(last, SQS3="Is itself the place for what failed elsewhere; nothing consumes it but people.")

    @property
    def run_queues(self) -> dict[str, sqs.Queue]:
        """By priority, in the words of functions.settings.RunQueues."""
        return {"high": self.high, "normal": self.normal, "low": self.low}

    def _run_queue(self, construct_id: str) -> sqs.Queue:
        return self._queue(
            construct_id,
            retention=Duration.days(4),
            # Six times the consumer's timeout, as AWS recommends for Lambda event source mappings.
            visibility=Duration.seconds(6 * CONSUMER_TIMEOUT.to_seconds()),
            dead_letters=sqs.DeadLetterQueue(queue=self.hints_dlq, max_receive_count=5),
        )

    def _queue(
        self,
        construct_id: str,
        *,
        retention: Duration = _LONGEST,
        visibility: Duration | None = None,
        dead_letters: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            construct_id,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=self._stage.enforce_ssl,
            retention_period=retention,
            visibility_timeout=visibility,
            dead_letter_queue=dead_letters,
            # Only the hints' queue takes over what others give up. It cannot name the run queues: they name it.
            redrive_allow_policy=None if construct_id == "HintsDlq" else _NO_REDRIVE,
        )
        if not self._stage.enforce_ssl:
            acknowledge(queue, SQS4="The emulator of this stage is reached over http on the loopback interface only.")
        return queue

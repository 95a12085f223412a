"""Ways to break what keeps one owner's backlog from the jobs of the others."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

FAIR = "tests/simulation/test_fair.py"
IN_USE = "tests/unit/test_shares_in_use.py"
PROCESS = "tests/unit/test_process_shares.py"
ROWS = "tests/contract/test_share_rows.py"
QUOTAS = "tests/unit/test_owner_quotas.py"
POLLS = "tests/unit/test_waiting_polls.py"
LIMITS = "tests/unit/test_refused_callers.py"
ATTACKS = "tests/unit/test_graph_attacks.py"
TIMETABLE = "tests/contract/test_timetable.py"

SHARE_MUTANTS: list[Mutant] = [
    m(
        "one share for all",
        "all owners have one share together",
        ("usecases/admission.py", "executor.shares.enter(row.owner,", 'executor.shares.enter("all",'),
        by=FAIR,
    ),
    m(
        "shares unasked",
        "a start does not ask for its owner's share",
        (
            "usecases/admission.py",
            "        if self._entry is not None:\n            return None\n",
            "        return None\n",
        ),
        by=FAIR,
    ),
    m(
        "one share for all priorities",
        "a flood of normal priority holds up the owner's high one",
        ("usecases/admission.py", "enter(row.owner, row.priority,", "enter(row.owner, Priority.NORMAL,"),
        (
            "usecases/admission.py",
            "from functions.domain.path",
            "from functions.domain.definition import Priority\nfrom functions.domain.path",
        ),
        by=IN_USE,
    ),
    m(
        "never left",
        "an attempt that is over is counted on",
        ("usecases/executor.py", "        admission.leave()\n", "        pass\n"),
        by=IN_USE,
    ),
    m(
        "long calls forgotten",
        "a process whose calls go on does not say so",
        ("adapters/process_shares.py", "if mine.until < mine.ends_at:", "if False:"),
        by=FAIR,
    ),
    m(
        "looked at too late",
        "a start comes to a process whose place is over before it is looked at again",
        ("adapters/process_shares.py", "SPARE = 2.0", "SPARE = 1.0"),
        by=FAIR,
    ),
    m(
        "places kept",
        "a process whose long calls are over keeps its place",
        ("adapters/process_shares.py", "if mine.stays or mine.is_last:", "if mine.is_last:"),
        by=PROCESS,
    ),
    m(
        "last places kept",
        "a process that found the last place of a share keeps it when it has nothing to do",
        ("adapters/process_shares.py", "if mine.stays or mine.is_last:", "if mine.stays:"),
        by=PROCESS,
    ),
    m(
        "places thought kept",
        "a process that has given its place back starts on it",
        (
            "adapters/process_shares.py",
            "mine.stays, mine.is_last, mine.until = False, False, 0.0",
            "mine.stays = mine.is_last = False",
        ),
        by=PROCESS,
    ),
    m(
        "starts uncounted",
        "the starts between two writes are never counted",
        ("adapters/process_shares.py", "starts=mine.uncounted,", "starts=1,"),
        by=PROCESS,
    ),
    m(
        "refusals forgotten",
        "each start of an owner that has used its share writes its row",
        ("adapters/process_shares.py", "if mine.refusal is not None and now < mine.refused_until:", "if False:"),
        by=PROCESS,
    ),
    m(
        "the dead at work",
        "a process that died is counted for ever",
        ("domain/shares.py", "if until <= now)", "if False)"),
        by=ROWS,
    ),
    m(
        "room for one more",
        "the row lets in one process more than may work for an owner",
        ("adapters/dynamodb_shares.py", "size(pr) < :room", "size(pr) <= :room"),
        by=ROWS,
    ),
    m(
        "a minute without end",
        "the starts of the minute before count in this one",
        (
            "adapters/dynamodb_shares.py",
            'sets += ["mi = :minute", "n = :starts"]\n',
            'sets += ["mi = :minute", "n = n + :starts"]\n',
        ),
        by=ROWS,
    ),
    m(
        "all at once again",
        "what an owner's limit holds back is tried again each second",
        ("domain/shares.py", "* 2 ** min(deferrals, DOUBLINGS)", "* 1"),
        by=IN_USE,
    ),
    m(
        "polls wait freely",
        "a poll waits whoever else does",
        ("usecases/waiting_polls.py", "return self._mine is not None", "return True"),
        by=POLLS,
    ),
    m(
        "polls keep their places",
        "a poll that is over keeps its place",
        ("usecases/claiming.py", "        waiting.give_back()\n", "        pass\n"),
        by=POLLS,
    ),
    m(
        "the dead wait",
        "the place of a poll that died is never free again",
        ("usecases/waiting_polls.py", "if slot.until + CLOCK_SKEW <= now}", "if False}"),
        by=POLLS,
    ),
    m(
        "polls of all",
        "the polls of all owners wait in one place",
        ("usecases/waiting_polls.py", 'f"poll:{owner}"', '"poll:"'),
        by=POLLS,
    ),
    m(
        "recurring jobs unlimited",
        "a bulk makes recurring jobs beyond their owner's limit",
        ("usecases/bulk.py", "        if job.defined.schedule.recurring:\n", "        if False:\n"),
        by=QUOTAS,
    ),
    m(
        "counted for the caller",
        "a bulk counts recurring jobs for its caller, and not for their owner",
        ("usecases/bulk.py", "add_recurring(services, job.owner)", "add_recurring(services, caller.owner)"),
        by=QUOTAS,
    ),
    m(
        "a workflow counted for the caller",
        "a workflow counts recurring jobs for its caller, and not for their owner",
        (
            "usecases/workflows.py",
            "add_recurring(self.services, self.owner",
            "add_recurring(self.services, self.caller.owner",
        ),
        by=QUOTAS,
    ),
    m(
        "transferred uncounted",
        "a transferred job does not count for its new owner",
        ("usecases/actions.py", "            add_recurring(services, owner)\n", ""),
        by=QUOTAS,
    ),
    m(
        "transferred and counted twice",
        "a transfer that lost a race counts again",
        ("usecases/actions.py", "            added = True\n", ""),
        by=QUOTAS,
    ),
    m(
        "recount without a trace",
        "a recount that is not over in time is repeated by each request",
        (
            "usecases/quotas.py",
            "if not services.owners.correct_recurring(owner, full.made, instead_of=full, now=now):",
            "if False:",
        ),
        by=QUOTAS,
    ),
    m(
        "recount without end",
        "a recount reads all jobs that the owner ever had",
        ("usecases/quotas.py", "range(enough // _PAGE + OTHER_PAGES)", "range(1_000_000)"),
        by=QUOTAS,
    ),
    m(
        "made recurring",
        "a change makes a job recurring without room for it",
        ("usecases/quotas.py", "return recurring and (", "return False and ("),
        by=QUOTAS,
    ),
    m(
        "over and counted",
        "jobs that are over count as recurring ones",
        ("usecases/quotas.py", "    if job.deleted_at is not None or job.is_over:\n        return False\n", ""),
        by=QUOTAS,
    ),
    m(
        "counted again and again",
        "each refused creation counts all jobs of its owner",
        ("usecases/quotas.py", "if full.recounted_at is not None and", "if False and"),
        by=QUOTAS,
    ),
    m(
        "intervals of a second",
        "a shorter interval than the stage's is taken",
        ("api/drafts.py", "if seconds < least:", "if False:"),
        by=QUOTAS,
    ),
    m(
        "refused by a write",
        "a caller that is over its limit writes its row each time",
        ("adapters/dynamodb_limits.py", "if refused_at is not None and", "if False and"),
        by=LIMITS,
    ),
    m(
        "refused too long",
        "a caller is refused from memory for a minute",
        ("adapters/dynamodb_limits.py", "REFUSED_SECONDS = 1", "REFUSED_SECONDS = 60"),
        by=LIMITS,
    ),
    m(
        "seconds of work",
        "the conditions of one check take seconds of the processor",
        ("domain/expression_costs.py", "LOOK_STEPS = 500_000", "LOOK_STEPS = 5_000_000"),
        by=ATTACKS,
    ),
    m(
        "too costly is false",
        "conditions that take too much work are false, and nobody is told why",
        ("domain/condition.py", "    except TooMuchWorkError:\n        raise\n", ""),
        by=ATTACKS,
    ),
    m(
        "hints of nobody",
        "hints sent one by one name no owner",
        ("adapters/timetable.py", "priority=armed.priority, owner=armed.owner)", "priority=armed.priority)"),
        by=TIMETABLE,
    ),
    m(
        "batches of nobody",
        "hints sent together name no owner",
        ("adapters/timetable.py", "delay=seconds, group=_tenant(owner))", "delay=seconds, group=None)"),
        by=TIMETABLE,
    ),
]

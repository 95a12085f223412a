"""Mutants of what is refused when a job is made, of stored text, of handlers, and of what a run is said to wait for."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

STEPS, HINTS = "tests/unit/test_cron_steps.py", "tests/unit/test_expression_hints.py"
STORED, WAITS = "tests/unit/test_stored_text.py", "tests/unit/test_waiting.py"
NAMES, MODULES = "tests/unit/test_api_handler_names.py", "tests/unit/test_jobs_registry.py"
KEYS, GUARD = "tests/unit/test_api_idempotency.py", "tests/unit/test_address_guard.py"

INPUT_MUTANTS: list[Mutant] = [
    m(
        "unclear steps for new jobs",
        "a step on a single value is accepted when a job is made",
        ("domain/schedule.py", '            self.cron.must_be_clear("schedule.expression")\n', "            pass\n"),
        by=STEPS,
    ),
    m(
        "unclear steps in a preview",
        "a preview shows a reading that no job may have",
        ("domain/cron.py", '    cron.must_be_clear("expression")\n', ""),
        by=STEPS,
    ),
    m(
        "text is a field",
        "text in double quotes beside a name is accepted",
        ("domain/expression.py", "(why := misreading(tokens)) is not None", "False and (why := misreading(tokens))"),
        by=HINTS,
    ),
    m(
        "stored conditions judged anew",
        "a condition that a job has is refused in a change of something else",
        ("domain/dependence.py", ', is_stored=one["when"] in known)', ")"),
        by=HINTS,
    ),
    m(
        "stored NaN",
        "NaN in a stored payload is JSON",
        ("domain/stored_json.py", "parse_constant=_refuse, ", ""),
        by=STORED,
    ),
    m(
        "stored surrogates",
        "half a character in a stored text is JSON",
        ("domain/stored_json.py", "    if _SURROGATE.search(text):\n", "    if False:\n"),
        by=STORED,
    ),
    m(
        "payload unread",
        "a job is answered with whatever its stored payload is",
        ("api/views.py", "job.defined.checked_payload)", "job.defined.payload)"),
        by=STORED,
    ),
    m(
        "payload sent unread",
        "a target is sent whatever the stored payload is",
        ("usecases/upstream_values.py", "    if not is_readable(payload):\n", "    if False:\n"),
        by=STORED,
    ),
    m(
        "result unread",
        "history shows whatever the stored result is",
        ("adapters/stored_results.py", "if row.result is None or is_readable(row.result):", "if True:"),
        by=STORED,
    ),
    m(
        "lost result is null",
        "a result that cannot be read any more is null for other jobs",
        ("usecases/graph.py", "if execution is not None and execution.error == LOST_RESULT:", "if False:"),
        by=f"{STORED}::TestResults",
    ),
    m(
        "any handler",
        "a job may name a handler that there is not",
        ("api/drafts.py", 'check_handler(target["name"], self.handlers())', "pass"),
        by=NAMES,
    ),
    m(
        "one for all",
        "a module that cannot be imported fails the calls of every handler",
        ("jobs/registry.py", "    if len(modules) == 1:\n        _import(modules[0])\n    elif", "    load()\n    if"),
        by=MODULES,
    ),
    m(
        "registered twice by itself",
        "what a broken module registered before it failed stays registered",
        ("jobs/registry.py", "if handlers.pop(full, None) is not None:", "if False:"),
        by=MODULES,
    ),
    m(
        "first come",
        "a name that two modules register is that of the one imported first",
        ("jobs/registry.py", "    if len(among) > 1:\n", "    if False:\n"),
        by=MODULES,
    ),
    m(
        "deleted is not found",
        "a repeated creation does not find its job once that was deleted",
        (
            "usecases/jobs.py",
            "    if job is None:\n        raise no_such_job",
            "    if job is None or job.deleted_at:\n        raise no_such_job",
        ),
        by=KEYS,
    ),
    m(
        "names must exist",
        "a host that cannot be resolved refuses a job",
        (
            "adapters/address_guard.py",
            "contextlib.suppress(UnresolvedError, DeadlineError)",
            "contextlib.suppress(DeadlineError)",
        ),
        by=GUARD,
    ),
    m(
        "a wait for each name",
        "a request with many names that hang waits for one after the other",
        (
            "adapters/address_guard.py",
            "        if not self._places.acquire(blocking=False):\n",
            "        if not self._places.acquire():\n",
        ),
        by=GUARD,
    ),
    m(
        "private names pass",
        "a name that leads to a private address is accepted",
        ("adapters/address_guard.py", "            within(CREATE_SECONDS, judge)", "            pass"),
        by=GUARD,
    ),
    m(
        "no word of the machine",
        "a run that waits for room in the state machine does not say so",
        ("domain/ending.py", "deferred_for=execution.reason if is_unspent else None", "deferred_for=None"),
        by=WAITS,
    ),
    m(
        "waits that are over",
        "a run that has started still says what it waited for",
        ("domain/waiting.py", "    if run.state is RunState.RUNNING:\n        return None\n", ""),
        by=WAITS,
    ),
    m(
        "the newest wait",
        "of several runs the job shows the one that has waited least",
        ("domain/waiting.py", "return min(waiting,", "return max(waiting,"),
        by=WAITS,
    ),
]

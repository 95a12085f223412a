"""Ways of letting a job use what belongs to another owner."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

ACCESS = "tests/unit/test_target_access.py"
ROUTER = "tests/unit/test_target_router.py"
NAMES = "domain/target_access.py"

ACCESS_MUTANTS: list[Mutant] = [
    m(
        "one hyphen ends an owner",
        "a name of team-a-b begins like one of team-a",
        (NAMES, 'SEPARATOR = "--"', 'SEPARATOR = "-"'),
        by=ACCESS,
    ),
    m(
        "an owner may contain the separator",
        "names of team-a may be those of an owner team-a--b",
        (NAMES, '_OWNER = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")', '_OWNER = re.compile(r"[A-Za-z0-9_-]+")'),
        by=ACCESS,
    ),
    m(
        "shared names are compared by their beginning",
        "an ARN without its last characters stands for another secret",
        (
            NAMES,
            '    if f"{kind}:{name}" in rules.shared_targets:',
            '    if f"{kind}:{name}".startswith(rules.shared_targets or ("!",)):',
        ),
        by=ACCESS,
    ),
    m(
        "what is shared is shared for every kind",
        "a queue's name shares the secret that is called the same",
        (
            NAMES,
            '    if f"{kind}:{name}" in rules.shared_targets:',
            '    if name in [each.partition(":")[2] for each in rules.shared_targets]:',
        ),
        by=ACCESS,
    ),
    m(
        "accounts are not looked at",
        "an ARN of another account passes by its name",
        (NAMES, "    if (account, region) != (rules.account, rules.region):", "    if region != rules.region:"),
        by=ACCESS,
    ),
    m(
        "the first entry decides",
        "a list of all handlers hides that of one",
        (NAMES, 'key=lambda each: (len(each[0].removesuffix("*")), not each[0].endswith("*")),', "key=lambda _: 0,"),
        by=ACCESS,
    ),
    m(
        "asked at create only",
        "a row that changed since is sent as it is",
        (
            "adapters/targets.py",
            "            check_access(target, self._rules, invocation.owner)\n",
            "            pass\n",
        ),
        by=ROUTER,
    ),
    m(
        "the creator stands for the owner",
        "a job that changed hands goes on with what its maker had",
        ("usecases/executor.py", "        owner=job.owner,\n", "        owner=job.created_by,\n"),
        by=ACCESS,
    ),
    m(
        "a change is checked for its caller",
        "an admin gives a job what belongs to the admin's team",
        (
            "api/drafts.py",
            "self._check(draft.document, before, before.owner)",
            'self._check(draft.document, before, "team-b")',
        ),
        by=ACCESS,
    ),
    m(
        "a refused call counts",
        "a call that was not made closes the circuit of its target",
        ("domain/outcome.py", "    if not answer.was_sent:\n        return Health.UNKNOWN\n", ""),
        by=ROUTER,
    ),
    m(
        "retries are not checked",
        "a retry of what the owner may not use is accepted",
        ("usecases/actions.py", "        check(row)\n        return decision\n", "        return decision\n"),
        by=ACCESS,
    ),
    m(
        "half of a workflow is retried",
        "jobs are retried before one among them is refused",
        ("usecases/workflow_actions.py", "                check(member.job)\n", "                pass\n"),
        by=ACCESS,
    ),
    m(
        "private addresses are told",
        "a refusal has the address that a name resolved to",
        (
            "domain/target_url.py",
            'raise refused(url, "must lead to public addresses only")',
            'raise refused(url, f"must lead to public addresses only, not {list(addresses)}")',
        ),
        by="tests/unit/test_address_guard.py",
    ),
    m(
        "every port",
        "any port of a public host may be called",
        ("domain/target_url.py", "    if target.port not in rules.ports:", "    if target.port == 0:"),
        by="tests/unit/test_target_url.py",
    ),
]

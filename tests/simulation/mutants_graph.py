"""Ways of breaking what graphs of jobs rest on."""

from __future__ import annotations

from tests.simulation.mutant import GRAPHS, Mutant, m

RULES = "tests/unit/test_graph.py"
WAITS = "tests/unit/test_graph_waits.py"
ONCE = "tests/unit/test_graph_once.py"
DEADLINES = "tests/unit/test_graph_deadlines.py"

GRAPH_MUTANTS: list[Mutant] = [
    # --- ends are counted, and kept ---
    m(
        "end uncounted",
        "a run that ends has no number",
        ("domain/following.py", "ends=before.followed.ends + 1)", "ends=before.followed.ends)"),
        by=GRAPHS,
    ),
    m(
        "end not kept",
        "the next end replaces the last one, which nobody has kept",
        ("usecases/writing.py", "(end := superseded_end(job, row)) is not None", "(end := None) is not None"),
        by=GRAPHS,
        seed=1,
    ),
    m(
        "end kept too late",
        "an end is kept once the next one is in the row",
        (
            "usecases/writing.py",
            "        if (end := superseded_end(job, row)) is not None:\n"
            "            engine.history.record_end(job.id, *end)\n",
            "",
        ),
        (
            "usecases/writing.py",
            "            return Applied(job, saved, decision)\n",
            "            if (end := superseded_end(job, row)) is not None:\n"
            "                engine.history.record_end(job.id, *end)\n"
            "            return Applied(job, saved, decision)\n",
        ),
        by=GRAPHS,
        seed=1,
    ),
    m(
        "cancel is no end",
        "the cancel of a job that others depend on is nothing to them where nothing of it runs",
        (
            "domain/following.py",
            "    if not ended and after.cancelled and not before.cancelled:\n",
            "    if not before.id:\n",
        ),
        by=GRAPHS,
        seed=1,
    ),
    m(
        "no look after an end",
        "whoever ends a run sends no hint for its graph, and its row does not say that somebody has to look",
        (
            "domain/following.py",
            "    return replace(row, attention_at=attention_no_later(row, now)), (look_hint(now),)",
            "    return row, ()",
        ),
        by=GRAPHS,
    ),
    m(
        "no hint after an end",
        "dependents hear of an end from the sweep alone",
        (
            "domain/following.py",
            "    return replace(row, attention_at=attention_no_later(row, now)), (look_hint(now),)",
            "    return replace(row, attention_at=attention_no_later(row, now)), ()",
        ),
        by=RULES,
    ),
    m(
        "no look after a run",
        "a job whose run has ended does not look at its parents",
        (
            "domain/following.py",
            "look_at=now)) if before.runs or before.paused else after",
            "look_at=now)) if before.paused else after",
        ),
        by=RULES,
        rule="6 after which a child has no run any more",
    ),
    m(
        "no look at resume",
        "a job that is paused no more does not look at what ended meanwhile",
        (
            "domain/following.py",
            "look_at=now)) if before.runs or before.paused else after",
            "look_at=now)) if before.runs else after",
        ),
        by=RULES,
    ),
    m(
        "over in silence",
        "a job that is over without a last run tells nobody",
        ("domain/following.py", "    if after.is_over and not before.is_over and", "    if not after.id and"),
        by=RULES,
    ),
    # --- telling ---
    m(
        "told unseen",
        "an end counts as told when another has come meanwhile",
        (
            "domain/following.py",
            "followed=replace(followed, told=walk.number, cursor=None)",
            "followed=replace(followed, told=followed.ends, cursor=None)",
        ),
        by=RULES,
    ),
    m(
        "telling begins anew",
        "each end begins its own walk along the dependents, and the last of many are never reached",
        ("domain/following.py", "ends=before.followed.ends + 1)", "ends=before.followed.ends + 1, cursor=None)"),
        by=f"{WAITS}::test_those_at_the_end_of_the_list_are_told_though_there_is_always_another_end",
        rule="6 the walk goes on, whatever ends meanwhile",
    ),
    m(
        "walk of the latest end",
        "a walk that went on over several messages counts for an end that those at its beginning have not heard of",
        ("domain/following.py", "int(number) if after else followed.ends", "followed.ends"),
        by=f"{WAITS}::test_those_at_the_end_of_the_list_are_told_though_there_is_always_another_end",
    ),
    m(
        "over while it is told",
        "those who were looked at before do not hear that the job is over since",
        (
            "domain/following.py",
            "    if _state(job) != walk.state or followed.told < walk.told:\n",
            "    if not walk.number:\n",
        ),
        by=f"{WAITS}::test_a_job_that_is_over_while_it_is_told_is_told_as_that",
    ),
    m(
        "first page only",
        "the first dependents are told, and no others",
        ("usecases/graph.py", "done, late = len(children) < PAGE", "done, late = True"),
        by=WAITS,
    ),
    m(
        "failed telling is told",
        "a dependent that could not be looked at is forgotten",
        ("usecases/graph.py", "        if failures and (done or late):", "        if failures and False:"),
        by=f"{WAITS}::test_one_dependent_that_fails_hinders_no_other_and_is_told_again",
    ),
    m(
        "nobody is told",
        "dependents look by themselves, once an hour",
        (
            "usecases/graph.py",
            "        failures += _look_at_all(executor, job, children)\n",
            "        failures = []\n",
        ),
        by=RULES,
    ),
    m(
        "tells before it asks",
        "dependents look at a job that has not looked yet whether more is to come, and have to be told again",
        (
            "usecases/graph.py",
            "    if job.upstream is not None:\n        job, asked = _ask(executor, job)\n"
            "    told = _tell(executor, job)\n",
            "    told = _tell(executor, job)\n    if job.upstream is not None:\n"
            "        job, asked = _ask(executor, executor.jobs.get(job.id))\n",
        ),
        by=RULES,
    ),
    m(
        "deleted and asked",
        "a job that is deleted takes what its parents end",
        ("domain/looks.py", "job.cancelled or job.deleted_at is not None", "job.cancelled"),
        by="tests/unit/test_graph_ages.py",
    ),
    m(
        "edges of the living",
        "an edge is taken away once its child was looked at",
        (
            "usecases/graph.py",
            "    if parent.deleted_at is not None or child.deleted_at is not None:\n",
            "    if child:\n",
        ),
        by=GRAPHS,
    ),
    m(
        "edges of the dead",
        "the edges to the dependents of a job that is deleted stay for ever",
        (
            "usecases/graph.py",
            "    if parent.deleted_at is not None or child.deleted_at is not None:\n",
            "    if child.deleted_at is not None:\n",
        ),
        by="tests/unit/test_graph_ages.py",
    ),
    m(
        "edges to the dead",
        "an edge to a job that is deleted stays until its parent ends once more",
        (
            "domain/following.py",
            "if after.upstream is not None and _is_deleted_now(before, after) else ())",
            "if False else ())",
        ),
        by="tests/unit/test_graph_ages.py",
    ),
    # --- asking ---
    m(
        "counter",
        "the parents that are left are counted down by who tells, and not read",
        (
            "domain/rounds.py",
            "    return _blocked(up, parents, began) or _latest(up, parents, ends)\n",
            "    left = _blocked(up, parents, began) if len(new) < 2 else None\n"
            "    return left or _latest(up, parents, ends)\n",
        ),
        by=GRAPHS,
        seed=5,
    ),
    m(
        "mark not moved",
        "what was taken is taken again",
        ("domain/looks.py", "upstream=replace(up, marks=found.marks, look_at=now", "upstream=replace(up, look_at=now"),
        by=GRAPHS,
    ),
    m(
        "initial marks from now",
        "a parent that has finished does not count",
        ("domain/upstream.py", "max(0, one.ends - 1) if one.over or (one.once and one.idle) else one.ends", "one.ends"),
        by=GRAPHS,
        seed=20,
    ),
    m(
        "initial marks from the last",
        "the last run of a recurring parent counts, though it was before",
        (
            "domain/upstream.py",
            "if one.over or (one.once and one.idle) else one.ends",
            "if one.ends >= 0 else one.ends",
        ),
        by=RULES,
    ),
    m(
        "unsettled does not count",
        "a parent that has run, and has not looked yet whether more is to come, does not count at once",
        ("domain/upstream.py", "if one.over or (one.once and one.idle) else", "if one.over else"),
        by=RULES,
    ),
    m(
        "blocked is over",
        "a parent that waits for its own parents is over",
        (
            "domain/job.py",
            "self.next_slot is None and not self.runs and not self.waits_for_parents\n",
            "self.next_slot is None and not self.runs\n",
        ),
        by=GRAPHS,
        seed=4,
    ),
    m(
        "over while it runs",
        "a parent is over when it has no slot any more",
        (
            "domain/job.py",
            "self.next_slot is None and not self.runs and not self.waits_for_parents\n",
            "self.next_slot is None and not self.waits_for_parents\n",
        ),
        by=GRAPHS,
    ),
    m(
        "slot at random",
        "the slot of a run that is made is not derived from what it is for",
        ("domain/ids.py", "json.dumps([job_id, *ends]", "json.dumps([job_id, instant]"),
        by=GRAPHS,
    ),
    m(
        "verdict ignored",
        "a run that was judged is attempted",
        (
            "domain/dispatch.py",
            "    if run.verdict is not None:\n        return Verdict(",
            "    if job.cancelled:\n        return Verdict(",
        ),
        by=GRAPHS,
    ),
    m(
        "policy ignored",
        "a run whose dependencies are not met is always skipped",
        ("domain/looks.py", "skips = definition.on_upstream_failure is UpstreamFailure.SKIP", "skips = True"),
        by=GRAPHS,
    ),
    m(
        "runs all the same",
        "a run whose dependencies are not met is never judged",
        ("domain/looks.py", "    judged = found.reason is not None and", "    judged = not found.marks and"),
        by=GRAPHS,
    ),
    m(
        "since not reset",
        "a job goes on waiting for what it has taken",
        ("domain/looks.py", "marks=found.marks, look_at=now, since=None,", "marks=found.marks, look_at=now,"),
        by=GRAPHS,
    ),
    m(
        "pause ignored",
        "a paused job takes what its parents have ended",
        ("domain/looks.py", '    if job.paused:\n        return "PAUSED"\n', ""),
        by=GRAPHS,
        seed=8,
    ),
    m(
        "two at a time",
        "a job takes the next end while a run of it is active",
        ("domain/looks.py", 'return "ACTIVE" if job.runs else None', "return None"),
        by=GRAPHS,
        seed=1,
    ),
    m(
        "newest first",
        "of one parent the latest end is taken, and those before it never",
        (
            "domain/rounds.py",
            "    number = _oldest(up.marks[0] + 1, parent.ends, ends)\n",
            "    number = parent.ends if parent.ends > up.marks[0] else None\n",
        ),
        by=GRAPHS,
        seed=2,
        rule="6 who asks takes it first where it has one parent",
    ),
    m(
        "any absorbs nothing",
        "each parent that meets its condition starts another run under join any",
        ("domain/rounds.py", "ABSORBED if parent.once else mark for", "mark for"),
        by=GRAPHS,
    ),
    m(
        "any needs all",
        "join any waits for every parent",
        (
            "domain/rounds.py",
            "    if join is Join.ANY and len(parents) > 1:\n",
            "    if join is Join.ANY and not parents:\n",
        ),
        by=GRAPHS,
    ),
    m(
        "any gives up early",
        "join any is judged by the first end that does not meet its condition",
        (
            "domain/rounds.py",
            "    blocked = _blocked(up, parents, min(began, default=None))",
            "    blocked = None",
        ),
        by=GRAPHS,
    ),
    m(
        "any has seen too much",
        "join any takes an end for seen that it has not looked at",
        (
            "domain/rounds.py",
            "seen=tuple(one.ends for one in parents)) if len(began) > SEEN_AT",
            "seen=tuple(one.ends + 1 for one in parents)) if began",
        ),
        by=GRAPHS,
    ),
    m(
        "any by the one that blocked",
        "with many parents join any looks only at the one that blocked before",
        ("usecases/graph.py", "    if row.defined.join is Join.ANY or len(", "    if len("),
        by=RULES,
    ),
    m(
        "condition ignored",
        "a condition on the parent's result is always met",
        ("domain/upstream.py", "return None if holds(dependency.when) else", "return None if dependency.on else"),
        by=GRAPHS,
    ),
    m(
        "skipped is a failure",
        "a parent that was skipped meets a dependency on its failure",
        (
            "domain/upstream.py",
            "    On.FAILURE: (Outcome.PERMANENTLY_FAILED,),",
            "    On.FAILURE: (Outcome.PERMANENTLY_FAILED, Outcome.SKIPPED),",
        ),
        by=GRAPHS,
        seed=2,
    ),
    m(
        "timeout ignores what is due",
        "a parent that is scheduled later than the job may wait is not waited for",
        (
            "domain/rounds.py",
            "max([since] + [parent.due for parent in left if parent.due is not None]) + timeout",
            "since + timeout",
        ),
        by=WAITS,
    ),
    m(
        "timeout while it runs",
        "a parent that was waited for to its time is given up while it runs",
        (
            "domain/upstream.py",
            "    dues = [_due_of_run(slot, run) for slot, run in row.runs.items()]\n",
            "    dues = []\n",
        ),
        by=WAITS,
    ),
    m(
        "timeout below a wait",
        "a job gives up a parent that waits itself",
        (
            "domain/rounds.py",
            "    if since is None or any(parent.waits for parent in left):\n",
            "    if since is None:\n",
        ),
        by=WAITS,
    ),
    m(
        "no timeout",
        "a job waits for ever for what does not come",
        ("domain/looks.py", "        if until is None or now < until:\n", "        if until is None or until:\n"),
        by=GRAPHS,
        seed=17,
    ),
    m(
        "one stands for the time of all",
        "the time of a job with many parents goes by unseen while the one that blocked before still does",
        (
            "usecases/graph.py",
            "    stands = may_stand(row.defined.upstream_timeout, up, blocker)\n",
            "    stands = True\n",
        ),
        by=DEADLINES,
    ),
    m(
        "paused in silence",
        "those who wait for a job that is paused notice once an hour that their own time is over",
        ("domain/following.py", " or may_be_given_up_sooner(before, after):\n", ":\n"),
        by=DEADLINES,
    ),
    m(
        "progress is told",
        "each start of a job is told to all that depend on it",
        ("domain/upstream.py", "new.over or _attempts(before) != _attempts(after)", "new.over"),
        by=DEADLINES,
    ),
    m(
        "looks by the hour",
        "a job may wait for less than an hour, and looks at a parent that waits itself once an hour",
        ("domain/looks.py", "LOOK_EVERY), now + timeout)", "LOOK_EVERY), now + LOOK_EVERY)"),
        by=DEADLINES,
    ),
    m(
        "time begins before the earliest start",
        "a parent that began late has no time left",
        (
            "domain/looks.py",
            "dependent_slot_id(max(instant, earliest), job.id, taken)",
            "dependent_slot_id(instant, job.id, taken)",
        ),
        by=DEADLINES,
    ),
    m(
        "time begins before the gate",
        "a parent that waited long at its gate is given up once it is approved",
        ("domain/upstream.py", "        dues.append(run.approval.at)\n", "        pass\n"),
        by=DEADLINES,
    ),
    m(
        "late end counts",
        "what was waited for in vain starts a run when it comes",
        ("domain/rounds.py", "else parent.ends + parent.is_late\n", "else parent.ends\n"),
        by=WAITS,
    ),
    m(
        "half of a retry",
        "a join takes the end of one branch while the other is to come again",
        ("usecases/ancestors.py", "    if len(parents) < 2 or not any(new):\n", "    if parents:\n"),
        by=WAITS,
        rule="6 the join waits",
    ),
    m(
        "corrupt child in a storm",
        "a job whose definition cannot be read is asked for again and again",
        ("usecases/graph.py", "        if row.definition is None:\n            return look_later(row, now=now)\n", ""),
        by=f"{WAITS}::test_a_child_whose_definition_cannot_be_read_is_looked_at_now_and_then",
    ),
    m(
        "graph without attention",
        "nobody looks at a graph whose messages are lost",
        (
            "domain/job.py",
            "        if self.look_due is not None:\n            looks.append(self.look_due + HINT_SLACK)\n",
            "",
        ),
        by=GRAPHS,
    ),
    m(
        "sweep passes graphs over",
        "the sweep does not wake what waits in a graph",
        ("domain/visit.py", "    looks = job.look_due is not None and", "    looks = False and"),
        by=GRAPHS,
        seed=2,
    ),
    m(
        "often in silence",
        "those below a job do not hear that it runs again and again from now on, or once",
        ("domain/following.py", "    if followed.once != before.followed.once or ", "    if "),
        by=ONCE,
    ),
    m(
        "once for ever",
        "a job says of itself what was so when others began to depend on it",
        ("domain/looks.py", "    if row.followed is None or row.followed.once == once:\n", "    if row:\n"),
        by=ONCE,
    ),
    m(
        "absorbed for ever",
        "a parent that runs again and again, and ran once before, never counts",
        (
            "domain/upstream.py",
            "        parent.ends if mark == ABSORBED and not parent.once and",
            "        parent.ends if not up and",
        ),
        by=ONCE,
    ),
    # --- callers ---
    m(
        "earliest start kept",
        "a run that waits for its earliest start keeps the one that it was made with",
        (
            "domain/rescheduling.py",
            "return _with_its_earliest(job, replace(row, next_slot=None), definition, int(now))",
            "return replace(row, next_slot=None)",
        ),
        by=WAITS,
    ),
    m(
        "earliest start unsent",
        "a run with a new earliest start is brought by the sweep",
        (
            "domain/rescheduling.py",
            "hint.slot_id in row.runs and hint not in known",
            "hint.slot_id in row.runs and not known",
        ),
        by=WAITS,
    ),
    m(
        "no edge",
        "a parent does not know who depends on it",
        ("usecases/dependencies.py", "    services.dependents.add(child, given)\n", ""),
        by=RULES,
    ),
    m(
        "cycle closed",
        "a change lets a job depend on one that depends on it",
        ("usecases/rewiring.py", "    _refuse_cycle(services, job, definition.name, added)\n", ""),
        by="tests/unit/test_api_dependencies.py",
        rule="6 ancestors walked without meeting the child",
    ),
    m(
        "gate left open",
        "a run starts before it is approved",
        ("domain/dispatch.py", "    passed = _pass_gate(job, hint.slot_id, run, now=now)\n", "    passed = run\n"),
        by=GRAPHS,
    ),
    m(
        "rejected runs",
        "a run that was rejected is attempted",
        (
            "domain/approval.py",
            "    return replace(run, verdict=Outcome.CANCELLED, verdict_for=reason, manual=True)",
            "    return run",
        ),
        by=GRAPHS,
    ),
]

"""Ways of breaking the sender of http targets."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

TARGET = "tests/unit/test_http_target.py"
ANSWER = "tests/unit/test_http_answer.py"
BODY = "tests/unit/test_http_body.py"
CONNECTION = "tests/unit/test_http_connection.py"
HIDDEN = "tests/unit/test_hidden_values.py"
RESULT = "tests/unit/test_target_result.py"
READER = "adapters/http_answer.py"
LINE = "adapters/http_connection.py"

SENDER_MUTANTS: list[Mutant] = [
    m(
        "an id for each attempt",
        "webhook-id is that of the execution",
        (
            "adapters/http_target.py",
            "invocation.owner, invocation.run_id, body",
            "invocation.owner, invocation.execution_id, body",
        ),
        by=TARGET,
    ),
    m(
        "a run to report on",
        "a target that reports later is told the run in the place of the execution",
        (
            "adapters/http_target.py",
            '            headers["Gnomon-Execution-Id"] = invocation.execution_id\n',
            '            headers["Gnomon-Execution-Id"] = invocation.run_id\n',
        ),
        by=TARGET,
    ),
    m(
        "a secret's fault is the target's",
        "a secret or key that cannot be read counts for the circuit of the target",
        ("adapters/http_target.py", "retryable=error.retryable, was_sent=False)", "retryable=error.retryable)"),
        by=TARGET,
    ),
    m(
        "too many values are shown",
        "values beyond those that are looked for are shown",
        (
            "adapters/hidden_values.py",
            "None if len(few) > MOST_VALUES else _Search(few)",
            "_Search(sorted(few)[:MOST_VALUES])",
        ),
        by=HIDDEN,
    ),
    m(
        "hidden without end",
        "an answer may take any number of comparisons",
        ("adapters/hidden_values.py", "        if left < 0:", "        if not bucket.work:"),
        by=HIDDEN,
    ),
    m(
        "interim is final",
        "an answer of 102 or 103 is taken for the final one",
        (READER, 'match[1] >= b"200" or', 'match[1] > b"100" or'),
        by=ANSWER,
    ),
    m(
        "a flaw hides the status",
        "an answer that breaks off behind its status is none",
        (READER, "if self.status is None and not self._ended:", "if self.extent is Extent.CUT:"),
        by=ANSWER,
    ),
    m(
        "headers without a limit",
        "lines are read for as long as they come",
        (READER, "            self._left -= len(part)\n", ""),
        by=ANSWER,
    ),
    m(
        "a list grows without a limit",
        "a header that is folded or repeated is kept as a whole",
        (READER, 'if name and len(kept.get(name, "")) < LINE_BYTES:', "if name:"),
        by=ANSWER,
    ),
    m(
        "a reset is an end",
        "a body without a length is whole however its connection ended",
        (READER, "self.extent is Extent.LONGER or not self._cleanly", "self.extent is Extent.LONGER"),
        by=ANSWER,
    ),
    m(
        "junk between chunks",
        "what stands behind a chunk is not looked at",
        (
            READER,
            "            if (yield from self._read_line()):\n",
            "            if not (yield from self._read_line()) and size < 0:\n",
        ),
        by=ANSWER,
    ),
    m(
        "a bomb goes off",
        "a coded body is unpacked to its end",
        (
            "adapters/http_body.py",
            "stream.decompress(rest, RESPONSE_BYTES + 1 - len(result))",
            "stream.decompress(rest)",
        ),
        by=BODY,
    ),
    m(
        "unfinished is whole",
        "a coded body that breaks off is taken for all of it",
        ("adapters/http_body.py", "if not stream.eof and extent is Extent.WHOLE:", "if extent is None:"),
        by=BODY,
    ),
    m(
        "always UTF-8",
        "the character set that is declared is not used",
        ("adapters/http_body.py", 'declared = "utf-8" if match is None else match[1]', 'declared = "utf-8"'),
        by=BODY,
    ),
    m(
        "any codec",
        "whatever Python can decode is a character set",
        ("adapters/http_body.py", "known if _READABLE.fullmatch(known) else None", "known"),
        by=BODY,
    ),
    m(
        "the first takes all",
        "the first address is given all the time to connect",
        (LINE, "left / (len(addresses) - position)", "left"),
        by=CONNECTION,
    ),
    m(
        "crumbs for many",
        "of many addresses each is given less time than a connection needs",
        (LINE, "max(SHARE_SECONDS, left / (len(addresses) - position))", "left / (len(addresses) - position)"),
        by=CONNECTION,
    ),
    m(
        "one family first",
        "all addresses of a family are tried before the others",
        (LINE, "itertools.zip_longest(first, others)", "[(one,) for one in first + others]"),
        by=CONNECTION,
    ),
    m(
        "a success cut short",
        "a request is not sent to its end when a success has been answered",
        (LINE, "self._answer.is_over and not (self.unsent and self._answer.is_success)", "self._answer.is_over"),
        by=CONNECTION,
    ),
    m(
        "a refusal is waited for",
        "the body of a refusal is read for as long as the attempt may take",
        (LINE, "            ends = min(ends, time.monotonic() + REFUSAL_SECONDS)\n", ""),
        by=CONNECTION,
    ),
    m(
        "time hides the status",
        "a final status is lost when its body is not there in time",
        (LINE, "    if answer.status is None:\n", "    if answer.status is None or not answer.is_over:\n"),
        by=TARGET,
    ),
    m(
        "a refusal unread",
        "a request that cannot be sent to its end has no answer",
        (
            LINE,
            "            self.unsent = self.unsent[:0]  # whether it was answered all the same, reading will show\n",
            "            self._answer.end(cleanly=False)\n",
        ),
        by="tests/unit/test_odd_answers.py",
    ),
    m(
        "redirects are repeated",
        "a run is called again after a redirect",
        ("adapters/answers.py", "return status >= 500 or", "return not 400 <= status < 500 or"),
        by=TARGET,
    ),
    m(
        "a part for the whole",
        "the beginning of a body is read as JSON",
        ("domain/result.py", "    if extent is not Extent.WHOLE:\n        return _cut(text)\n", ""),
        by=RESULT,
    ),
    m(
        "cut but declared",
        "declared JSON that breaks off becomes a string of its beginning",
        ("domain/result.py", "extent is Extent.CUT and (declared or not text)", "extent is Extent.CUT and not text"),
        by=RESULT,
    ),
    m(
        "NaN as text",
        "a function's result that JSON cannot carry becomes a string",
        ("domain/result.py", "    except NotJsonError:\n", "    except ResultUnreadableError:\n"),
        by=RESULT,
    ),
    m(
        "unreadable is null",
        "other jobs take null for a result that could not be read",
        ("domain/run.py", "self.error_code in NOT_KEPT", 'self.error_code == "RESULT_TOO_LARGE"'),
        by="tests/unit/test_graph.py",
    ),
    m(
        "accepted and judged",
        "what a function returns that reports later is its result",
        ("adapters/lambda_target.py", "is_wanted=not invocation.callback_token", "is_wanted=True"),
        by="tests/unit/test_target_lambda.py",
    ),
]

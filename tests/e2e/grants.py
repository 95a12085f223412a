"""Takes each grant away in turn, and tells which check failed: `python -m tests.e2e.grants [function[.Grant]]…`.

Ends with 1 where nothing notices a grant's absence: it is wider than used, or lacks a check.
"""

from __future__ import annotations

import argparse
import sys
import time

from gnomon.local.places import place
from infra.grants import GRANTS
from tests.e2e.mutants import without
from tests.e2e.people import People
from tests.e2e.smoke import CHECKS, NOT_ENFORCED, Check, Smoke
from tests.e2e.stack import Api, Aws, Stack
from tests.e2e.target import Endpoint


def mutants(chosen: list[str]) -> list[tuple[str, str]]:
    """Function and grant of each; all of them where none is chosen."""
    every = [(function, grant.name) for function, grants in GRANTS.items() for grant in grants]
    enforced = [each for each in every if each[1] not in NOT_ENFORCED]
    return [each for each in enforced if not chosen or each[0] in chosen or ".".join(each) in chosen]


def noticed(smoke: Smoke, check: Check) -> str | None:
    """What the check says; None where it ends well."""
    try:
        check(smoke)
    except AssertionError as error:
        return str(error).splitlines()[0]
    except Exception as error:  # noqa: BLE001 - a check that cannot go on has noticed it too
        return f"{type(error).__name__}: {error}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chosen", nargs="*", help="api, or api.ReadJob")
    wanted = mutants(parser.parse_args().chosen)
    stack = Stack.read(place())
    aws, api = Aws(stack), Api(stack)
    unnoticed = []
    with Endpoint().listening() as endpoint:
        smoke = Smoke(stack, aws, api, endpoint, People(stack, aws))
        for check in {CHECKS[function][grant] for function, grant in wanted}:
            said = noticed(smoke, check)
            if said is not None:
                print(f"{check.__name__} fails although nothing was taken away: {said}", file=sys.stderr)
                return 1
        for function, grant in wanted:
            started, check = time.monotonic(), CHECKS[function][grant]
            with without(stack, aws, function, grant):
                said = noticed(smoke, check)
            if said is None:
                unnoticed.append(f"{function}.{grant}")
            print(f"{function:13}{grant:18}{check.__name__:26}{time.monotonic() - started:5.1f} s  {said}", flush=True)
        smoke.clean_up()
    print(f"{len(wanted) - len(unnoticed)} of {len(wanted)} noticed; not: {', '.join(unnoticed) or 'none'}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`GET /v1/schedule/preview` without a stack: `python -m functions.api.local_preview 'expression=@daily&after=…'`.

Prints `{"status", "answer"}`, the answer as the API gives it. The command line calls it: `gnomon preview`.
"""

import json
import sys
from typing import Any

from functions.api.problems import problem_of, problem_view
from functions.api.request import Request
from functions.api.routes_schedule import ScheduleRoutes
from functions.domain.errors import GnomonError


def local_preview(query: str) -> dict[str, Any]:
    """The answer to the query string, and its status. The caller says `after`: no clock is read here."""
    nothing: Any = None
    request = Request({"rawQueryString": query, "requestContext": {}})
    try:
        answer = ScheduleRoutes(nothing).preview(request)
    except GnomonError as error:
        return {"status": problem_of(error).status, "answer": {"error": problem_view(error, "")}}
    return {"status": answer.status, "answer": json.loads(answer.body or "null")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(local_preview(sys.argv[1])))

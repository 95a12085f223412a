"""What an answer says that is no success, and what no answer means."""

from __future__ import annotations

import email.utils
from typing import TYPE_CHECKING

from gnomon.errors import FieldProblem, GnomonApiError, UnreachableError

if TYPE_CHECKING:
    import httpx

_GATEWAY_CODES = {401: "UNAUTHORIZED", 403: "FORBIDDEN", 413: "PAYLOAD_TOO_LARGE", 429: "RATE_LIMITED"}


def retry_after(value: str | None, *, now: float) -> float | None:
    """Seconds the server asks us to wait; both forms of RFC 9110, section 10.2.3."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None


def unreachable(request: httpx.Request, error: httpx.RequestError) -> UnreachableError:
    return UnreachableError(
        f"No answer from {request.url.copy_with(query=None)}: {str(error) or type(error).__name__}",
        advice="Is the stack up? `make up` starts the local one; for another set GNOMON_API_URL.",
    )


def not_ours(url: httpx.URL, said: str) -> UnreachableError:
    """The error for an answer that no Gnomon API gives."""
    return UnreachableError(
        f"{url.copy_with(query=None)} answered {said}.",
        advice="Is this address a Gnomon API? `make up` prints the local one.",
    )


def api_error(response: httpx.Response) -> GnomonApiError:
    """The contract's `{"error": {…}}`, or API Gateway's own `{"message"}`."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        document = {}
    error = document.get("error") if isinstance(document, dict) else None
    about = _resource(response)
    if isinstance(error, dict):
        details, request_id = error.get("details"), error.get("requestId")
        return GnomonApiError(
            response.status_code,
            str(error.get("code", f"HTTP_{response.status_code}")),
            str(error.get("message", "")),
            details=tuple(
                FieldProblem(str(detail.get("field", "")), str(detail.get("message", "")))
                for detail in (details if isinstance(details, list) else ())
                if isinstance(detail, dict)
            ),
            request_id=None if request_id is None else str(request_id),
            about=about,
        )
    message = document.get("message") if isinstance(document, dict) else None
    return GnomonApiError(
        response.status_code,
        _GATEWAY_CODES.get(response.status_code, f"HTTP_{response.status_code}"),
        str(message or response.reason_phrase),
        request_id=response.headers.get("apigw-requestid"),
        about=about,
    )


def _resource(response: httpx.Response) -> str:
    """What the path is about: `jobs`, `workflows`, …"""
    _, _, below = response.request.url.path.partition("/v1/")
    return below.partition("/")[0]

"""One request as the routes see it, and one answer as they give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from functions.api.body import MAX_BODY_BYTES, canonical_hash, invalid, parse, read_text
from functions.api.caller import caller_of
from functions.api.conditional import if_match
from functions.api.problems import NotAcceptableError, UnsupportedMediaTypeError
from functions.domain.errors import FieldProblem, InvalidRequestError, NotFoundError
from functions.domain.idempotency import IdempotencyKey
from functions.domain.ids import is_job_id
from functions.domain.worker import is_worker_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.domain.caller import Caller
    from functions.limit_ports import Allowance

JSON_TYPE = "application/json"
MERGE_PATCH_TYPE = "application/merge-patch+json"
ACCEPTED = frozenset({JSON_TYPE, "application/vnd.gnomon.v1+json", "application/*", "*/*"})
_KEY_HEADERS = ("x-idempotency-key", "idempotency-key")
MAX_KEY_LENGTH = 255


@dataclass(slots=True)
class Answer:
    """`body` is text that is ready to be sent, None for none."""

    status: int
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON_TYPE


class _Range(NamedTuple):
    media: str
    refused: bool


class Request:
    """Reads the event of an HTTP API (payload format 2.0) as far as it is asked to."""

    __slots__ = (
        "_event",
        "_headers",
        "_machine_teams",
        "_parsed",
        "allowance",
        "caller",
        "count_creations",
        "creations",
        "not_created",
        "params",
    )

    caller: Caller
    """Who calls; only routes that need a token have it."""
    count_creations: Callable[[int], None]
    """Counts so many jobs for the caller's daily limit; raises RateLimitedError."""

    def __init__(self, event: Mapping[str, Any], *, machine_teams: Mapping[str, str] | None = None) -> None:
        self._event = event
        self._machine_teams = machine_teams
        self._headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        self.params: Mapping[str, str] = {}
        self.allowance: Allowance | None = None
        """What is left of the caller's limit, once it was taken from."""
        self.creations = 0
        """Jobs that were counted for the daily limit."""
        self._parsed: list[Any] = []
        self.not_created = 0
        """Those of them that were refused or had been created before, though the request as a whole was not refused."""

    @property
    def id(self) -> str:
        return str(self._event["requestContext"].get("requestId", ""))

    def address(self, template: str) -> str:
        """Where the API is for the caller: `{domain}` the name it was called by, `{host}` what the caller wrote for it,
        `{api}` and `{stage}` those of the gateway."""
        context = self._event["requestContext"]
        host = self.header("host") or ""
        names = {"domain": context.get("domainName") or host, "api": context.get("apiId"), "stage": context["stage"]}
        return template.format(host=host, **names)

    @property
    def method(self) -> str:
        return str(self._event["requestContext"]["http"]["method"])

    def header(self, name: str) -> str | None:
        return self._headers.get(name)

    def authenticated(self) -> Caller:
        """The caller its token names; raises UnauthorizedError."""
        authorizer = self._event["requestContext"].get("authorizer") or {}
        return caller_of((authorizer.get("jwt") or {}).get("claims"), self._machine_teams)

    @property
    def job_id(self) -> str:
        """The path's job id; raises NotFoundError where it is no UUID."""
        job_id = self.params["jobId"]
        if not is_job_id(job_id):
            raise NotFoundError
        return job_id

    @property
    def worker_id(self) -> str:
        """The path's worker id; raises NotFoundError where it is none."""
        worker_id = self.params["workerId"]
        if not is_worker_id(worker_id):
            raise NotFoundError
        return worker_id

    @property
    def if_match(self) -> int | None:
        return if_match(self.header("if-match"))

    def query(self, *known: str) -> dict[str, str]:
        """The query parameters, each of which must be known and come once; raises InvalidRequestError."""
        raw = self._event.get("rawQueryString")
        if not raw:
            return {}
        try:
            pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=50)
        except ValueError:
            raise invalid("query", "is not readable: at most 50 parameters of UTF-8") from None
        values = dict(pairs)
        unknown = [FieldProblem(name[:64], "is not a known query parameter") for name in values if name not in known]
        if unknown:
            raise InvalidRequestError(tuple(unknown))
        if len(values) != len(pairs):
            raise invalid("query", "has a parameter twice")
        return values

    def must_accept_json(self, *others: str) -> None:
        """Raises NotAcceptableError when the client takes none of what this API can answer, here `others` besides."""
        header = self._headers.get("accept")
        if header is None or header in ACCEPTED:
            return
        ranges = [_media_range(part) for part in header.split(",")]
        if not any(part.media in {*ACCEPTED, *others} and not part.refused for part in ranges):
            raise NotAcceptableError

    def create(self, number: int) -> None:
        """Count the jobs that this request may create, once its body has said how many. Raises RateLimitedError."""
        self.count_creations(number)
        self.creations = number

    def json(self, *types: str, limit: int = MAX_BODY_BYTES) -> Any:
        """The body's value, `{}` without a body, parsed once; raises what body.parse raises, or
        UnsupportedMediaTypeError."""
        if not self._parsed:
            self._parsed.append(self._json(*types, limit=limit))
        return self._parsed[0]

    def _json(self, *types: str, limit: int) -> Any:
        body = self._event.get("body") or ""
        if not body:
            return {}
        allowed = types or (JSON_TYPE,)
        media, *parameters = (part.strip().lower() for part in (self._headers.get("content-type") or "").split(";"))
        charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "utf-8")
        if media not in allowed or charset not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaTypeError(f"This operation reads {' or '.join(allowed)} in UTF-8 only.")
        return parse(read_text(body, is_base64=bool(self._event.get("isBase64Encoded")), limit=limit))

    def idempotency_key(self, body: Any) -> IdempotencyKey | None:
        """The key this request came with, in the scope of its caller, method and path; raises InvalidRequestError."""
        keys = {name: self._headers[name] for name in _KEY_HEADERS if name in self._headers}
        if not keys:
            return None
        if len(set(keys.values())) > 1:
            raise invalid("Idempotency-Key", "differs from X-Idempotency-Key")
        name, key = next(iter(keys.items()))
        if not 1 <= len(key) <= MAX_KEY_LENGTH or not (key.isascii() and key.isprintable()) or key.isspace():
            raise invalid(name, f"takes 1 to {MAX_KEY_LENGTH} printable ASCII characters")
        scope = f"{self.caller.id} {self.method} {self._event['rawPath']}"
        return IdempotencyKey(scope=scope, key=key, body_hash=canonical_hash(body))


def _media_range(text: str) -> _Range:
    media, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [part[2:] for part in parameters if part.startswith("q=")]
    return _Range(media, any(weight.strip("0.") == "" for weight in weights))

from __future__ import annotations

import functools
import inspect
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.client import Client
from gnomon.errors import FieldProblem, GnomonApiError, UnreachableError, UsageError
from gnomon.paging import Pages
from gnomon.work_client import WorkClient
from gnomon.workflow_client import WorkflowClient

if TYPE_CHECKING:
    from collections.abc import Callable

API = "http://127.0.0.1:4566/_aws/execute-api/abc/$default"
JOB = {"id": "7d1f", "name": "a", "status": "SCHEDULED"}
NOW = 1_800_000_000.0


class Server:
    """Plays its answers in turn, responses or lost connections; keeps what was asked and how long was slept."""

    def __init__(self, *answers: httpx.Response | type[httpx.TransportError]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.Response):
            return answer
        raise answer("gone", request=request)

    def client(self, url: str = API, kind: type[Client] = Client) -> Any:
        return kind(
            url,
            "token-1",
            transport=httpx.MockTransport(self),
            sleep=self.slept.append,
            uniform=lambda _low, high: high,
            clock=lambda: NOW,
        )


def ok(document: object = JOB) -> httpx.Response:
    return httpx.Response(200, json=document)


def busy(status: int = 503, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, json={"message": "busy"}, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def test_requests_go_below_the_api_address_with_the_token() -> None:
    server = Server(ok())
    server.client(API + "/").get_job("7d1f")
    (request,) = server.requests
    assert str(request.url) == f"{API}/v1/jobs/7d1f"
    assert request.headers["authorization"] == "Bearer token-1"


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    server = Server(ok())
    server.client().get_job("x/pause?y")
    assert server.requests[0].url.raw_path.endswith(b"/v1/jobs/x%2Fpause%3Fy")


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (lambda client: client.create_job({"name": "a"}), b'{"name": "a"}'),
        (lambda client: client.execute_job("7d1f"), b""),
        (lambda client: client.retry_job("7d1f", delay_seconds=5), b'{"delaySeconds": 5}'),
    ],
    ids=["create", "execute", "retry"],
)
def test_what_would_be_done_twice_is_repeated_under_one_key(call: Callable[[Client], object], body: bytes) -> None:
    server = Server(busy(503), httpx.ReadError, ok())
    assert call(server.client()) == JOB
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(server.requests) == 3
    assert len(keys) == 1
    assert [request.content for request in server.requests] == [body] * 3


def test_two_creations_carry_different_keys_and_a_given_key_is_kept() -> None:
    server = Server(ok(), ok(), ok())
    client = server.client()
    client.create_job({})
    client.create_job({})
    client.create_job({}, idempotency_key="mine")
    first, second, third = (request.headers["idempotency-key"] for request in server.requests)
    assert first != second
    assert third == "mine"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("99999", 60.0),
        ("Fri, 15 Jan 2027 08:00:09 GMT", 9.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("soon", 1.0),
    ],
)
def test_retry_after_is_honoured_up_to_a_minute(header: str, seconds: float) -> None:
    server = Server(busy(429, retry_after=header), ok())
    server.client().get_job("7d1f")
    assert server.slept == [seconds]


def test_without_retry_after_the_wait_doubles_and_the_attempts_end() -> None:
    server = Server(*[busy(503)] * 4)
    with pytest.raises(GnomonApiError) as caught:
        server.client().get_job("7d1f")
    assert caught.value.status == 503
    assert server.slept == [1.0, 2.0, 4.0]
    assert len(server.requests) == 4


@pytest.mark.parametrize("act", [Client.pause_job, Client.resume_job, Client.cancel_job])
def test_an_action_is_repeated_only_when_nothing_was_done(act: Callable[[Client, str], object]) -> None:
    refused = Server(busy(429), ok())
    assert act(refused.client(), "7d1f") == JOB
    perhaps_done = Server(busy(503), ok())
    with pytest.raises(GnomonApiError):
        act(perhaps_done.client(), "7d1f")
    lost = Server(httpx.ReadTimeout, ok())
    with pytest.raises(UnreachableError):
        act(lost.client(), "7d1f")


def test_a_refused_connection_is_told_with_address_and_way_out() -> None:
    server = Server(*[httpx.ConnectError] * 4)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:4566") as caught:
        server.client().get_job("7d1f")
    assert server.slept == [1.0, 2.0, 4.0]
    assert "make up" in str(caught.value.advice)


UNSAFE = {
    "pause_job",
    "resume_job",
    "cancel_job",
    "update_job",
    "cancel_execution",
    "reset_circuit",
    "transfer_job",
    "rotate_webhook_key",
    "replace_job with etag",
}
"""Calls without an idempotency key that may do something twice, or answer for a second try what is untrue."""
SAMPLES = {
    "definition": {},
    "changes": {},
    "config": {},
    "expression": "@daily",
    "queues": ["a"],
    "poll_id": "p",
    "held": {},
    "percent": 5.0,
    "code": "X",
}


def calls() -> dict[str, Callable[[Any], object]]:
    """Every method of the clients that calls the API, with what it must be given."""
    made: dict[str, Callable[[Any], object]] = {}
    for kind in (WorkClient, WorkflowClient):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith("_") or name == "close":
                continue
            parameters = list(inspect.signature(method).parameters.values())[1:]
            needed = {
                one.name: SAMPLES.get(one.name, "7d1f")
                for one in parameters
                if one.default is one.empty and one.kind is not one.VAR_KEYWORD
            }
            if any(one.name == "holder" for one in parameters):
                needed["token"] = "t"

            def call(client: Any, name: str = name, needed: dict[str, Any] = needed, **more: Any) -> object:
                answer = getattr(client, name)(**needed, **more)
                return list(answer) if isinstance(answer, Pages) else answer

            made[name] = call
    made["replace_job with etag"] = functools.partial(made["replace_job"], etag='"1"')
    return made


CALLS = calls()
LOST = [
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    httpx.PoolTimeout,
    httpx.ReadError,
    httpx.RemoteProtocolError,
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lost", LOST)
def test_what_may_be_repeated_is_and_nothing_else(name: str, lost: type[httpx.TransportError]) -> None:
    server = Server(*[lost] * 4)
    with pytest.raises(UnreachableError):
        CALLS[name](server.client(kind=WorkflowClient if "workflow" in name else WorkClient))
    assert len(server.requests) == (1 if name in UNSAFE else 4)
    assert len({request.headers.get("idempotency-key") for request in server.requests}) == 1


@pytest.mark.parametrize("name", sorted(set(CALLS) - UNSAFE))
def test_what_is_repeated_is_safe_by_its_method_its_key_or_its_protocol(name: str) -> None:
    server = Server(*[httpx.ConnectError] * 4)
    with pytest.raises(UnreachableError):
        CALLS[name](server.client(kind=WorkflowClient if "workflow" in name else WorkClient))
    request = server.requests[0]
    is_creation = name in {"create_job", "create_workflow", "execute_job", "retry_job", "retry_workflow"}
    by_protocol = {"register_worker", "poll", "heartbeat", "drain_worker", "cancel_workflow"} | {
        "report_progress",
        "complete_execution",
        "fail_execution",
    }
    has_key = "idempotency-key" in request.headers
    assert has_key or not is_creation
    assert has_key or request.method in {"GET", "PUT", "DELETE"} or name in by_protocol


def test_a_request_that_cannot_be_sent_is_not_repeated() -> None:
    server = Server(httpx.LocalProtocolError)
    with pytest.raises(UnreachableError):
        server.client().get_job("7d1f")


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", "\x00"])
def test_a_header_that_cannot_be_sent_is_told_before_it_is(key: str) -> None:
    with pytest.raises(UsageError, match="Idempotency-Key takes printable ASCII"):
        Server().client().create_job({}, idempotency_key=key)


@pytest.mark.parametrize("name", ["get_job", "delete_job", "history", "get_execution", "get_retry_config"])
def test_an_empty_id_calls_nothing(name: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        list(getattr(Server().client(), name)(""))


@pytest.mark.parametrize("dots", [".", ".."])
def test_dots_stay_in_their_place_of_the_path(dots: str) -> None:
    server = Server(ok())
    server.client().get_job(dots)
    assert server.requests[0].url.raw_path.endswith(f"/v1/jobs/{dots.replace('.', '%2E')}".encode())


def test_a_page_is_taken_up_to_a_limit_and_says_where_the_rest_begins() -> None:
    server = Server(
        ok({"data": [{"id": "1"}, {"id": "2"}], "pagination": {"cursor": "c1"}}),
        ok({"data": [], "pagination": {"cursor": "c2"}}),
        ok({"data": [{"id": "3"}], "pagination": {"cursor": "c3"}, "more": 1}),
    )
    page = server.client().list_jobs(cursor="c0").take(3)
    assert page == {"data": [{"id": "1"}, {"id": "2"}, {"id": "3"}], "pagination": {"cursor": "c3"}, "more": 1}
    assert [request.url.params["limit"] for request in server.requests] == ["3", "1", "1"]
    assert [request.url.params["cursor"] for request in server.requests] == ["c0", "c1", "c2"]


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8), limit=st.integers(1, 30), page_size=st.integers(1, 100)
)
def test_taking_and_going_through_see_the_same(sizes: list[int], limit: int, page_size: int) -> None:
    """However full the pages are: filters leave some empty."""
    entries = [list(range(sum(sizes[:n]), sum(sizes[: n + 1]))) for n in range(len(sizes))]

    def read(size: int, cursor: str | None) -> dict[str, Any]:
        place, skipped = map(int, (cursor or "0.0").split("."))
        data = entries[place][skipped : skipped + size]
        rest = f"{place}.{skipped + size}" if skipped + size < len(entries[place]) else f"{place + 1}.0"
        return {
            "data": data,
            "pagination": {"cursor": rest} if int(rest.split(".", maxsplit=1)[0]) < len(entries) else {},
        }

    taken = Pages[int](read, page_size=page_size).take(limit)
    cursor = taken["pagination"].get("cursor")
    rest = list(Pages[int](read, page_size=page_size, cursor=cursor)) if cursor else []
    assert taken["data"] + rest == list(Pages(read, page_size=page_size)) == list(range(sum(sizes)))
    assert len(taken["data"]) == min(limit, sum(sizes))


@pytest.mark.parametrize(
    ("call", "header"),
    [
        (lambda client, etag: client.replace_job("1", {}, etag=etag), '"3.9"'),
        *(
            (lambda client, etag, name=name: getattr(client, name)("1", etag=etag), '"3"')
            for name in ("pause_job", "resume_job", "execute_job", "retry_job", "cancel_job", "delete_job")
        ),
    ],
)
def test_what_a_job_says_of_its_etag_goes_back_as_the_condition(call: Callable[..., object], header: str) -> None:
    server = Server(ok({**JOB, "etag": header}), ok())
    job = server.client().get_job("7d1f")
    call(server.client(), job["etag"])
    assert server.requests[1].headers["if-match"] == header


def test_a_deletion_whose_answer_was_lost_is_done() -> None:
    missing = httpx.Response(404, json={"error": {"code": "NOT_FOUND", "message": "nothing"}})
    Server(httpx.ReadError, missing).client().delete_job("7d1f")
    Server(httpx.Response(204)).client().delete_job("7d1f")
    with pytest.raises(GnomonApiError, match="NOT_FOUND"):
        Server(missing).client().delete_job("7d1f")


def test_lists_go_on_after_an_empty_page_and_keep_their_filters() -> None:
    server = Server(
        ok({"data": [{"id": "1"}], "pagination": {"cursor": "c1"}}),
        ok({"data": [], "pagination": {"cursor": "c2"}}),
        ok({"data": [{"id": "2"}], "pagination": {}}),
    )
    jobs = server.client().list_jobs(status="FAILED", owner="*", page_size=7)
    assert [job["id"] for job in jobs] == ["1", "2"]
    asked = [dict(request.url.params) for request in server.requests]
    assert asked[0] == {"status": "FAILED", "owner": "*", "limit": "7"}
    assert [page.get("cursor") for page in asked] == [None, "c1", "c2"]
    assert all(page["status"] == "FAILED" for page in asked)


def test_a_page_is_read_only_when_it_is_needed() -> None:
    server = Server(ok({"data": [{"id": "1"}], "pagination": {"cursor": "c1"}}))
    assert next(server.client().history("7d1f"))["id"] == "1"
    assert len(server.requests) == 1


def test_an_error_of_the_api_keeps_all_it_says() -> None:
    document = {
        "error": {
            "code": "VALIDATION_ERROR",
            "message": "The request is not valid.",
            "details": [{"field": "schedule.expression", "message": "minute 61 is over 59"}],
            "requestId": "r-9",
        }
    }
    with pytest.raises(GnomonApiError) as caught:
        Server(httpx.Response(400, json=document)).client().create_job({})
    error = caught.value
    assert (error.status, error.code, error.request_id) == (400, "VALIDATION_ERROR", "r-9")
    assert error.details == (FieldProblem("schedule.expression", "minute 61 is over 59"),)
    assert "schedule.expression: minute 61 is over 59" in str(error)


@pytest.mark.parametrize(
    ("response", "code", "message"),
    [
        (httpx.Response(401, json={"message": "Unauthorized"}), "UNAUTHORIZED", "Unauthorized"),
        (httpx.Response(413, json={"message": "Request Too Long"}), "PAYLOAD_TOO_LARGE", "Request Too Long"),
        (httpx.Response(500, text="<html>"), "HTTP_500", "Internal Server Error"),
        (httpx.Response(500, json=["odd"]), "HTTP_500", "Internal Server Error"),
    ],
)
def test_an_error_of_the_gateway_is_one_of_ours(response: httpx.Response, code: str, message: str) -> None:
    with pytest.raises(GnomonApiError) as caught:
        Server(response).client().get_job("7d1f")
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize("text", ["<html>hello", "[1]", "5", "null", '"text"', "{", "[" * 5000])
def test_an_answer_that_is_no_json_of_the_api_is_told(text: str) -> None:
    with pytest.raises(UnreachableError, match="JSON"):
        Server(httpx.Response(200, text=text)).client().get_job("7d1f")
    with pytest.raises(UnreachableError):
        list(Server(httpx.Response(200, text=text)).client().list_jobs())


def test_a_list_without_data_is_told() -> None:
    with pytest.raises(UnreachableError, match="a list without `data`"):
        list(Server(ok({"id": "1"})).client().list_jobs())


@pytest.mark.parametrize(
    "error", [None, "text", 5, {}, {"details": None}, {"details": "x"}, {"details": [1, {"field": None}]}]
)
def test_an_error_of_odd_form_is_one_of_ours(error: object) -> None:
    with pytest.raises(GnomonApiError):
        Server(httpx.Response(400, json={"error": error})).client().get_job("7d1f")


def test_numbers_keep_their_value_and_kind_both_ways() -> None:
    payload = {"lat": 33.10318374633789, "n": 2**127, "r": 1.0, "text": "é\u0000😀"}
    server = Server(ok({"id": "1", "payload": payload}))
    answer = server.client().create_job({"payload": payload})
    sent = json.loads(server.requests[0].content)["payload"]
    assert repr(sent) == repr(payload) == repr(answer["payload"])


def test_what_is_no_json_is_refused_before_it_is_sent() -> None:
    server = Server()
    with pytest.raises(UsageError, match="JSON"):
        server.client().create_job({"payload": float("nan")})
    assert server.requests == []


@pytest.mark.parametrize(
    "url", ["http://example.com", "http://127.0.0.1.example.com", "ftp://127.0.0.1", "example.com", ""]
)
def test_no_token_leaves_this_machine_unencrypted(url: str) -> None:
    with pytest.raises(UsageError, match="API URL"):
        Server().client(url)


def test_changes_are_merge_patches_on_condition_of_the_etag() -> None:
    server = Server(ok(), ok())
    server.client().update_job("7d1f", {"tags": ["b"], "description": None}, etag='"3.9"')
    server.client().replace_job("7d1f", {"name": "b"}, etag='"4.10"')
    patch, put = server.requests
    assert (patch.method, patch.headers["content-type"]) == ("PATCH", "application/merge-patch+json")
    assert patch.headers["if-match"] == '"3.9"'
    assert json.loads(patch.content) == {"tags": ["b"], "description": None}
    assert (put.method, put.headers["content-type"], put.headers["if-match"]) == ("PUT", "application/json", '"4.10"')


def test_a_preview_asks_only_for_what_was_given() -> None:
    server = Server(ok({"slots": [], "local": []}))
    server.client().preview("0 9 * * MON-FRI", timezone="Europe/Berlin", count=3)
    assert dict(server.requests[0].url.params) == {
        "expression": "0 9 * * MON-FRI",
        "timezone": "Europe/Berlin",
        "count": "3",
    }

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest
from standardwebhooks import Webhook

from gnomon.local.receiver import Receiver, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
NOW = 1_800_000_000


def signed(body: str, *, at: int = NOW, secret: str = SECRET, **headers: str) -> dict[str, str]:
    """Headers by the reference implementation of Standard Webhooks."""
    signature = Webhook(secret).sign("msg-1", datetime.fromtimestamp(at, UTC), body)
    others = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"webhook-id": "msg-1", "webhook-timestamp": str(at), "webhook-signature": signature, **others}


def test_a_genuine_call_is_taken() -> None:
    assert refuse(SECRET, signed('{"é":1}'), '{"é":1}'.encode(), now=NOW + 299) is None
    unpadded = SECRET.rstrip("=")
    assert refuse(unpadded, signed("{}"), b"{}", now=NOW) is None


def test_one_right_signature_among_several_is_enough() -> None:
    other = "whsec_" + base64.b64encode(b"another secret of 32 bytes......").decode()
    headers = signed("{}")
    both = f"{signed('{}', secret=other)['webhook-signature']} {headers['webhook-signature']}"
    assert refuse(SECRET, {**headers, "webhook-signature": both}, b"{}", now=NOW) is None


@pytest.mark.parametrize(
    ("change", "body", "now", "reason"),
    [
        ({}, b"{} ", NOW, "does not match"),
        ({"webhook-id": "msg-2"}, b"{}", NOW, "does not match"),
        ({"webhook-timestamp": str(NOW + 1)}, b"{}", NOW, "does not match"),
        ({"webhook-signature": ""}, b"{}", NOW, "does not match"),
        ({"webhook-signature": "v1,\xff"}, b"{}", NOW, "does not match"),
        ({"webhook-timestamp": "soon"}, b"{}", NOW, "missing"),
        ({"webhook-id": ""}, b"{}", NOW, "missing"),
        ({}, b"{}", NOW + 301, "more than 300 s"),
        ({}, b"{}", NOW - 301, "more than 300 s"),
    ],
)
def test_anything_else_is_refused(change: Mapping[str, str], body: bytes, now: int, reason: str) -> None:
    assert reason in str(refuse(SECRET, {**signed("{}"), **change}, body, now=now))


@pytest.mark.usefixtures("loopback")
def test_answers_follow_each_other_for_each_job_and_the_last_repeats() -> None:
    with Receiver(SECRET, {"/flaky": (503, 503, 200)}, clock=lambda: NOW) as receiver, httpx.Client() as sender:

        def call(path: str, job: str) -> int:
            headers = signed("{}", Gnomon_Job_Id=job, Gnomon_Attempt="1")
            return sender.post(receiver.url + path, content="{}", headers=headers).status_code

        assert [call("/flaky", "a") for _ in range(4)] == [503, 503, 200, 200]
        assert call("/flaky", "b") == 503
        assert call("/steady", "a") == 200
        assert sender.post(receiver.url + "/flaky", content="{}").status_code == 401
        assert call("/flaky", "b") == 503
        seen = receiver.deliveries
    assert [delivery.job_id for delivery in seen] == ["a", "a", "a", "a", "b", "a", "", "b"]
    assert [delivery.refusal is None for delivery in seen] == [True] * 6 + [False, True]
    assert {delivery.at for delivery in seen} == {NOW}

"""What is configured for a type holds for its jobs on the stack, and only admins change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gnomon.errors import GnomonApiError
from tests.e2e.stack import instant, once, unique, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gnomon.client import Client
    from tests.e2e.letters import Letters
    from tests.e2e.target import Endpoint

pytestmark = pytest.mark.e2e

FAST = {"backoffStrategy": "fixed", "initialDelaySeconds": 1, "jitter": 0}


@pytest.fixture
def configure(admin: Client) -> Iterator[Callable[..., str]]:
    """Configures a new type; functions have nothing of it in memory. Its name has a slash."""
    made: list[str] = []

    def configure(**config: Any) -> str:
        job_type = f"e2e/{unique('type')}"
        admin.put_retry_config(job_type, config)
        made.append(job_type)
        return job_type

    yield configure
    for job_type in made:
        admin.delete_retry_config(job_type)


def ended(client: Client, job_id: str, status: str, *, seconds: float = 40) -> None:
    until(lambda: client.get_job(job_id)["status"] == status, seconds=seconds, hint=f"{job_id} is {status}")


def test_a_job_follows_its_type_where_it_says_nothing(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]], configure: Callable[..., str]
) -> None:
    job_type = configure(**FAST, maxRetries=1)
    follows = create(type=job_type, schedule=once(0), target=endpoint.target("503"))
    own = create(type=job_type, schedule=once(0), target=endpoint.target("503"), retryConfig={"maxRetries": 2})
    for job, attempts in ((follows, 2), (own, 3)):
        ended(scheduler, job["id"], "FAILED")
        history = list(scheduler.history(job["id"]))
        assert [each["attempt"] for each in history] == list(range(attempts, 0, -1))
        assert history[0]["reason"] == "RETRIES_EXHAUSTED"
        first = history[-1]
        assert 1 <= instant(first["nextRetryAt"]) - instant(first["completedAt"]) <= 2
    assert "retryConfig" not in scheduler.get_job(follows["id"])


def test_poison_is_a_dead_letter_at_once_and_a_forced_retry_counts_anew(
    scheduler: Client,
    endpoint: Endpoint,
    letters: Letters,
    create: Callable[..., dict[str, Any]],
    configure: Callable[..., str],
) -> None:
    job_type = configure(**FAST, maxRetries=20, poisonDetection=True)
    job = create(type=job_type, schedule=once(0), target=endpoint.target("503-500-500-500-500-500-200"))
    ended(scheduler, job["id"], "FAILED")
    assert [each["reason"] for each in scheduler.history(job["id"])] == ["POISON", *["RETRY_SCHEDULED"] * 3]
    (letter,) = letters.of(job["id"], wait=5)
    assert (letter["reason"], letter["attempts"]) == ("POISON", 4)
    scheduler.retry_job(job["id"])
    ended(scheduler, job["id"], "COMPLETED")
    assert len(endpoint.calls(job["id"])) == 7


def test_only_admins_change_what_everybody_reads(
    scheduler: Client, viewer: Client, admin: Client, configure: Callable[..., str]
) -> None:
    job_type = configure(maxRetries=4)
    for client in (scheduler, viewer):
        assert client.get_retry_config(job_type)["maxRetries"] == 4
        assert job_type in [each["jobType"] for each in client.list_retry_configs()]
        for change in (
            lambda client=client: client.put_retry_config(job_type, {}),
            lambda client=client: client.delete_retry_config(job_type),
        ):
            with pytest.raises(GnomonApiError, match="FORBIDDEN") as refused:
                change()
            assert refused.value.status == 403
    assert admin.get_retry_config(job_type)["maxRetries"] == 4
    with pytest.raises(GnomonApiError, match="NOT_FOUND"):
        admin.get_retry_config("e2e/never-configured")


def test_a_forced_retry_waits_as_long_as_it_was_asked_to(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    job = create(schedule=once(0), target=endpoint.target("500-200"), retryConfig={"maxRetries": 0})
    ended(scheduler, job["id"], "FAILED")
    scheduler.retry_job(job["id"], delay_seconds=4)
    (waiting, first) = scheduler.history(job["id"])
    assert (waiting["status"], waiting["attempt"]) == ("QUEUED", 2)
    ended(scheduler, job["id"], "COMPLETED")
    calls = endpoint.calls(job["id"])
    assert instant(waiting["nextRetryAt"]) - instant(first["completedAt"]) >= 4
    assert 0 <= calls[1].at - instant(waiting["nextRetryAt"]) <= 1.5


def test_no_retry_starts_after_its_window(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    config = {**FAST, "initialDelaySeconds": 3, "maxRetries": 20, "retryWindowSeconds": 8}
    job = create(schedule=once(0), target=endpoint.target("503"), retryConfig=config)
    ended(scheduler, job["id"], "FAILED")
    last, *others = scheduler.history(job["id"])
    assert last["reason"] == "RETRY_WINDOW_OVER"
    assert [each["reason"] for each in others] == ["RETRY_SCHEDULED"] * len(others)
    slot = instant(last["scheduledFor"])
    assert all(call.at <= slot + 8 + 1.5 for call in endpoint.calls(job["id"]))
    assert 2 <= len(endpoint.calls(job["id"])) <= 3


@pytest.mark.case(13)
def test_a_target_that_asks_for_time_gets_it_up_to_the_maximum(
    scheduler: Client, endpoint: Endpoint, create: Callable[..., dict[str, Any]]
) -> None:
    patient = create(schedule=once(0), target=endpoint.target("busy-200"), retryConfig=FAST)
    hasty = create(schedule=once(0), target=endpoint.target("busy-200"), retryConfig={**FAST, "maxDelaySeconds": 2})
    for job, least, most in ((patient, 4, 5), (hasty, 2, 3)):
        ended(scheduler, job["id"], "COMPLETED")
        first = list(scheduler.history(job["id"]))[-1]
        assert first["error"]["code"] == "HTTP_429"
        assert least <= instant(first["nextRetryAt"]) - instant(first["completedAt"]) <= most
        assert endpoint.calls(job["id"])[1].at >= instant(first["nextRetryAt"])

"""IdempotencyKeys: the ids of what a request makes, kept for an hour."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.errors import IdempotencyKeyReusedError
from functions.ports import Claim
from tests.contract.conftest import at_once
from tests.factories import NOW


def claim(keys: Any, *ids: str, scope: str = "alice POST /v1/jobs", key: str = "k", body: str = "b", now: float = NOW):
    return keys.claim(scope, key, body_hash=body, ids=ids, now=now)


def test_a_key_keeps_the_first_ids(idempotency):
    assert claim(idempotency, "one", "two") == Claim(ids=("one", "two"), replayed=False)
    assert claim(idempotency, "three", now=NOW + 3599) == Claim(ids=("one", "two"), replayed=True)


@pytest.mark.case(24)
def test_another_body_under_the_key_is_refused_and_changes_nothing(idempotency):
    claim(idempotency, "one")

    with pytest.raises(IdempotencyKeyReusedError):
        claim(idempotency, "two", body="other")

    assert claim(idempotency, "three").ids == ("one",)


@pytest.mark.case(24)
def test_scopes_and_keys_are_independent(idempotency):
    claim(idempotency, "one")

    assert claim(idempotency, "two", scope="bob POST /v1/jobs").ids == ("two",)
    assert claim(idempotency, "three", key="K").ids == ("three",)
    assert claim(idempotency, "four", scope="alice POST /v1/job", key="sk").ids == ("four",)


@pytest.mark.case(24)
def test_an_expired_row_that_is_still_there_counts_as_gone(idempotency):
    claim(idempotency, "one")

    assert claim(idempotency, "two", body="other", now=NOW + 3601) == Claim(ids=("two",), replayed=False)
    assert claim(idempotency, "three", body="other", now=NOW + 3602).ids == ("two",)


@pytest.mark.case(31)
def test_a_claim_whose_answer_was_lost_is_no_replay(idempotency, faults):
    faults.inject(lose_answer=1)

    assert claim(idempotency, "one") == Claim(ids=("one",), replayed=False)


@pytest.mark.case(25)
def test_fifty_parallel_claims_agree(idempotency):
    answers = at_once(50, lambda number: claim(idempotency, f"id-{number}"))

    assert len({answer.ids for answer in answers}) == 1
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 49


def test_a_released_key_is_free(idempotency):
    idempotency.release("alice POST /v1/jobs", "k", claim(idempotency, "one"))

    assert claim(idempotency, "two", body="other").ids == ("two",)


def test_only_the_request_that_claimed_releases(idempotency):
    claim(idempotency, "one")
    replay = claim(idempotency, "two")

    idempotency.release("alice POST /v1/jobs", "k", replay)
    idempotency.release("alice POST /v1/jobs", "k", Claim(ids=("other",), replayed=False))
    idempotency.release("alice POST /v1/jobs", "unknown", Claim(ids=("other",), replayed=False))

    assert claim(idempotency, "three").ids == ("one",)


def test_long_and_strange_keys_are_kept_apart(idempotency):
    keys = ["x" * 255, "x" * 254, "\u00e9", "a b", "a\tb"]

    assert [claim(idempotency, f"{number}", key=key).ids for number, key in enumerate(keys)] == [
        (f"{number}",) for number in range(5)
    ]

"""Token buckets as arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from functions.domain.limits import MICROSECONDS, Bucket, microseconds
from tests.factories import NOW

buckets = st.builds(Bucket, limit=st.integers(1, 5_000), period_seconds=st.sampled_from([60, 86_400]))
AT = microseconds(NOW)


@given(buckets)
def test_a_full_bucket_gives_exactly_its_limit(bucket):
    arrival, taken = 0, 0
    while (new := bucket.take(arrival, 1, now=AT)) is not None:
        arrival, taken = new, taken + 1

    assert taken == bucket.limit
    assert bucket.take(0, bucket.limit, now=AT) is not None
    assert bucket.take(0, bucket.limit + 1, now=AT) is None


@given(buckets, st.lists(st.tuples(st.floats(0, 40_000), st.integers(1, 50)), max_size=60))
def test_no_span_of_time_gives_more_than_a_full_bucket_and_its_refill(bucket, requests):
    now, arrival, taken = AT, 0, 0
    for wait, tokens in requests:
        now += round(wait * MICROSECONDS)
        new = bucket.take(arrival, tokens, now=now)
        if new is not None:
            arrival, taken = new, taken + tokens
        # One token of tolerance for costs that are rounded down to a microsecond.
        refill = (now - AT) * bucket.limit / bucket.period
        assert taken <= bucket.limit + refill + 1
        assert 0 <= bucket.remaining(arrival, now=now) <= bucket.limit
        assert 0 <= bucket.reset_seconds(arrival, now=now) <= bucket.period_seconds


@given(buckets, st.integers(1, 50), st.integers(0, 60 * MICROSECONDS))
def test_after_the_named_wait_the_tokens_are_there(bucket, tokens, used):
    arrival, tokens = AT + used, min(tokens, bucket.limit)
    wait = bucket.seconds_until(arrival, tokens, now=AT)

    assert wait >= 1
    assert bucket.take(arrival, tokens, now=AT + wait * MICROSECONDS) is not None


@given(buckets, st.integers(0, 60 * MICROSECONDS))
def test_what_remains_can_be_taken(bucket, used):
    remaining = bucket.remaining(AT + used, now=AT)

    assert remaining == 0 or bucket.take(AT + used, remaining, now=AT) is not None

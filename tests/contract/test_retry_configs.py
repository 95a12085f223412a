"""RetryConfigs: what was configured for the types of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from functions.domain.errors import CorruptDefinitionError, InvalidFieldError
from functions.domain.job_type import StoredTypeConfig
from tests.factories import NOW

DOCUMENT = {
    "maxRetries": 7,
    "multiplier": 1.5,
    "retryableErrors": ["HTTP_503", "HANDLER_ERROR:Käse"],
    "circuitBreaker": {"openSeconds": 60},
    "maxConcurrency": 20,
}


def config(job_type: str = "billing", **document: Any) -> StoredTypeConfig:
    return StoredTypeConfig(job_type=job_type, document=document or DOCUMENT, updated_at=NOW, updated_by="root")


def test_a_configuration_is_read_as_it_was_put(retry_configs):
    retry_configs.put(config())

    assert retry_configs.get("billing") == config()
    assert retry_configs.get("billin") is None


def test_the_last_writer_wins(retry_configs):
    retry_configs.put(config())
    retry_configs.put(config(maxRetries=0))

    assert retry_configs.get("billing") == config(maxRetries=0)


def test_a_configuration_is_taken_away_once(retry_configs):
    retry_configs.put(config())

    assert [retry_configs.delete("billing"), retry_configs.delete("billing")] == [True, False]
    assert retry_configs.get("billing") is None


def test_one_that_cannot_be_read_says_so_and_hides_no_other(retry_configs, break_config):
    for name in ("a", "b", "c"):
        retry_configs.put(config(name))
    break_config("b")

    with pytest.raises(CorruptDefinitionError):
        retry_configs.get("b")
    assert [each.job_type for each in retry_configs.list(limit=10, cursor=None).items] == ["a", "c"]


@pytest.mark.parametrize("limit", [1, 2, 5, 6])
def test_pages_by_name(retry_configs, owners, limit):
    owners.register("another kind of row")
    names = ["b/2", "a", "b", "B", "b:1"]
    for name in names:
        retry_configs.put(config(name))

    found, cursor = [], None
    for _ in range(10):
        page = retry_configs.list(limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [each.job_type for each in page.items]
        if (cursor := page.cursor) is None:
            break

    assert found == sorted(names)


def test_a_cursor_of_another_list_is_refused(retry_configs):
    with pytest.raises(InvalidFieldError, match="cursor"):
        retry_configs.list(limit=1, cursor="AAAAAAAAAAAA")

"""DeadLetters: each announcement reaches the queue, or the caller hears that one did not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.domain.errors import UnavailableError


def announced(dead_letters: Any, platform: Any) -> list[dict[str, object]]:
    if platform is None:
        return list(dead_letters.announced)
    found = []
    while True:
        answer = platform.sqs.receive_message(QueueUrl=platform.dead_letter_queue_url, MaxNumberOfMessages=10)
        if not answer.get("Messages"):
            return found
        found += [json.loads(message["Body"]) for message in answer["Messages"]]


def test_every_message_arrives(dead_letters, platform):
    messages = [{"id": f"{number}", "text": "é" * 10} for number in range(23)]

    dead_letters.announce(iter(messages))

    assert sorted(announced(dead_letters, platform), key=repr) == sorted(messages, key=repr)


def test_large_messages_arrive(dead_letters, platform):
    messages = [{"id": f"{number}", "result": "x" * 60_000} for number in range(9)]

    dead_letters.announce(messages)

    assert len(announced(dead_letters, platform)) == 9


def test_a_message_holds_only_characters_that_the_queue_takes(dead_letters, platform):
    """SQS takes what XML 1.0 takes (API reference of SendMessage), and names of jobs may hold more."""
    message = {"id": "1", "jobName": "\ufffe\uffff\u0001\u202e"}

    dead_letters.announce([message])

    if platform is not None:
        [sent] = platform.sqs.receive_message(QueueUrl=platform.dead_letter_queue_url)["Messages"]
        assert sent["Body"].isascii()
        assert json.loads(sent["Body"]) == message


def test_nothing_to_announce_is_no_call(dead_letters, faults):
    dead_letters.announce([])

    assert faults.steps == []


def test_a_message_that_cannot_be_sent_is_an_error(dead_letters, platform):
    if platform is None:
        dead_letters.failing = True
    else:
        platform.sqs.delete_queue(QueueUrl=platform.dead_letter_queue_url)

    with pytest.raises(UnavailableError):
        dead_letters.announce([{"id": "1"}])

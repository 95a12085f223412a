"""An id has one spelling: digits of other scripts, which Python reads as numbers too, make none."""

from __future__ import annotations

import pytest

from functions.api.conditional import if_match
from functions.domain.definition import Definition
from functions.domain.errors import CorruptDefinitionError, InvalidRequestError
from functions.domain.hint import Hint, read_hint, write_hint
from functions.domain.ids import is_dependent, is_manual, is_slot_id, parse_execution_id
from tests.factories import JOB_ID, NOW, make_document

ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


@pytest.mark.parametrize(
    "text", [f"{JOB_ID}-{NOW}-" + "0001".translate(ARABIC), f"{JOB_ID}-{str(NOW).translate(ARABIC)}-0001"]
)
def test_an_execution_has_one_id(text: str) -> None:
    assert parse_execution_id(text) is None


def test_a_slot_has_one_id() -> None:
    assert is_slot_id(str(NOW))
    assert not is_slot_id(str(NOW).translate(ARABIC))
    with pytest.raises(ValueError, match="no slot id"):
        read_hint(write_hint(Hint(JOB_ID, str(NOW).translate(ARABIC), 1)))


@pytest.mark.parametrize("letters", ["mmmmmmmm", "dddddddd", "abcdefgh"])
def test_what_a_slot_is_of_is_said_by_one_letter(letters: str) -> None:
    assert (is_manual(f"{NOW}m{letters}"), is_dependent(f"{NOW}m{letters}")) == (True, False)
    assert (is_manual(f"{NOW}d{letters}"), is_dependent(f"{NOW}d{letters}")) == (False, True)
    assert not is_manual(str(NOW))
    assert not is_dependent(str(NOW))


def test_a_tag_has_one_spelling() -> None:
    with pytest.raises(InvalidRequestError):
        if_match('"3.1"'.translate(ARABIC))


@pytest.mark.parametrize("change", [{"target": "x"}, {"target": None}, {"name": 5}, {"tags": 5}])
def test_a_stored_definition_that_no_answer_could_show_is_corrupt(change: dict[str, object]) -> None:
    with pytest.raises(CorruptDefinitionError):
        Definition.read(make_document(**change), "{}", job_id=JOB_ID, created_at=NOW)

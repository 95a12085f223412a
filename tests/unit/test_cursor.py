"""Tokens that name where the next page starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.cursor import read_cursor, write_cursor
from functions.domain.errors import InvalidFieldError


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=250), st.text(st.characters(codec="utf-8")))
def test_a_token_is_read_by_the_list_it_was_made_for(position, scope):
    token = write_cursor(position, scope=scope)

    assert read_cursor(token, scope=scope) == position
    assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@pytest.mark.parametrize("position", ["", "x" * 1_001, "😀" * 251])
def test_a_position_that_is_no_key_is_refused(position):
    with pytest.raises(InvalidFieldError):
        read_cursor(write_cursor(position, scope="circuits"), scope="circuits")


@given(st.text())
def test_anything_else_is_refused_with_the_fields_name(token):
    with pytest.raises(InvalidFieldError) as refused:
        read_cursor(token, scope="owner team-a")

    assert refused.value.field == "cursor"


@given(st.data())
def test_no_changed_token_is_accepted(data):
    token = write_cursor("1800000000#7d3f9c1e", scope="owner team-a")
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("abcXYZ019-_+/=.\u00e9\ud800").filter(lambda one: one != token[place]))

    with pytest.raises(InvalidFieldError):
        read_cursor(token[:place] + letter + token[place + 1 :], scope="owner team-a")


def test_the_token_of_another_list_is_refused():
    with pytest.raises(InvalidFieldError):
        read_cursor(write_cursor("1", scope="owner team-a"), scope="owner team-b")

"""Every error that can reach the API has its line in the one table."""

from __future__ import annotations

import inspect
import json

import pytest

from functions.api import problems
from functions.api.problems import FAULT, PROBLEMS, problem_body, problem_of
from functions.domain import errors
from functions.domain.errors import FieldProblem, GnomonError, InvalidFieldError, InvalidRequestError

NEVER_REACHES_THE_API = {
    GnomonError,  # only its kinds are raised
    errors.HintNotSentError,  # use cases go on without the hint: the sweep brings it
}


def error_classes() -> list[type[GnomonError]]:
    found = {
        error
        for module in (errors, problems)
        for _, error in inspect.getmembers(module, inspect.isclass)
        if issubclass(error, GnomonError) and error not in NEVER_REACHES_THE_API
    }
    return sorted(found, key=lambda error: error.__name__)


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_every_error_has_a_line(error: type[GnomonError]) -> None:
    assert error in PROBLEMS


def test_every_line_is_of_an_error_that_exists() -> None:
    assert set(PROBLEMS) == set(error_classes())


def test_a_status_has_one_code() -> None:
    lines = {*PROBLEMS.values(), FAULT}
    assert len({line.code for line in lines}) == len(lines)
    assert len({line.status for line in lines}) == len(lines)


def test_anything_else_is_a_fault_and_keeps_its_secret() -> None:
    assert problem_of(RuntimeError("secret")) == FAULT
    assert "secret" not in problem_body(RuntimeError("secret"), "r")
    assert problem_of(GnomonError()) == FAULT


def test_a_field_is_named_once_in_the_message() -> None:
    def message(error: GnomonError) -> str:
        return str(json.loads(problem_body(error, "r"))["error"]["message"])

    assert message(InvalidFieldError("target.url", 'target.url "x" must be https')) == 'target.url "x" must be https'
    assert message(InvalidFieldError("schedule.at", "is past")) == "schedule.at: is past"
    many = InvalidRequestError(tuple(FieldProblem(f"f{number}", "is wrong") for number in range(5)))
    assert message(many) == "f0: is wrong; f1: is wrong; f2: is wrong; and 2 more"

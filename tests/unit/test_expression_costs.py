"""No expression takes much time or memory: a bomb for each function of JMESPath, and for each kind of node."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

from functions.domain import expression as expression_module
from functions.domain import expression_costs
from functions.domain.errors import InvalidFieldError
from functions.domain.expression import CHARACTERS, STEPS, Effort, ExpressionError, check, value_of
from functions.domain.expression_costs import PRICES

SHARE = STEPS // 10
"""Steps of these evaluations: each is a tenth of what is allowed, and takes a tenth of the time and the memory."""
MEGABYTES = 6
"""Most memory that an evaluation of this share may take at once."""
SECONDS = 1.0
"""Most time of the processor: a hundred times what it takes, so that a busy machine is no failure."""

DOUBLE = "[@,@][]|"
TEXT = "x" * 30_000
"""As long as a result may be."""
NEARLY = [TEXT + "a", TEXT + "b"]
ASTRAL = "\N{PILE OF POO}" * 7_500
NUMBER = -(10**4_299)
"""As long as the JSON that is accepted has them."""
KEYED = {"k" * 30_000: 1}
NUMBERS = list(range(16_000))
WIDE = {f"k{number}": number for number in range(3_000)}


def many(call: str) -> str:
    """As many calls as an expression holds, side by side."""
    return f"[{','.join([call] * ((CHARACTERS - 30) // (len(call) + 1)))}] | length(@)"


def each(call: str, times: int) -> str:
    """A call for each of 2 ** times copies."""
    return f"{DOUBLE * times}map(&{call},@)|length(@)"


BOMBS: dict[str, list[tuple[str, Any]]] = {
    "abs": [(each("abs(@)", 11), [NUMBER])],
    "avg": [(many("avg(@)"), NUMBERS)],
    "ceil": [(each("ceil(@)", 11), [NUMBER])],
    "contains": [
        (many("contains(@,'y')"), NUMBERS),
        (many("contains(@,'y')"), TEXT * 4),
        (many("contains(a,b)"), {"a": [KEYED] * 50, "b": json.loads(json.dumps(KEYED))}),
    ],
    "ends_with": [(each("ends_with(@[0],@[1])", 11), [NEARLY])],
    "floor": [(each("floor(@)", 11), [NUMBER])],
    "join": [
        ("join('',[@,@])|" * 11 + "length(@)", TEXT),
        (DOUBLE * 12 + "join(@[0],@)|length(@)", [TEXT]),
        ("join(text,letters)|length(@)", {"text": TEXT, "letters": ["a"] * 1_000}),
    ],
    "keys": [(many("keys(@)"), WIDE)],
    "max": [(many("max(@)"), NUMBERS), (DOUBLE * 11 + "max(@)|length(@)", NEARLY)],
    "merge": [(many("merge(@,@,@)"), WIDE)],
    "min": [(many("min(@)"), NUMBERS), (DOUBLE * 11 + "min(@)|length(@)", NEARLY)],
    "reverse": [(many("reverse(@)"), NUMBERS), (each("reverse(@)", 11), [TEXT])],
    "sort": [(many("sort(@)"), NUMBERS), (DOUBLE * 5 + "sort(@)|length(@)", NEARLY)],
    "starts_with": [(each("starts_with(@[0],@[1])", 11), [NEARLY])],
    "sum": [(many("sum(@)"), NUMBERS)],
    "to_number": [(each("to_number(@)", 11), [TEXT])],
    "to_string": [
        (DOUBLE * 11 + "to_string(@)|length(@)", [TEXT]),
        (DOUBLE * 11 + "to_string(@)|length(@)", [KEYED]),
        (DOUBLE * 11 + "to_string(@)|length(@)", [NUMBER]),
        (DOUBLE * 6 + "to_string(@)|length(@)", [ASTRAL]),
        ("[@,@]|" * 45 + "to_string(@)|length(@)", 1),
        (many("to_string(@)"), WIDE),
    ],
    "values": [(many("values(@)"), WIDE)],
}
"""By function: what only its price stops."""
BY_ELEMENT: dict[str, list[tuple[str, Any]]] = {
    "map": [(many("map(&@,@)"), NUMBERS)],
    "max_by": [(many("max_by(@,&@)"), NUMBERS), (DOUBLE * 11 + "max_by(@,&@)|length(@)", NEARLY)],
    "min_by": [(many("min_by(@,&@)"), NUMBERS), (DOUBLE * 11 + "min_by(@,&@)|length(@)", NEARLY)],
    "sort_by": [(many("sort_by(@,&@)"), NUMBERS), (DOUBLE * 5 + "sort_by(@,&@)|length(@)", NEARLY)],
}
"""By function: what is stopped since each element's evaluation is a step, and its key is paid for."""
HARMLESS: dict[str, list[tuple[str, Any]]] = {
    "length": [(many("length(@)"), TEXT), (many("length(@)"), NUMBERS)],
    "not_null": [(many("not_null(@)"), NUMBERS)],
    "to_array": [(many("to_array(@)"), NUMBERS), (each("to_array(@)", 13), [TEXT])],
    "type": [(many("type(@)"), NUMBERS)],
}
"""By function: what takes no work, however much there is."""
NODES: dict[str, list[tuple[str, Any]]] = {
    "and_expression": [],
    "comparator": [
        ("[@,@]|" * 45 + "@==@", 1),
        (many("a==b"), {"a": KEYED, "b": json.loads(json.dumps(KEYED))}),
        (many("a!=b"), {"a": NUMBERS, "b": list(NUMBERS)}),
        (DOUBLE * 11 + "[?@[0]<@[1]]|length(@)", [NEARLY]),
        (DOUBLE * 11 + "[?@[0]>=@[1]]|length(@)", [NEARLY]),
    ],
    "current": [],
    "expref": [],
    "field": [],
    "filter_projection": [(many("[?@]"), NUMBERS)],
    "flatten": [(DOUBLE * 40 + "@", NUMBERS), (many("[]"), NUMBERS)],
    "function_expression": [],
    "identity": [],
    "index": [],
    "index_expression": [],
    "key_val_pair": [],
    "literal": [],
    "multi_select_dict": [(each("{a:@}", 15), [1])],
    "multi_select_list": [(each("[@]", 15), [1])],
    "not_expression": [],
    "or_expression": [],
    "pipe": [],
    "projection": [(many("[*]"), NUMBERS)],
    "slice": [(many("[::-1]"), NUMBERS)],
    "subexpression": [],
    "value_projection": [(many("*"), WIDE)],
}
"""By kind of node: what it is stopped at. One without takes a step, and no work but its children's."""


def bombs(*tables: dict[str, list[tuple[str, Any]]]) -> list[Any]:
    return [
        pytest.param(name, expression, value, id=f"{name}-{number}")
        for table in tables
        for name, its in table.items()
        for number, (expression, value) in enumerate(its)
    ]


def test_each_function_of_the_library_has_a_price_and_a_bomb() -> None:
    """A release with another function says so here: until it has a price, it is not allowed."""
    functions = set(Functions.FUNCTION_TABLE)
    assert set(PRICES) == functions
    assert BOMBS.keys() | BY_ELEMENT.keys() | HARMLESS.keys() == functions
    assert all(BOMBS.values())


def test_each_kind_of_node_of_the_library_is_known() -> None:
    kinds = {name for name, _ in inspect.getmembers(TreeInterpreter) if name.startswith("visit_")}
    assert kinds == {f"visit_{name}" for name in NODES}


def test_a_function_without_a_price_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression_module, "PRICES", {"length": PRICES["length"]})
    check("length(@)", "when")
    with pytest.raises(InvalidFieldError, match="no function"):
        check("reverse(@)", "when")


ALL = bombs(BOMBS, BY_ELEMENT, HARMLESS, NODES)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expression", "value"), bombs(BOMBS, BY_ELEMENT, NODES))
def test_a_bomb_is_stopped(name: str, expression: str, value: Any) -> None:
    check(expression, "when")
    with pytest.raises(ExpressionError, match="too much work"):
        value_of(expression, value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expression", "value"), bombs(BOMBS))
def test_it_is_the_price_that_stops_it(name: str, expression: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else the bomb proves nothing."""
    monkeypatch.setitem(PRICES, name, PRICES["type"])  # type: ignore[arg-type]  # it is a dictionary
    # Who writes all of the one that is nested is never done.
    value_of(expression.replace("[@,@]|", "", 30), value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expression", "value"), ALL)
def test_until_it_is_stopped_it_takes_little(name: str, expression: str, value: Any) -> None:
    with contextlib.suppress(ExpressionError):
        measured(expression, value)


@pytest.mark.parametrize(("name", "expression", "value"), bombs(HARMLESS))
def test_what_costs_nothing_is_not_stopped(name: str, expression: str, value: Any) -> None:
    value_of(expression, value)


def measured(expression: str, value: Any) -> Any:
    """The value, if it took no more than an evaluation may."""
    began = time.process_time()
    tracemalloc.start()
    try:
        return value_of(expression, value, Effort(SHARE))
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEGABYTES * 1024 * 1024, f"{peak / 1024 / 1024:.0f} MB"
        assert time.process_time() - began < SECONDS


CALLS = {
    "merge": "merge(@[0],@[1])",
    "join": "join(to_string(@[0]),[to_string(@[1])])",
    "contains": "contains(@,@[0])",
    "starts_with": "starts_with(@[0],@[1])",
    "ends_with": "ends_with(@[0],@[1])",
    "map": "map(&[@,to_array(@)],@)",
    **{name: f"{name}(@,&to_string(@))" for name in ("sort_by", "min_by", "max_by")},
}
STAGES = st.sampled_from(
    [
        *([DOUBLE] * 4),
        "[@,@]|",
        "join('',[@,@])|",
        "[*].{a:@,b:[@]}|",
        "[::-1]|",
        "[?@>=@]|",
        "*|",
        *(CALLS.get(name, f"{name}(@)") + "|" for name in PRICES),
        *(f"[*].{CALLS.get(name, f'{name}(@)')}|" for name in PRICES),
    ]
)
VALUES = st.sampled_from(
    [TEXT, NEARLY, ASTRAL, [ASTRAL], [NUMBER], [KEYED], KEYED, NUMBERS, WIDE, [[NEARLY]], [WIDE, KEYED]]
)


@settings(max_examples=60)
@given(st.lists(STAGES, max_size=24), VALUES)
def test_no_chain_of_calls_is_a_bomb(stages: list[str], value: Any) -> None:
    with contextlib.suppress(ExpressionError):
        measured("".join(stages) + "@", value)


@pytest.mark.parametrize(
    "expression",
    [
        "to_string(@)",
        "sort_by(@,&name)[0].name",
        "[?contains(name,'9')]|length(@)",
        "max_by(@,&name).name",
        "sort([*].name)[-1]",
        "join(',',[*].name)",
        "[*].reverse(name)|[0]",
        "[*].to_string(@)|length(@)",
        "[?starts_with(name,'job')]|[?ends_with(name,'9')]|length(@)",
        "merge([0],[1],{all:[*].name})|keys(@)",
    ],
)
def test_what_people_write_is_allowed_on_the_largest_result(expression: str) -> None:
    rows = [{"name": f"job number {number}", "state": "good", "seconds": number} for number in range(520)]
    assert 30_000 < len(json.dumps(rows)) < 33_000
    effort = Effort(STEPS)
    assert value_of(expression, rows, effort) is not None


def test_steps_are_spent_before_something_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    original = Functions.call_function

    def call(self: Any, name: str, arguments: list[Any]) -> Any:
        made.append(name)
        return original(self, name, arguments)

    monkeypatch.setattr(Functions, "call_function", call)
    with pytest.raises(ExpressionError):
        value_of("reverse(@)", TEXT, Effort(len(TEXT) // 32))
    assert made == []
    value_of("length(reverse(@))", TEXT, Effort(len(TEXT) // 32 + 10))
    assert made == ["reverse", "length"]


def test_costs_and_expressions_share_one_effort() -> None:
    assert expression_costs.Effort is Effort

"""The picture of the state machine in docs/architecture.md is the machine."""

from __future__ import annotations

import re
from pathlib import Path

from infra.states import definition

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
END = "[*]"


def test_the_picture_shows_the_states_and_their_order() -> None:
    picture = re.search(r"stateDiagram-v2\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert picture
    names = {short: name for name, short in re.findall(r'state "([^"]+)" as (\w+)', picture[1])}
    drawn = re.findall(r"^\s+(\S+) --> ([^\s:]+)", picture[1], re.MULTILINE)

    assert {(names.get(one, one), names.get(other, other)) for one, other in drawn} == set(_edges())


def _edges() -> list[tuple[str, str]]:
    machine = definition(partition="aws", function_arn="steps")
    edges = [(END, machine["StartAt"])]
    for name, state in machine["States"].items():
        following = [state.get("Next"), state.get("Default")]
        following += [rule["Next"] for rule in (*state.get("Catch", ()), *state.get("Choices", ()))]
        edges += [(name, each) for each in following if each]
        if state.get("End") or state["Type"] == "Succeed":
            edges.append((name, END))
    return edges

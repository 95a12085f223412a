"""CI's share of the stories of graphs, and what they and their model are made of."""

from __future__ import annotations

import pytest

from functions.domain.condition import holds
from tests.simulation.graph import tell
from tests.simulation.graph_plan import CONDITIONS, Edge, Node, graph
from tests.simulation.graph_rules import End, foretold
from tests.simulation.shrink import shrunk

PARTS, STORIES = 4, 75


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_story_of_a_graph_breaks_a_promise(part: int) -> None:
    for seed in range(part * STORIES, (part + 1) * STORIES):
        told = tell(seed)
        if told.violation is not None:
            pytest.fail(shrunk(told, tell, "--graphs", seconds=20))


@pytest.mark.slow
def test_the_stories_of_graphs_are_eventful() -> None:
    told = [tell(seed, traced=True) for seed in range(120)]
    happened = "\n".join(line for one in told for line in one.trace)
    for event in (
        "UPSTREAM_FAILED",
        "UPSTREAM_SUCCEEDED",
        "UPSTREAM_CANCELLED",
        "UPSTREAM_SKIPPED",
        "UPSTREAM_TIMEOUT",
        "CONDITION_FALSE",
        "REJECTED",
        "APPROVAL_TIMEOUT",
        ": UNBLOCKED",
        ": SETTLED",
        ": TOLD",
        ": BLOCKED",
        "would wait for each other",
        "dies after dependents.add",
        "dies after history.record_end",
        "stalls at jobs.get_rows",
        "stalls at dependents.of",
        "0000000000 0 #1 is lost",
        "0000000000 0 #1 comes twice",
    ):
        assert event in happened, f"no {event}"
    plans = [graph(seed) for seed in range(400)]
    assert max(len(plan.nodes) for plan in plans) == 60
    assert 0.4 < sum(plan.exact for plan in plans) / len(plans) < 0.7


@pytest.mark.slow
def test_a_story_of_a_graph_is_the_same_each_time() -> None:
    first, second = tell(2, traced=True), tell(2, traced=True)
    assert first.trace == second.trace
    assert len(first.trace) > 100


def test_conditions_mean_what_the_model_says() -> None:
    for expression, meant in CONDITIONS.items():
        for n in (None, 0, 1, 2, 3):
            assert holds(expression, None if n is None else f'{{"n":{n}}}') == meant(n), (expression, n)


def test_the_model_by_hand() -> None:
    nodes = [
        Node(0, fate="refused"),
        Node(1, result=2),
        Node(2, kind="never"),
        Node(3, (Edge(0), Edge(1))),
        Node(4, (Edge(0), Edge(1)), join="any"),
        Node(5, (Edge(0, "failure"), Edge(1, when="n > `1`"))),
        Node(6, (Edge(3, "completion"),), policy="fail"),
        Node(7, (Edge(6, "failure"),)),
        Node(8, (Edge(1), Edge(2)), policy="run", fate="exhausted"),
        Node(9, (Edge(2), Edge(1)), join="any", gate="reject"),
    ]
    assert foretold(nodes) == [
        End("PERMANENTLY_FAILED"),
        End("COMPLETED", n=2),
        None,
        End("SKIPPED", "UPSTREAM_FAILED"),
        End("COMPLETED"),
        End("COMPLETED"),
        End("PERMANENTLY_FAILED", "UPSTREAM_SKIPPED"),
        End("COMPLETED"),
        End("PERMANENTLY_FAILED"),
        End("CANCELLED", "REJECTED"),
    ]

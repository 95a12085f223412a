"""What the benchmark makes of measurements: medians, ratios, verdicts, packages, the page."""

from __future__ import annotations

import pytest

from bench.aws_calls import Counted
from bench.call_log import Call
from bench.cold_start import ColdStart, floor_module
from bench.import_times import STANDARD, ImportTime, by_package
from bench.measuring import Spread, cpu_seconds, interleaved, ratios
from bench.page import BEGIN, END, markdown, rewritten
from bench.tables import Table, call_table, cold_start_table, slowest, verdict


def test_rounds_begin_with_another_measure_each_time() -> None:
    order: list[str] = []

    def measure(name: str) -> float:
        order.append(name)
        return float(len(order))

    values = interleaved({"a": lambda: measure("a"), "b": lambda: measure("b")}, rounds=3)

    assert order == ["a", "b", "b", "a", "a", "b"]
    assert values == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_work_is_done_as_often_as_it_is_counted() -> None:
    done: list[int] = []

    assert cpu_seconds(lambda: done.append(1), times=7) >= 0
    assert len(done) == 7


def test_ratios_are_taken_round_by_round() -> None:
    """A round in which the machine was slow for both says the same as the others."""
    assert ratios([2, 20, 2], [1, 10, 1]) == Spread(2, 2, 2)


def test_a_budget_is_kept_up_to_its_limit() -> None:
    assert [verdict(value, 1.3) for value in (1.29, 1.3, 1.31)] == ["kept", "kept", "OVER"]


def test_calls_over_their_budget_show() -> None:
    calls = [Call("dynamodb", "PutItem", "jobs", write_units=3), Call("sqs", "SendMessage", "run-normal")]
    table = call_table([Counted(what="POST", calls=calls, budget=1), Counted(what="run", calls=calls)])

    assert table.rows == [("POST", "2", "≤ 1", "OVER", "0", "3"), ("run", "2", "", "", "0", "3")]
    assert table.details[0] == "POST: PutItem jobs (3 WU), SendMessage run-normal"


def test_a_handler_without_third_parties_has_no_floor() -> None:
    one = ColdStart(handler="jobs", ours=Spread(20, 19, 21), floor=None, ratio=None, modules=0, clients=())

    assert cold_start_table([one]).rows[0][:6] == ("jobs", "20", "none", "", "≤ 1.25", "nothing but Python")


def test_import_times_count_from_the_handler_on_each_module_for_its_package() -> None:
    report = [
        "import time:      9000 |       9000 | pydantic.before",
        "--- begin ---",
        "import time:       500 |       1500 |   boto3.session",
        "import time:      1000 |       1000 | boto3",
        "import time:       250 |        250 |     functions.domain.job",
        "import time:       100 |        100 |   asyncio.tasks",
        "something else",
    ]

    assert by_package(report) == {"boto3": 1.5, "functions": 0.25, STANDARD: 0.1}


def test_only_the_slowest_packages_are_shown() -> None:
    packages = {f"p{number}": 20.0 - number for number in range(12)} | {"looked-for": 0.1}
    one = ImportTime(handler="api", packages=packages, standard=1, ours=1)

    assert [name for name, _ in slowest(one)] == [f"p{number}" for number in range(10)]
    assert one.third_party == pytest.approx(sum(packages.values()))


def test_the_floor_of_a_cold_start_makes_the_same_clients() -> None:
    made: list[tuple[str, object]] = []
    source = floor_module(["json"], [("sqs", {"read_timeout": 5})]).replace("import boto3", "")

    class Recorder:
        @staticmethod
        def client(service: str, config: object) -> None:
            made.append((service, config.read_timeout))  # type: ignore[attr-defined]  # botocore makes it at run time

    exec(source, {"boto3": Recorder})  # the floor is source text; this is how it is run

    assert made == [("sqs", 5)]


def test_the_page_keeps_what_is_written_by_hand() -> None:
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nby hand\n"
    results = markdown("A machine.", [Table("1. Times", ("what", "ours"), [("x", "1")], ["x: y"])])

    assert rewritten(page, results) == (
        f"# Title\n\n{BEGIN}\n\nA machine.\n\n### 1. Times\n\n| what | ours |\n| --- | --- |\n| x | 1 |\n\n- x: y\n\n"
        f"{END}\n\nby hand\n"
    )
    with pytest.raises(ValueError, match="the page has no"):
        rewritten("# Title\n", results)

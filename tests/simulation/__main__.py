"""`python -m tests.simulation --seeds 500`; `--seed N` replays one story, `--only a,b` leaves out all else.

Each seed is a story of jobs, one of workers and one of a graph; `--workers` and `--graphs` play or replay the second or
the third alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from tests.simulation import graph, work
from tests.simulation.life import Violation
from tests.simulation.shrink import Play, shrunk
from tests.simulation.story import Told, tell

PATIENCE = 20


def one(seed: int) -> Told:
    return tell(seed)


def of_graph(seed: int) -> Told:
    return graph.tell(seed)


def of_workers(seed: int) -> tuple[int, Violation | None]:
    return seed, work.tell(seed)[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay this one and print what happens")
    parser.add_argument("--workers", action="store_true", help="stories of workers alone")
    parser.add_argument("--graphs", action="store_true", help="stories of graphs alone")
    parser.add_argument("--only", help="what of the story takes place, separated by commas: all else is left out")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None and chosen.workers:
        return replay_of_workers(chosen.seed)
    if chosen.seed is not None:
        only = None if chosen.only is None else frozenset(filter(None, chosen.only.split(",")))
        return replay(chosen.seed, only, graph.tell if chosen.graphs else tell)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    if chosen.workers:
        return _many_of_workers(seeds, chosen.processes)
    return _many_of_graphs(seeds, chosen.processes) if chosen.graphs else many(seeds, chosen.processes)


def replay(seed: int, only: frozenset[str] | None, play: Play) -> int:
    told = play(seed, only=only, traced=True)
    print("\n".join(told.trace))
    print(told.violation or f"seed {seed}: nothing is wrong")
    return told.violation is not None


def replay_of_workers(seed: int) -> int:
    violation, trace = work.tell(seed, traced=True)
    print("\n".join(trace))
    print(violation or f"seed {seed}: nothing is wrong")
    return violation is not None


def many(seeds: range, processes: int) -> int:
    broken = [_many_of_workers(seeds, processes), _many_of_graphs(seeds, processes), _many(seeds, processes)]
    return int(any(broken))


def _many_of_workers(seeds: range, processes: int) -> int:
    began, failed = time.monotonic(), 0
    with ProcessPoolExecutor(processes) as pool:
        for seed, violation in pool.map(of_workers, seeds, chunksize=4):
            if violation is not None:
                failed += 1
                print(f"workers' seed {seed}: {violation}")
                print(f"    python -m tests.simulation --workers --seed {seed}")
    print(f"{len(seeds)} stories of workers in {time.monotonic() - began:.0f} s")
    return bool(failed)


def _many_of_graphs(seeds: range, processes: int) -> int:
    began = time.monotonic()
    _, writes, runs, failed = _played(of_graph, seeds, processes)
    print(f"{len(seeds)} stories of graphs, {runs} attempts, {writes} writes in {time.monotonic() - began:.0f} s")
    for told in failed[:1]:
        print(shrunk(told, graph.tell, "--graphs", seconds=PATIENCE))
    return bool(failed)


def _many(seeds: range, processes: int) -> int:
    began = time.monotonic()
    days, writes, runs, failed = _played(one, seeds, processes)
    seconds = time.monotonic() - began
    print(
        f"{len(seeds)} stories, {days:.0f} job-days, {runs} attempts, {writes} writes in {seconds:.0f} s: "
        f"{days / seconds * 60:.0f} job-days a minute on {processes} processes"
    )
    for told in failed[:1]:
        print(shrunk(told, tell, seconds=PATIENCE))
    return bool(failed)


def _played(play: Callable[[int], Told], seeds: range, processes: int) -> tuple[float, int, int, list[Told]]:
    """Their job-days, writes and attempts together, and the stories that broke a promise."""
    days, writes, runs, failed = 0.0, 0, 0, []
    with ProcessPoolExecutor(processes) as pool:
        for told in pool.map(play, seeds, chunksize=4):
            days, writes, runs = days + told.job_days, writes + told.writes, runs + told.runs
            if told.violation is not None:
                failed.append(told)
                print(f"seed {told.seed}: {told.violation}")
    return days, writes, runs, failed


if __name__ == "__main__":
    sys.exit(main())

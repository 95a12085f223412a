"""Row 2: import and init of each handler, beside a module that imports the same third-party modules and makes the
same clients, and does nothing else.

What the floor imports and makes is taken from the handler itself, so that it follows every change of it.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.handlers import INIT, in_a_fresh_interpreter, is_third_party, modules, start
from bench.measuring import Spread, interleaved, pinned, ratios

ROUNDS = 7

_CLIENTS = """
import json
from botocore.session import Session
made, create = [], Session.create_client
def create_client(self, service_name, *args, config=None, **kwargs):
    made.append((service_name, {{}} if config is None else config._user_provided_options))
    return create(self, service_name, *args, config=config, **kwargs)
Session.create_client = create_client
{start}
print(json.dumps(made))
"""
_TIMED = """
import time
began = time.process_time()
{start}
print(time.process_time() - began)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """Milliseconds of CPU."""

    handler: str
    ours: Spread
    floor: Spread | None
    """None where a handler needs no third party and no client: there is nothing to compare with."""
    ratio: Spread | None
    modules: int
    """Third-party modules."""
    clients: tuple[str, ...]


def measure_cold_starts(*, rounds: int = ROUNDS) -> list[ColdStart]:
    with pinned(), tempfile.TemporaryDirectory() as folder:
        return [_measured(handler, Path(folder), rounds) for handler in INIT]


def floor_module(third_party: list[str], clients: list[tuple[str, dict[str, Any]]]) -> str:
    """The source of the floor."""
    lines = [f"import {name}" for name in third_party]
    if clients:
        lines += ["import boto3", "from botocore.config import Config"]
    lines += [f"boto3.client({service!r}, config=Config(**{options!r}))" for service, options in clients]
    return "\n".join([*lines, ""])


def _measured(handler: str, folder: Path, rounds: int) -> ColdStart:
    loaded = {name: file for name, file in modules(start(handler)).items() if is_third_party(name)}
    clients = _clients(handler) if "botocore" in loaded else []
    floor = f"floor_of_{handler}"
    # A module without a file is made by another one, which is imported.
    source = floor_module([name for name, file in loaded.items() if file], clients)
    (folder / f"{floor}.py").write_text(source, encoding="utf-8")
    _must_load_the_same(handler, set(loaded), set(modules(f"import {floor}", path=folder)) - {floor})

    def timed(code: str) -> float:
        return 1000 * float(in_a_fresh_interpreter(_TIMED.format(start=code), path=folder).stdout)

    measures = {"ours": lambda: timed(start(handler)), "floor": lambda: timed(f"import {floor}")}
    values = interleaved(measures, rounds=rounds)
    return ColdStart(
        handler=handler,
        ours=Spread.of(values["ours"]),
        floor=Spread.of(values["floor"]) if loaded else None,
        ratio=ratios(values["ours"], values["floor"]) if loaded else None,
        modules=len(loaded),
        clients=tuple(service for service, _ in clients),
    )


def _clients(handler: str) -> list[tuple[str, dict[str, Any]]]:
    """The boto3 clients that a handler's init makes, with their options."""
    made: list[tuple[str, dict[str, Any]]] = json.loads(
        in_a_fresh_interpreter(_CLIENTS.format(start=start(handler))).stdout
    )
    return made


def _must_load_the_same(handler: str, ours: set[str], floor: set[str]) -> None:
    different = ours ^ {name for name in floor if is_third_party(name)}
    if different:
        raise AssertionError(f"{handler}: its floor loads other modules: {', '.join(sorted(different))}")

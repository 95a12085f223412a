"""Types of jobs, circuits and previews as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gnomon.moments import away, distance, moment, parse
from gnomon.safe_text import json_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gnomon.shapes import Circuit, Preview, TypeConfig, WebhookKey

_WIDE = 140


def retry_configs_table(configs: Iterable[TypeConfig], now: datetime, *, width: int = _WIDE) -> Table:
    """A row for each type; what is configured is cut where the row would not fit."""
    table = Table("TYPE", "CONFIGURED", "CHANGED", "BY", box=None, pad_edge=False)
    when = moment if width >= _WIDE else away
    for column in table.columns:
        column.no_wrap = True
        column.overflow = "ellipsis"
    table.columns[1].ratio = 1
    for config in configs:
        words = ", ".join(f"{name} {_word(value)}" for name, value in _configured(config))
        changed = when(config.get("updatedAt"), now)
        by = printable(config.get("updatedBy", ""))
        table.add_row(Text(printable(config["jobType"])), Text(words), changed, Text(by))
    return table


def fields_table(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """A field a line: its name, and what it says."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in rows:
        table.add_row(Text(printable(name), style="bold"), value if isinstance(value, Text) else Text(value))
    return table


def retry_config_details(config: TypeConfig, now: datetime) -> Table:
    """What is configured for a type, a field a line."""
    return fields_table(
        [
            ("type", printable(config["jobType"])),
            *((name, _word(value)) for name, value in _configured(config)),
            ("changed", moment(config.get("updatedAt"), now)),
            ("by", printable(config.get("updatedBy", ""))),
        ]
    )


def circuits_table(circuits: Iterable[Circuit], now: datetime, *, width: int = _WIDE) -> Table:
    """A row for each circuit. Keys are never cut: they are what `reset` takes."""
    heads = ["CIRCUIT", "STATE", "FAILURES", "SINCE", "OPEN UNTIL"]
    table = Table(*heads, *(["PROBE"] if width >= _WIDE else []), box=None, pad_edge=False)
    when = moment if width >= _WIDE else away
    table.columns[0].overflow = "fold"
    table.columns[2].justify = "right"
    for column in table.columns[1:]:
        column.no_wrap = True
    for circuit in circuits:
        probe = [printable(circuit.get("probe") or "")] if width >= _WIDE else []
        table.add_row(
            Text(printable(circuit["key"])),
            printable(circuit["state"]),
            str(circuit["failures"]),
            when(circuit.get("since"), now),
            when(circuit.get("openUntil"), now),
            *probe,
        )
    return table


def webhook_key_details(key: WebhookKey, now: datetime) -> Table:
    """A key that was rotated, a field a line."""
    return fields_table(
        [
            ("owner", printable(key["owner"])),
            ("secret", printable(key["secret"])),
            ("signs every call from", moment(key["signsFrom"], now)),
            *(("the key before until", moment(one["validUntil"], now)) for one in key["previous"]),
        ]
    )


def preview_table(preview: Preview, now: datetime) -> Table:
    table = Table("LOCAL TO THE ZONE", "UTC", "FROM NOW", box=None, pad_edge=False)
    for slot, local in zip(preview["slots"], preview["local"], strict=True):
        at = parse(slot)
        table.add_row(printable(local), printable(slot), "" if at is None else distance(at - now))
    return table


def _configured(config: TypeConfig) -> list[tuple[str, object]]:
    return [(name, value) for name, value in config.items() if name not in ("jobType", "updatedAt", "updatedBy")]


def _word(value: object) -> str:
    return printable(value if isinstance(value, str) else json_text(value))

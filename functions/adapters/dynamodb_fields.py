"""How fields of the domain stand in DynamoDB's typed values, both ways. What equals its default is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from functions.adapters.dynamodb_keys import Item, number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LARGEST_NUMBER = 10**11
"""Largest number of a row, as an instant in the year 5138: two of them still make a date."""

REQUIRED = object()


class Kind(NamedTuple):
    """How one kind of value is written, and read; `read` raises KeyError, TypeError or ValueError for what is none."""

    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], Any]


class Field(NamedTuple):
    """A field of the domain (`name`) and the attribute that has it; one that equals `default` is absent."""

    name: str
    attribute: str
    kind: Kind
    default: Any = None


def _in_range(value: float) -> Any:
    """Instants and counters: what is beyond could be read, and would then break every answer that shows it."""
    if not 0 <= value <= LARGEST_NUMBER:
        raise ValueError(f"{value} is not between 0 and {LARGEST_NUMBER}")
    return value


TEXT = Kind(text, lambda value: str(value["S"]))
INT = Kind(number, lambda value: _in_range(int(value["N"])))
FLOAT = Kind(number, lambda value: _in_range(float(value["N"])))
TEXTS = Kind(lambda value: text("\n".join(value)), lambda value: tuple(str(value["S"]).split("\n")))
INTS = Kind(
    lambda value: text(",".join(map(str, value))),
    lambda value: tuple(_in_range(int(one)) for one in str(value["S"]).split(",")),
)
FLAG = Kind(lambda value: {"BOOL": value}, lambda value: bool(value["BOOL"]))


def enumerated(kind: Callable[[str], Any]) -> Kind:
    return Kind(lambda value: text(value.value), lambda value: kind(value["S"]))


def mapped(kind: Callable[..., Any], fields: Sequence[Field]) -> Kind:
    return Kind(lambda value: {"M": write_fields(value, fields)}, lambda value: kind(**read_fields(value["M"], fields)))


def write_fields(value: Any, fields: Sequence[Field]) -> dict[str, Any]:
    item = {}
    for field in fields:
        part = getattr(value, field.name)
        if part != field.default:
            item[field.attribute] = field.kind.write(part)
    return item


def read_fields(item: Item, fields: Sequence[Field]) -> dict[str, Any]:
    """Values by field; raises KeyError for a required one that is absent, and what the kinds raise."""
    values = {}
    for field in fields:
        if field.attribute in item:
            values[field.name] = field.kind.read(item[field.attribute])
        elif field.default is REQUIRED:
            raise KeyError(field.attribute)
        else:
            values[field.name] = field.default
    return values

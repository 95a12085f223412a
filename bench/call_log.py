"""Every call that boto3 clients make, with the units DynamoDB would count for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.capacity import Item, index_write_units, query_units, read_units, write_units

_WRITES = ("PutItem", "UpdateItem", "DeleteItem")
_SEEN = "bench.call_log"


@dataclass(frozen=True, slots=True)
class Call:
    service: str
    operation: str
    place: str
    """Table, table and index, queue or group of schedules."""
    read_units: float = 0
    write_units: int = 0
    """Of the table and its indexes."""
    scanned: int = 0
    """Entries that a query read, whether it returned them or not."""

    def __str__(self) -> str:
        units = [f"{self.read_units:g} RU"] * bool(self.read_units) + [f"{self.write_units} WU"] * bool(
            self.write_units
        )
        return f"{self.operation} {self.place}" + (f" ({', '.join(units)})" if units else "")


class CallLog:
    """Watches clients; `calls` are what they made, in the order of their answers.

    Several threads may call at once, where no two of them write the same row.
    """

    def __init__(self, dynamodb: Any) -> None:
        """`dynamodb`: a client of its own, that nobody counts, to look at rows before and after a write."""
        self.calls: list[Call] = []
        self._look = dynamodb
        self._tables: dict[str, dict[str, Any]] = {}

    def watch(self, client: Any) -> None:
        service = client.meta.service_model.service_name
        client.meta.events.register_last(f"before-parameter-build.{service}", self._before)
        client.meta.events.register_last(f"after-call.{service}", self._after)

    def take(self) -> list[Call]:
        """What was called since the last take."""
        taken, self.calls = self.calls, []
        return taken

    def _before(self, *, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        old = [self._row(write) for write in _written(model.name, params)]
        context[_SEEN] = (dict(params), old)  # botocore's own dictionary of this one call

    def _after(self, *, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        params, old = context[_SEEN]
        service, operation = model.service_model.service_name, model.name
        if service == "dynamodb":
            self.calls.append(self._dynamodb(operation, params, parsed, old))
        else:
            place = params.get("QueueUrl") or params.get("GroupName") or params.get("FunctionName") or ""
            self.calls.append(Call(service, operation, str(place).rpartition("/")[2]))

    def _dynamodb(
        self, operation: str, params: dict[str, Any], parsed: dict[str, Any], old: Sequence[Item | None]
    ) -> Call:
        def call(place: str, read: float = 0, written: int = 0, scanned: int = 0) -> Call:
            return Call("dynamodb", operation, place, read, written, scanned)

        writes = _written(operation, params)
        if writes:
            factor = 1 if operation in _WRITES else 2
            each = zip(writes, old, strict=True)
            total = sum(self._written(write, parsed, row, factor=factor) for write, row in each)
            return call(writes[0]["TableName"], written=total)
        if operation == "GetItem":
            items = [parsed["Item"]] if "Item" in parsed else []
            return call(params["TableName"], read_units(items, consistent=params.get("ConsistentRead", False)))
        if operation == "BatchGetItem":
            [(table, request)] = params["RequestItems"].items()
            found = parsed["Responses"].get(table, [])
            return call(table, read_units(found, consistent=request.get("ConsistentRead", False)))
        if operation == "Query":
            place = ".".join([params["TableName"], *([params["IndexName"]] if "IndexName" in params else [])])
            units = query_units(parsed["Items"], consistent=params.get("ConsistentRead", False))
            return call(place, units, scanned=parsed["ScannedCount"])
        raise ValueError(f"the rule for {operation} is not written down here")

    def _written(self, params: dict[str, Any], parsed: dict[str, Any], old: Item | None, *, factor: int) -> int:
        """A transaction costs the table twice the units, and its indexes no more than else."""
        if "Error" in parsed:  # A refused condition costs as much as the row that refused it.
            return write_units(old, None) * factor
        new, keys = self._row(params), self._keys(params["TableName"])
        return write_units(old, new) * factor + sum(
            index_write_units(old, new, index_keys=names, keys=keys) for names in self._indexes(params["TableName"])
        )

    def _row(self, params: dict[str, Any]) -> Item | None:
        table = params["TableName"]
        key = params.get("Key") or {name: params["Item"][name] for name in self._keys(table)}
        row: Item | None = self._look.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        return row

    def _keys(self, table: str) -> Sequence[str]:
        return _names(self._table(table)["KeySchema"])

    def _indexes(self, table: str) -> list[Sequence[str]]:
        described = self._table(table)
        return [_names(index["KeySchema"]) for index in described.get("GlobalSecondaryIndexes", [])]

    def _table(self, name: str) -> dict[str, Any]:
        if name not in self._tables:
            self._tables[name] = self._look.describe_table(TableName=name)["Table"]
        return self._tables[name]


def _written(operation: str, params: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The writes of single rows that a call makes."""
    if operation in _WRITES:
        return [params]
    if operation == "TransactWriteItems":
        return [write for action in params["TransactItems"] for write in action.values()]
    return []


def _names(schema: list[dict[str, str]]) -> Sequence[str]:
    return [key["AttributeName"] for key in schema]

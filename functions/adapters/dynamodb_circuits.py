"""Circuits in the table Coordination: a partition for each owner, every write on condition of the one it read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.adapters.dynamodb_conditions import refusing_item
from functions.adapters.dynamodb_keys import (
    Item,
    circuit_key_of,
    circuit_row,
    circuit_start_key,
    circuits_kind,
    name_of,
    number,
    text,
)
from functions.domain.actor import Actor
from functions.domain.circuit import Circuit, Probe
from functions.domain.cursor import read_cursor, write_cursor
from functions.ports import Page

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEEP_SECONDS = 30 * 86_400
"""A circuit that nobody wrote for so long is forgotten: closed, as one that never was."""


class DynamoDbCircuits:
    """Circuits over one table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def get(self, key: str) -> Circuit:
        answer = self._client.get_item(TableName=self._table, Key=circuit_row(key), ConsistentRead=True)
        return read_circuit(key, answer.get("Item"))

    def save(self, read: Circuit, new: Circuit, *, now: float) -> Circuit:
        saved = dataclasses.replace(new, seq=read.seq + 1)
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(seq)"}
        if read.seq:
            condition = {"ConditionExpression": "seq = :read", "ExpressionAttributeValues": {":read": number(read.seq)}}
        try:
            self._client.put_item(
                TableName=self._table,
                Item=_item(saved) | {"ttl": number(int(now) + KEEP_SECONDS)},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
        except ClientError as error:
            return read_circuit(read.key, refusing_item(error))
        return saved

    def list(self, owner: str | None, *, limit: int, cursor: str | None) -> Page[Circuit]:
        kind = circuits_kind(owner)
        start: dict[str, Any] = {}
        if cursor is not None:
            start = {"ExclusiveStartKey": circuit_start_key(owner, read_cursor(cursor, scope=kind))}
        # One more than asked for tells whether there is another page; 101 small rows are far below its 1 MB.
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#kind = :kind",
            ExpressionAttributeNames={"#kind": "kind"},
            ExpressionAttributeValues={":kind": text(kind)},
            ConsistentRead=True,
            Limit=limit + 1,
            **start,
        )
        circuits = [read_circuit(circuit_key_of(item), item) for item in answer["Items"][:limit]]
        more = len(answer["Items"]) > limit
        return Page(
            items=circuits, cursor=write_cursor(name_of(answer["Items"][limit - 1]), scope=kind) if more else None
        )


def _item(circuit: Circuit) -> dict[str, Any]:
    item = circuit_row(circuit.key) | {
        "seq": number(circuit.seq),
        "wid": text(circuit.write_id),
        "n": number(circuit.failures),
        "si": number(circuit.since),
        "ns": number(circuit.successes),
    }
    if circuit.open_until is not None:
        item["ou"] = number(circuit.open_until)
    if circuit.reset_by is not None:
        item["rb"] = text(circuit.reset_by.as_text())
    if circuit.probe is not None:
        item |= {"pe": text(circuit.probe.execution_id), "pu": number(circuit.probe.until)}
    return item


def read_circuit(key: str, item: Item | None) -> Circuit:
    """Raises KeyError or ValueError for a row that cannot be read."""
    if item is None:
        return Circuit(key=key)
    probe = None
    if "pe" in item:
        probe = Probe(execution_id=item["pe"]["S"], until=int(item["pu"]["N"]))
    return Circuit(
        key=key,
        seq=int(item["seq"]["N"]),
        write_id=item["wid"]["S"],
        failures=int(item["n"]["N"]),
        since=float(item["si"]["N"]),
        open_until=int(item["ou"]["N"]) if "ou" in item else None,
        successes=int(item["ns"]["N"]),
        probe=probe,
        reset_by=Actor.read(item["rb"]["S"]) if "rb" in item else None,
    )

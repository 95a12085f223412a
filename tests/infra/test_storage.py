from typing import Any

import pytest

from tests.infra.synthesized import Template

TABLES = ("Jobs", "Executions", "Idempotency", "Coordination")
KEYS = {
    "Jobs": [("jobId", "HASH"), ("S", "RANGE")],
    "Executions": [("jobId", "HASH"), ("sk", "RANGE")],
    "Idempotency": [("pk", "HASH")],
    "Coordination": [("kind", "HASH"), ("name", "RANGE")],
}
INDEXES = {
    "Jobs": {
        "attention": [("as", "HASH"), ("at", "RANGE")],
        "owner": [("ow", "HASH"), ("oc", "RANGE")],
        "waiting": [("wp", "HASH"), ("ws", "RANGE")],
    },
    "Executions": {"dead": [("dl", "HASH"), ("ca", "RANGE")]},
    "Idempotency": {},
    "Coordination": {},
}
NUMBERS = {"at", "ca"}
STREAMS = {
    "Jobs": "NEW_AND_OLD_IMAGES",
    "Executions": "NEW_IMAGE",
    "Idempotency": None,
    "Coordination": "NEW_AND_OLD_IMAGES",
}


def _keys(schema: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(key["AttributeName"], key["KeyType"]) for key in schema]


@pytest.mark.parametrize("name", TABLES)
def test_keys_indexes_and_streams(template: Template, name: str) -> None:
    table = template.properties(f"Storage/{name}")

    indexes: list[dict[str, Any]] = table.get("GlobalSecondaryIndexes", [])
    assert _keys(table["KeySchema"]) == KEYS[name]
    assert {index["IndexName"]: _keys(index["KeySchema"]) for index in indexes} == INDEXES[name]
    assert all(index["Projection"] == {"ProjectionType": "KEYS_ONLY"} for index in indexes)
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    assert types == {attribute: "N" if attribute in NUMBERS else "S" for attribute in types}
    assert table.get("StreamSpecification", {}).get("StreamViewType") == STREAMS[name]


def test_there_are_no_other_tables(template: Template) -> None:
    assert set(template.of_type("AWS::DynamoDB::Table")) == {f"Storage/{name}" for name in TABLES}


@pytest.mark.parametrize("name", TABLES)
def test_rows_expire_are_encrypted_and_can_be_restored(template: Template, name: str) -> None:
    table = template.properties(f"Storage/{name}")

    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["SSESpecification"] == {
        "KMSMasterKeyId": "Storage/Key.Arn",
        "SSEEnabled": True,
        "SSEType": "KMS",
    }
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_the_key_rotates(template: Template) -> None:
    assert template.properties("Storage/Key")["EnableKeyRotation"] is True


@pytest.mark.parametrize("path", [*(f"Storage/{name}" for name in TABLES), "Identity/Pool", "Storage/Key"])
def test_production_outlives_its_stack(prod: Template, local: Template, path: str) -> None:
    assert prod.resource(path)["DeletionPolicy"] == "Retain"
    assert local.resource(path)["DeletionPolicy"] == "Delete"


@pytest.mark.parametrize("name", TABLES)
def test_production_tables_are_protected_from_deletion(prod: Template, local: Template, name: str) -> None:
    assert prod.properties(f"Storage/{name}")["DeletionProtectionEnabled"] is True
    assert local.properties(f"Storage/{name}").get("DeletionProtectionEnabled", False) is False

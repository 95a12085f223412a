"""JSON Schema of every event, a file a type: `python -m functions.events.schemas docs/events` writes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from functions.events.models import MODELS


def schema_files() -> dict[str, str]:
    """File name to its content."""
    files = {}
    for model in MODELS:
        schema = model.model_json_schema(by_alias=True, mode="serialization")
        definitions = schema.get("$defs", {})
        fields = {name: _plain(field, definitions) for name, field in schema["properties"].items()}
        # Open to more: a subscriber that checks events must not refuse a field that was added.
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": schema["title"],
            "description": schema["description"],
            "type": "object",
            "required": ["version", *schema["required"]],
            "properties": fields,
        }
        files[f"{model.type.value}.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return files


def _plain(field: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Without what pydantic adds: a field that is not known is left out of an event, never null."""
    if "anyOf" in field:
        described = {"description": field["description"]} if "description" in field else {}
        field = {**field["anyOf"][0], **described}
    if "$ref" in field:
        found = definitions[field.pop("$ref").rpartition("/")[2]]
        inner = {name: _plain(one, definitions) for name, one in found["properties"].items()}
        field = {"type": "object", "required": found["required"], "properties": inner, **field}
    return {name: value for name, value in field.items() if name not in ("title", "default")}


def main(folder: Path) -> None:
    """Write the files, and remove those of no event."""
    files = schema_files()
    for old in folder.glob("*.json"):
        if old.name not in files:
            old.unlink()
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

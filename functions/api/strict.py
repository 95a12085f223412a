"""What the models of all bodies have in common: how strict they are, and how a field is that may be left out."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


def _without_default(schema: dict[str, Any]) -> None:
    """For a field that is simply absent when it is left out: there is no value that says the same."""
    schema.pop("default", None)


def absent(**limits: Any) -> Any:
    """A field that is left out or has a value: `null` is none."""
    return Field(default=None, json_schema_extra=_without_default, **limits)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True)

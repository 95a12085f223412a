"""What the models of all bodies have in common: how strict they are, and how a field is that may be left out."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

MAX_PROBLEMS = 20
"""Details of an answer. Validation stops soon after so many: to describe a problem takes far longer than to find it."""


def _without_default(schema: dict[str, Any]) -> None:
    """For a field that is simply absent when it is left out: there is no value that says the same."""
    schema.pop("default", None)


def absent(**limits: Any) -> Any:
    """A field that is left out or has a value: `null` is none."""
    return Field(default=None, json_schema_extra=_without_default, **limits)


def at_most(entries: int) -> BeforeValidator:
    """Refuse an object with more entries before any of them is validated (`max_length` counts the valid ones)."""

    def check(value: Any) -> Any:
        if isinstance(value, dict) and len(value) > entries:
            context = {"actual_length": len(value), "max_length": entries}
            raise PydanticCustomError("too_long", "has too many entries", context)
        return value

    return BeforeValidator(check)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown_fields(cls, value: Any) -> Any:
        """Refuse an object of many unknown fields at once, whatever else is wrong in it."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + MAX_PROBLEMS:
            known = {field.alias or name for name, field in cls.model_fields.items()}
            unknown = [name for name in value if name not in known]
            raise PydanticCustomError("too_many_unknown", "unknown fields", {"unknown": unknown[:MAX_PROBLEMS]})
        return value

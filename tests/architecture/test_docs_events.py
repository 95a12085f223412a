"""docs/events.md and the schemas beside it equal the models."""

from __future__ import annotations

import json
import re

from functions.events.models import MODELS, Event, JobEvent, JobRetryScheduled, JobStarted
from functions.events.schemas import schema_files
from tests.support.pages import CODE, ROOT, codes, rows, section, text

PAGE = "docs/events.md"
ATTEMPT = {field.alias for name, field in JobStarted.model_fields.items() if name not in JobEvent.model_fields}


def test_the_schemas_are_those_of_the_models() -> None:
    stored = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "docs/events").iterdir()}
    assert stored == schema_files(), "run: python -m functions.events.schemas docs/events"


def test_the_page_names_each_event() -> None:
    assert codes(section(PAGE, "The events")) == [model.type.value for model in MODELS]


def test_the_page_names_what_each_event_says() -> None:
    models = {model.type.value: model for model in MODELS}
    written: dict[str, set[str]] = {}
    for event, _, besides in rows(section(PAGE, "The events")):
        fields = set(CODE.findall(besides)) - models.keys()
        if "attempt" in besides:
            fields |= ATTEMPT
        for other in CODE.findall(besides):
            fields |= written.get(other, set())
        written[event.strip("`")] = fields
    own = {
        name: {field.alias for key, field in model.model_fields.items() if key not in _common(model)} - {None}
        for name, model in models.items()
    }
    assert written == own
    assert issubclass(JobRetryScheduled, Event)


def _common(model: type[Event]) -> set[str]:
    return set(JobEvent.model_fields if issubclass(model, JobEvent) else Event.model_fields)


def test_the_example_is_an_event() -> None:
    example = re.search(r'"detail": (\{.*?\n  \})', text(PAGE), re.DOTALL)
    assert example
    content = json.loads(example[1])
    models = {model.type.value: model for model in MODELS}
    assert models[content["eventType"]].model_validate(content).model_dump(exclude_none=True) == content

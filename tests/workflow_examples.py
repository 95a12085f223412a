"""The examples of docs/workflows.md, as they are written there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[1] / "docs" / "workflows.md").read_text(encoding="utf-8")


def examples() -> dict[str, dict[str, Any]]:
    """By their names, in the order of the page."""
    bodies = [json.loads(body) for body in re.findall(r"^```json\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)]
    return {body["name"]: body for body in bodies}

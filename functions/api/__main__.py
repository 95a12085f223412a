"""Writes the OpenAPI document to standard output: `python -m functions.api > docs/openapi.json`."""

import json
import sys

from functions.api.app import routes_without_services
from functions.api.openapi import document

SERVER = {
    "url": "{apiUrl}",
    "variables": {
        "apiUrl": {
            "default": "https://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
            "description": "Your stack's output ApiUrl, or apiUrl of its stack file. A running stack names its own.",
        }
    },
}


def stored_document() -> dict[str, object]:
    """The document as docs/ has it, for any stack."""
    return document(routes_without_services()) | {"servers": [SERVER]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(stored_document(), indent=1) + "\n")

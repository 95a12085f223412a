"""Writes the OpenAPI document to standard output: `python -m functions.api > docs/openapi.json`."""

import json
import sys

from functions.api.app import routes_without_services
from functions.api.openapi import document

sys.stdout.write(json.dumps(document(routes_without_services()), indent=1) + "\n")

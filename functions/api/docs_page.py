"""The OpenAPI document as one page that needs nothing else: no script, nothing from another host."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font:14px/1.45 ui-monospace,monospace}
pre{background:var(--soft);padding:.75rem;overflow-x:auto;border-radius:.4rem}
details{border:1px solid var(--line);border-radius:.4rem;margin:.5rem 0;padding:.5rem .75rem}
summary{cursor:pointer}
summary b{display:inline-block;min-width:4.5rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{border-bottom:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}
"""


def page(document: dict[str, Any]) -> str:
    """HTML of the document."""
    info = document["info"]
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    parts = [f"<h2>{escape(tag.capitalize())}</h2>{''.join(shown)}" for tag, shown in by_tag.items()]
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
        "<p>Send <code>Authorization: Bearer &lt;access token&gt;</code>. "
        '<a href="openapi.json">openapi.json</a> has all of this for tools.</p>'
        f"{''.join(parts)}<h2>Schemas</h2>{schemas}</body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<details id={escape(operation['operationId'], quote=True)!r}><summary><b>{escape(method.upper())}</b> "
        f"<code>{escape(path)}</code> {escape(operation['summary'])}</summary>"
    ]
    if operation["parameters"]:
        rows = "".join(
            f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
            f"<td>{escape(each.get('description', ''))}</td></tr>"
            for each in operation["parameters"]
        )
        parts.append(f"<table><tr><th>Parameter</th><th>In</th><th></th></tr>{rows}</table>")
    if "requestBody" in operation:
        for media, content in operation["requestBody"]["content"].items():
            parts.append(f"<p>Body: <code>{escape(media)}</code> {_type(content['schema'])}</p>")
        for example in content.get("examples", {}).values():
            parts.append(f"<pre>{escape(json.dumps(example['value'], indent=2, ensure_ascii=False))}</pre>")
    rows = "".join(
        f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])}</td><td>{_answer_type(answer)}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    parts.append(f"<table><tr><th>Status</th><th></th><th>Body</th></tr>{rows}</table></details>")
    return "".join(parts)


def _schema(name: str, schema: dict[str, Any]) -> str:
    text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    return (
        f"<details id='schema-{escape(name)}'><summary><code>{escape(name)}</code></summary><pre>{text}</pre></details>"
    )


def _answer_type(answer: dict[str, Any]) -> str:
    return ", ".join(_type(content["schema"]) for content in answer.get("content", {}).values())


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[1])
        return f"<a href='#schema-{name}'>{name}</a>"
    return " or ".join(_type(each) for each in schema.get("anyOf", ()))

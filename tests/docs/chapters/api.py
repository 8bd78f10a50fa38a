"""The operator API reference, from docs/openapi.json."""

import json
from collections.abc import Iterator
from typing import Any

from tests.docs.chapters.page import code, page, table
from tests.docs.pages import DOCS
from tests.release.promises.program_surfaces import error_codes

Shape = dict[str, Any]

SOURCE = DOCS / "openapi.json"
_SHAPES = "#/components/schemas/"


def document() -> Shape:
    """Return the OpenAPI document."""
    openapi: Shape = json.loads(SOURCE.read_text("utf-8"))
    return openapi


def write() -> str:
    """Return the page."""
    whole = document()
    return page(
        "Operator API",
        "The operator API is JSON over HTTP on the console's address (`--console`, "
        "127.0.0.1:8170). The command line and the web console use it too. A running service "
        "serves its OpenAPI document at `GET /api/openapi.json`; this is "
        "[a copy](../openapi.json).",
        "Every request needs the header `Authorization: Bearer TOKEN`. `fairwarning token create "
        "NAME --role operator` creates a token with full access, `--role reader` one for GET "
        "requests only. A POST may have an `Idempotency-Key`: a repeated request with the same key "
        "has no further effect and gets the same response, until the operation's "
        "[retention](../upgrade-and-backup.md#retention) is over; the key of another request is "
        "refused (409). Lists take `limit` (1 to 1000) and `after`; pass the response's `next` as "
        "`after` to get the next page. `next` is null on the last page. Times are ISO 8601 in UTC.",
        "An error has a status of 400 or above and an [ErrorResponse](#errorresponse) body that "
        "says what is allowed. Its `code` is one of the [error codes](#error-codes).",
        "## Requests",
        *(part for path, methods in whole["paths"].items() for part in _path(path, methods)),
        "## Schemas",
        *(
            part
            for name, schema in whole["components"]["schemas"].items()
            for part in _shape(name, schema)
        ),
        "## Error codes",
        "Clients tell errors apart by their `code`. New codes may be added.",
        ", ".join(f"`{code}`" for code in error_codes()["operator API"]) + ".",
    )


def _path(path: str, methods: Shape) -> Iterator[str]:
    for method, operation in methods.items():
        yield f"### {method.upper()} {path}"
        yield str(operation["summary"])
        parameters = operation.get("parameters", ())
        rows = [_parameter(entry) for entry in parameters if entry["in"] != "header"]
        if rows:
            yield table(["parameter", "in", "type", ""], rows)
        if body := operation.get("requestBody"):
            optional = "" if body.get("required", False) else " (optional)"
            yield f"Body{optional}: {_content(body)}"
        for status, response in operation["responses"].items():
            if status != "default":
                body = _content(response) if response.get("content") else "no body"
                yield f"Response: {status}, {body}"


def _content(part: Shape) -> str:
    kind, media_type = next(iter(part["content"].items()))
    shape = _kind(media_type.get("schema", {}))
    return shape if kind == "application/json" else f"`{kind}`"


def _parameter(entry: Shape) -> list[str]:
    required = ", required" if entry.get("required") and entry["in"] != "path" else ""
    name = f"`{entry['name']}`{required}"
    return [name, entry["in"], _kind(entry["schema"]), entry.get("description", "")]


def _shape(name: str, schema: Shape) -> Iterator[str]:
    yield f"### {name}"
    if schema.get("description"):
        yield str(schema["description"])
    required = schema.get("required", ())
    rows = [
        [
            f"`{key}`" + ("" if key in required else ", optional"),
            _kind(member),
            member.get("description", ""),
        ]
        for key, member in schema.get("properties", {}).items()
    ]
    if rows:
        yield table(["member", "type", ""], rows)


def _kind(schema: Shape) -> str:
    """Return the type of a value, in words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SHAPES)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return "one of " + code(*schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object with values of type {_kind(schema['additionalProperties'])}"
    return {"null": "null", "object": "object"}.get(kind, f"{kind}{_bounds(schema)}")


def _bounds(schema: Shape) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    if least is not None:
        return f", {least} or more"
    return f", at most {most}" if most is not None else ""

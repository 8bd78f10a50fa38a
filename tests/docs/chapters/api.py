"""The operator API, from docs/openapi.json."""

import json
from collections.abc import Iterator
from typing import Any

from tests.docs.chapters.page import code, page, table
from tests.docs.pages import DOCS

Shape = dict[str, Any]

SOURCE = DOCS / "openapi.json"
_SHAPES = "#/components/schemas/"


def document() -> Shape:
    """All of it."""
    read: Shape = json.loads(SOURCE.read_text("utf-8"))
    return read


def write() -> str:
    """The page."""
    whole = document()
    return page(
        "The operator API",
        "What Azure has no API for, and what the command line and the page are made of: JSON over "
        "HTTP on the console's address (`--console`, 127.0.0.1:8170). A running service gives out "
        "its own description at `GET /api/openapi.json`; [the same file](../openapi.json) is kept "
        "here.",
        "Every request carries `Authorization: Bearer TOKEN`. `fairwarning token NAME --role "
        "operator` makes one that may do everything, `--role reader` one that may only GET. A "
        "POST may carry an `Idempotency-Key`: the same key again has no further effect and gets "
        "the same answer. Lists take `limit` (1 to 1000) and `after`; the answer's `next` is what "
        "to give as `after`, and null at the end. Times are ISO 8601 in UTC.",
        "What is refused has a status of 400 and above and an [ErrorResponse](#errorresponse) "
        "that says what is allowed.",
        "## Requests",
        *(part for path, methods in whole["paths"].items() for part in _path(path, methods)),
        "## Shapes",
        *(
            part
            for name, one in whole["components"]["schemas"].items()
            for part in _shape(name, one)
        ),
    )


def _path(path: str, methods: Shape) -> Iterator[str]:
    for method, told in methods.items():
        yield f"### {method.upper()} {path}"
        yield str(told["summary"])
        rows = [_parameter(one) for one in told.get("parameters", ()) if one["in"] != "header"]
        if rows:
            yield table(["parameter", "in", "may be", ""], rows)
        if body := told.get("requestBody"):
            needed = "" if body.get("required", False) else ", if any"
            yield f"Body{needed}: {_content(body)}"
        for status, answer in told["responses"].items():
            if status != "default":
                yield f"Answer: {status}" + _with(answer)


def _with(answer: Shape) -> str:
    return f", {_content(answer)}" if answer.get("content") else ", nothing"


def _content(part: Shape) -> str:
    kind, told = next(iter(part["content"].items()))
    shape = _kind(told.get("schema", {}))
    return shape if kind == "application/json" else f"`{kind}`"


def _parameter(one: Shape) -> list[str]:
    name = f"`{one['name']}`" + (", needed" if one.get("required") and one["in"] != "path" else "")
    return [name, one["in"], _kind(one["schema"]), one.get("description", "")]


def _shape(name: str, one: Shape) -> Iterator[str]:
    yield f"### {name}"
    if one.get("description"):
        yield str(one["description"])
    needed = one.get("required", ())
    rows = [
        [
            f"`{key}`" + ("" if key in needed else ", if any"),
            _kind(told),
            told.get("description", ""),
        ]
        for key, told in one.get("properties", {}).items()
    ]
    if rows:
        yield table(["field", "is", ""], rows)


def _kind(schema: Shape) -> str:
    """What a value may be, in words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SHAPES)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return "one of " + code(*schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"names, each with {_kind(schema['additionalProperties'])}"
    return {"null": "null", "object": "object"}.get(kind, f"{kind}{_bounds(schema)}")


def _bounds(schema: Shape) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    if least is not None:
        return f", {least} or more"
    return f", at most {most}" if most is not None else ""

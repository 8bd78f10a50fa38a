"""The OpenAPI document, made of the table of endpoints (C4).

`python -m fairwarning.console.api.openapi` prints it, as docs/openapi.json has it.
"""

import json
import re
from typing import Any

import msgspec

from fairwarning.console.api.endpoints import ENDPOINTS, ApiEndpoint
from fairwarning.console.api.part import MOST
from fairwarning.console.api.responses import CreatedWebhook

PATH = "/api/openapi.json"
STREAM = "/api/stream"
_PART = re.compile(r"{(\w+)(?::path)?}")
_NUMBERS = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST},
    "seconds": {"type": "integer", "minimum": 1},
    "before": {"type": "integer", "minimum": 0},
}
_REF = "#/components/schemas/{name}"


class ErrorDetail(msgspec.Struct):
    """Why a request was refused, and what is allowed."""

    code: str
    message: str


class ErrorResponse(msgspec.Struct):
    """What every refused request is answered with."""

    error: ErrorDetail


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        paths.setdefault(_PART.sub(r"{\1}", one.path), {})[one.method.lower()] = _operation(one)
    paths[STREAM] = {"get": _STREAM}
    kinds = [kind for one in ENDPOINTS for kind in (one.answer, one.body) if kind]
    _, schemas = msgspec.json.schema_components(
        [*dict.fromkeys(kinds), ErrorResponse], ref_template=_REF
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairwarning, the operator's API",
            "version": "1",
            "description": "What Azure has no public interface for. Lists come in pages: give "
            "`next` as `after`. `Idempotency-Key` names what a POST creates or begins.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {"Refused": _content("It was refused.", _ref(ErrorResponse))},
        },
    }


def _operation(one: ApiEndpoint) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "summary": one.about,
        "operationId": _name(one),
        "parameters": [*_in_path(one), *_in_query(one), *_in_headers(one)],
        "responses": {
            str(one.status): _content(one.about, _ref(one.answer) if one.answer else None),
            "default": {"$ref": "#/components/responses/Refused"},
        },
    }
    if one.body:
        needed = any(field.required for field in msgspec.structs.fields(one.body))
        shown["requestBody"] = {
            "required": needed,
            "content": {"application/json": {"schema": _ref(one.body)}},
        }
    return shown


def _name(one: ApiEndpoint) -> str:
    words = re.findall(r"\w+", _PART.sub(r"by_\1", one.path.removeprefix("/api/")))
    return "_".join([one.method.lower(), *words])


def _in_path(one: ApiEndpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "enum": list(one.words[name])}
            if name in one.words
            else {"type": "string", "minLength": 1},
        }
        for name in _PART.findall(one.path)
    ]


def _in_query(one: ApiEndpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "description": about,
            "schema": _NUMBERS.get(name, {"type": "string"}),
        }
        for name, about in one.query.items()
    ]


def _in_headers(one: ApiEndpoint) -> list[dict[str, Any]]:
    if one.method != "POST" or one.status not in {201, 202} or one.answer is CreatedWebhook:
        return []
    about = "A repeat under the same key has no further effect."
    schema = {"type": "string"}
    return [{"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema}]


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _content(about: str, schema: dict[str, str] | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"description": about}
    if schema:
        shown["content"] = {"application/json": {"schema": schema}}
    return shown


_STREAM = {
    "summary": "Each new line of the journal as it comes, and moves of the clock.",
    "operationId": "get_stream",
    "description": "Server-sent events. `line`: a journal line as JSON, its number as id. "
    "`clock`: the fleet's time, when somebody moved it.",
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "description": "Begin past this line; else with what comes next.",
            "schema": {"type": "string"},
        }
    ],
    "responses": {
        "200": {
            "description": "It goes on until either side ends it.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Refused"},
    },
}


def text() -> str:
    """The document as it is checked in."""
    return json.dumps(document(), indent=1, sort_keys=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201  (that is what it is for)

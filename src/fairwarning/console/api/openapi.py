"""The OpenAPI document, generated from the endpoint table (C4).

`python -m fairwarning.console.api.openapi` prints it for docs/openapi.json.
"""

import json
import re
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec

from fairwarning.console.api import ENDPOINTS
from fairwarning.console.api.endpoints import PATH_PARAMETER, ApiEndpoint
from fairwarning.console.api.section import MAX_PAGE_SIZE

PATH = "/api/openapi.json"
STREAM = "/api/stream"
_NUMBER_SCHEMAS = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
    "seconds": {"type": "integer", "minimum": 1},
    "before": {"type": "integer", "minimum": 0},
}
_REF = "#/components/schemas/{name}"


class ErrorDetail(msgspec.Struct):
    """Why a request failed, and what is allowed."""

    code: str
    message: str


class ErrorResponse(msgspec.Struct):
    """The body of every error response."""

    error: ErrorDetail


def document() -> dict[str, Any]:
    """Build the document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in sorted(ENDPOINTS, key=lambda endpoint: endpoint.path):
        path = PATH_PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    paths[STREAM] = {"get": _STREAM}
    types = [
        type_ for endpoint in ENDPOINTS for type_ in (endpoint.response, endpoint.body) if type_
    ]
    _, schemas = msgspec.json.schema_components(
        [*dict.fromkeys(types), ErrorResponse], ref_template=_REF
    )
    for schema in schemas.values():  # before Python 3.13, docstrings are indented
        schema["description"] = cleandoc(schema["description"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairwarning operator API",
            "version": "1",
            "description": "Operations that Azure has no public API for. Lists are paged: pass "
            "`next` as `after`. `Idempotency-Key` identifies what a POST creates or starts.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {"Refused": _content("The request failed.", _ref(ErrorResponse))},
        },
    }


@cache
def rendered() -> bytes:
    """Return the document as JSON; it takes 20 ms to build."""
    return msgspec.json.encode(document())


def _operation(endpoint: ApiEndpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "parameters": [
            *_path_parameters(endpoint),
            *_query_parameters(endpoint),
            *_header_parameters(endpoint),
        ],
        "responses": {
            str(endpoint.status): _content(
                endpoint.summary, _ref(endpoint.response) if endpoint.response else None
            ),
            "default": {"$ref": "#/components/responses/Refused"},
        },
    }
    if endpoint.body:
        required = any(field.required for field in msgspec.structs.fields(endpoint.body))
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": _ref(endpoint.body)}},
        }
    return operation


def _operation_id(endpoint: ApiEndpoint) -> str:
    words = re.findall(r"\w+", PATH_PARAMETER.sub(r"by_\1", endpoint.path.removeprefix("/api/")))
    return "_".join([endpoint.method.lower(), *words])


def _path_parameters(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "enum": list(endpoint.choices[name])}
            if name in endpoint.choices
            else {"type": "string", "minLength": 1},
        }
        for name in PATH_PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "description": about,
            "schema": _NUMBER_SCHEMAS.get(name, {"type": "string"}),
        }
        for name, about in endpoint.query.items()
    ]


def _header_parameters(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    if endpoint.method != "POST" or not endpoint.has_key:
        return []
    about = "A repeat with the same key has no further effect while the operation is kept."
    schema = {"type": "string"}
    return [{"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema}]


def _ref(type_: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=type_.__name__)}


def _content(description: str, schema: dict[str, str] | None) -> dict[str, Any]:
    content: dict[str, Any] = {"description": description}
    if schema:
        content["content"] = {"application/json": {"schema": schema}}
    return content


_STREAM = {
    "summary": "Stream new journal lines and changes of the clock.",
    "operationId": "get_stream",
    "description": "Server-sent events. `line`: a journal line as JSON, its number as id. "
    "`clock`: the fleet's time, after an operator changed it. `changed`: there are new lines, in a "
    "brief stream.",
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "description": "Start after this line; by default, with the next new line.",
            "schema": {"type": "string"},
        },
        {
            "name": "brief",
            "in": "query",
            "description": "`true`: instead of lines, say at most once a second that there are new "
            "ones.",
            "schema": {"type": "string"},
        },
    ],
    "responses": {
        "200": {
            "description": "The stream stays open until either side closes it.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Refused"},
    },
}


def text() -> str:
    """Return the document as docs/openapi.json contains it."""
    return json.dumps(document(), indent=1, sort_keys=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201  (its purpose)

"""The operator API and the control plane, as outlines."""

from collections.abc import Iterator
from typing import Any

from fairwarning.arm.app import route_table
from fairwarning.arm.catalogue import api_versions
from fairwarning.arm.registry import TYPES
from fairwarning.console.api import openapi
from tests.release.promises.outline import REQUIRED, Outline, outline_of

_METHODS = ("get", "post", "put", "patch", "delete")
_REF = "#/components/schemas/"

Schema = dict[str, Any]


def operator_api() -> Outline:
    """Return each request of the operator API, and each type that it takes or returns."""
    document = openapi.document()
    schemas: dict[str, Schema] = document["components"]["schemas"]
    requests = {
        f"{method.upper()} {path}": _request(item[method])
        for path, item in sorted(document["paths"].items())
        for method in _METHODS
        if method in item
    }
    accepted = _accepted_names(document["paths"], schemas)
    types = {
        f"type {name}": _members(schema, accepted=name in accepted)
        for name, schema in sorted(schemas.items())
    }
    return requests | types


def _request(operation: Schema) -> Outline:
    outline: Outline = {}
    for parameter in sorted(operation["parameters"], key=lambda parameter: parameter["name"]):
        line = f"{parameter['in']} {parameter['name']}: {_kind(parameter['schema'])}"
        outline[line] = outline_of(_choices(parameter["schema"]))
    if body := operation.get("requestBody"):
        outline[f"body: {_content(body)}" + (f" {REQUIRED}" if body["required"] else "")] = {}
    for status, response in operation["responses"].items():
        if status != "default":
            outline[f"{status}: {_content(response)}"] = {}
    return outline


def _content(body: Schema) -> str:
    kinds = [
        _kind(content["schema"]) if "json" in kind else kind
        for kind, content in body.get("content", {}).items()
    ]
    return ", ".join(kinds) or "nothing"


def _members(schema: Schema, *, accepted: bool) -> Outline:
    """Return the members of a type; those of a type that clients send may be required of them."""
    required = schema.get("required", ())
    outline: Outline = {}
    for name, member in sorted(schema.get("properties", {}).items()):
        line = f"{name}: {_kind(member)}"
        if accepted:
            line += f" {REQUIRED}" if name in required else ""
        else:
            line += "" if name in required else ", optional"
        outline[line] = outline_of(_choices(member))
    return outline | outline_of(_choices(schema))


def _accepted_names(paths: Schema, schemas: dict[str, Schema]) -> set[str]:
    """Return the types that clients send, with the types of their members."""
    bodies = [item[m].get("requestBody") for item in paths.values() for m in _METHODS if m in item]
    waiting = [name for body in bodies if body for name in _references(body)]
    names: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _references(schemas[name])
    return names


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.removeprefix(_REF)
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _kind(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    kind: str = schema.get("type", "choice" if "enum" in schema else "anything")
    if kind == "array":
        return f"array of {_kind(schema['items'])}"
    if isinstance(values := schema.get("additionalProperties"), dict):
        return f"object of {_kind(values)}"
    return kind


def _choices(schema: Schema) -> list[str]:
    return [f"choice {value}" for value in schema.get("enum", ())]


# --- The control plane ----------------------------------------------------------------------------


def control_plane() -> Outline:
    """Return the paths of Azure Resource Manager's API that are served, and its api-versions."""
    paths: dict[str, set[str]] = {}
    for route in route_table().routes:
        paths.setdefault(route.path, set()).add(route.method)
    outline = {path: outline_of(sorted(paths[path])) for path in sorted(paths, key=str.lower)}
    for kind in TYPES:
        members = [*kind.nested, *kind.actions, *kind.views]
        outline[f"resource type {kind.name}"] = outline_of(sorted(members))
    for name in sorted({kind.name.partition("/")[0] for kind in TYPES}):
        versions = api_versions(name)
        outline[f"api-versions of {name}"] = outline_of(sorted(versions))
    return outline

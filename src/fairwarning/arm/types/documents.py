"""Resource bodies as clients write them: sanitized, merged, stored and read back."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.errors import invalid_value as invalid_value  # noqa: PLC0414  (handlers use it)
from fairwarning.arm.http.request import Body
from fairwarning.arm.turns import pause
from fairwarning.core import limits
from fairwarning.core.model import Resource

_DEPTH = 60  # levels of nesting; Azure's own documents have about twenty
_SECRETS = frozenset({
    "administratorloginpassword", "adminpassword", "customdata", "protectedsettings", "sharedkey",
    "userdata",
})  # fmt: skip
"""Members that Azure never returns, so they are never stored."""
_READ_ONLY = frozenset({"id", "name", "type", "etag", "instanceId", "resources"})
_READ_ONLY_PROPERTIES = frozenset({
    "instanceView", "latestModelApplied", "modelDefinitionApplied", "provisioningState",
    "timeCreated", "uniqueId", "vmId",
})  # fmt: skip
"""Members that clients read and send back. The service computes them, so they are not stored."""
_EMPTY_IS_ABSENT = frozenset({"evictionpolicy", "zones"})
_REPLACED = frozenset({"tags"})  # replaced, not merged: a tag that is left out is deleted

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


def etag(resource: Resource) -> str:
    """Return the ETag of a resource: its version."""
    return f'"{resource.version}"'


def state(resource: Resource) -> str:
    """Return Azure's provisioning state of a resource that describes no machine."""
    return "Deleting" if resource.removed_by else "Succeeded"


def is_secret(name: str) -> bool:
    """Return whether a member with this name is never stored."""
    return name.lower() in _SECRETS


def stored_body(resource: Resource | None) -> Body:
    """Return the body that clients wrote; an empty one for no resource."""
    return msgspec.json.decode(resource.body, type=dict[str, Any]) if resource else {}


def without_read_only(body: Body) -> Body:
    """Return the body without the members that the service computes."""
    rest = {key: part for key, part in body.items() if key not in _READ_ONLY}
    properties = typed_value(body, "properties", dict)
    if properties is not None:
        rest["properties"] = {
            key: part for key, part in properties.items() if key not in _READ_ONLY_PROPERTIES
        }
    return rest


def without(body: Body, *path: str) -> Body:
    """Return the body without the member at a path."""
    first, *rest = path
    if first not in body:
        return body
    if not rest:
        return {key: part for key, part in body.items() if key != first}
    inner = body[first]
    return {**body, first: without(inner, *rest)} if isinstance(inner, dict) else body


def encode(body: Body, times: int = 1) -> str:
    """Return the body as JSON for the store; refuse one that is too long."""
    encoded = _encode(body).decode()
    if len(encoded) > limits.RESOURCE_CHARACTERS * times:
        size, most = len(encoded), limits.RESOURCE_CHARACTERS
        raise azure_error("RequestContentTooLarge/resource", size=size, most=most)
    return encoded


def deep_copy(body: Body) -> Body:
    """Return a copy that may be changed: a body is planned again if another request comes first."""
    return msgspec.json.decode(_encode(body), type=dict[str, Any])


def fits(body: Body) -> bool:
    """Return whether the body can be stored as a part of a resource."""
    return len(_encode(body)) < limits.RESOURCE_CHARACTERS - 2048


def sanitize(value: Any, depth: int = 0, *, keep_nulls: bool = False) -> Any:  # noqa: ANN401  (any JSON)
    """Return the value without secrets and without nulls, which clients send for "not set"."""
    if depth > _DEPTH:
        raise azure_error("InvalidRequestContent/too deep", depth=_DEPTH)
    pause()
    if isinstance(value, dict):
        return {
            key: sanitize(part, depth + 1, keep_nulls=keep_nulls)
            for key, part in value.items()
            if (keep_nulls or not _is_absent(key, part)) and key.lower() not in _SECRETS
        }
    if isinstance(value, list):
        return [sanitize(part, depth + 1, keep_nulls=keep_nulls) for part in value]
    return value


def _is_absent(key: str, part: object) -> bool:
    """Whether a member counts as not sent: null, or "" where templates send that instead."""
    return part is None or (part == "" and key.lower() in _EMPTY_IS_ABSENT)


def merge(base: Body, overrides: Mapping[str, Any]) -> Body:
    """Merge two bodies; where they differ, `overrides` wins."""
    result = dict(base)
    for key, part in overrides.items():
        existing = result.get(key)
        if isinstance(existing, dict) and isinstance(part, dict) and key not in _REPLACED:
            result[key] = merge(existing, part)
        else:
            result[key] = part
    return result


def typed_value(body: Body, path: str, kind: type, default: Any = None) -> Any:  # noqa: ANN401  (JSON)
    """Return the value at a dotted path, or the default; refuse a value of another type."""
    value: Any = body
    for step in path.split("."):
        if not isinstance(value, dict):
            raise invalid_value(path, value, "inside an object")
        value = value.get(step)
        if value is None:
            return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise invalid_value(path, value, _TYPE_NAMES[kind])
    return value


_TYPE_NAMES: Mapping[type, str] = {
    bool: "true or false", int: "a whole number", str: "a string", dict: "an object", list: "a list"
}  # fmt: skip


def number(body: Body, path: str, allowed: range, default: int) -> int:
    """Return the whole number at a path, or the default; refuse one that is not allowed."""
    value: int = typed_value(body, path, int, default)
    if value not in allowed:
        text = f"a whole number from {allowed[0]} to {allowed[-1]}"
        raise invalid_value(path, value, text)
    return value


def choice(body: Body, path: str, words: Mapping[str, T], default: T) -> T:
    """Return the value of the word at a path, or the default. Words are case-insensitive."""
    value = typed_value(body, path, str)
    if value is None:
        return default
    for word, meaning in words.items():
        if value.lower() == word.lower():
            return meaning
    raise invalid_value(path, value, f"one of {', '.join(words)}")


def tags_of(body: Body) -> dict[str, str]:
    """Return the tags; refuse too many, and values that are not strings."""
    tags = typed_value(body, "tags", dict, {})
    if len(tags) > limits.TAGS:
        raise invalid_value("tags", f"{len(tags)} tags", f"at most {limits.TAGS} tags")
    for name, value in tags.items():
        if not isinstance(value, str):
            raise invalid_value(f"tags.{name}", value, "a string")
    return dict(tags)

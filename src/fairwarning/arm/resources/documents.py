"""What users write about resources: merged, rid of secrets, and given back with what we know."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.core import limits
from fairwarning.core.model import Resource

_DEPTH = 60  # of what is in what; Azure's own documents have some twenty
_SECRETS = frozenset({"adminpassword", "customdata", "userdata", "protectedsettings", "sharedkey"})
"""What Azure never gives back, so we never keep."""
_OURS = frozenset({"id", "name", "type", "etag", "instanceId", "resources"})
_OUR_PROPERTIES = frozenset({
    "instanceView", "latestModelApplied", "modelDefinitionApplied", "provisioningState",
    "timeCreated", "uniqueId", "vmId",
})  # fmt: skip
"""What clients read here and send back: it is ours to say, so it is not kept."""
_WHOLE = frozenset({"tags"})  # replaced, not merged: what is left out of it is meant to go

_NUMBER = re.compile("[0-9]{1,9}")
Words = Mapping[str, Mapping[str, Any]]
"""The words that may stand at a path, with what they mean."""

_encode = msgspec.json.Encoder().encode


def written(resource: Resource | None) -> Body:
    """What somebody wrote."""
    return msgspec.json.decode(resource.body, type=dict[str, Any]) if resource else {}


def kept(body: Body) -> Body:
    """Without what is ours to say."""
    rest = {key: part for key, part in body.items() if key not in _OURS}
    properties = strict(body, "properties", dict)
    if properties is not None:
        rest["properties"] = {k: part for k, part in properties.items() if k not in _OUR_PROPERTIES}
    return rest


def without(body: Body, *path: str) -> Body:
    """The body without what stands at a path."""
    first, *rest = path
    if first not in body:
        return body
    if not rest:
        return {key: part for key, part in body.items() if key != first}
    inner = body[first]
    return {**body, first: without(inner, *rest)} if isinstance(inner, dict) else body


def text(body: Body) -> str:
    """As it is kept."""
    encoded = _encode(body).decode()
    if len(encoded) > limits.RESOURCE_CHARACTERS:
        message = f"A resource may be described in {limits.RESOURCE_CHARACTERS} characters."
        raise ArmError("RequestContentTooLarge", message, 413)
    return encoded


def fits(body: Body) -> bool:
    """Whether so much can be kept, with something around it."""
    return len(_encode(body)) < limits.RESOURCE_CHARACTERS - 2048


def cleaned(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  (any JSON)
    """Without secrets, and without what is null: that is not said (clients send it for unset)."""
    if depth > _DEPTH:
        raise ArmError("InvalidRequestContent", f"The content is nested more than {_DEPTH} deep.")
    if isinstance(value, dict):
        return {
            key: cleaned(part, depth + 1)
            for key, part in value.items()
            if part is not None and key.lower() not in _SECRETS
        }
    if isinstance(value, list):
        return [cleaned(part, depth + 1) for part in value]
    return value


def merged(below: Body, above: Mapping[str, Any]) -> Body:
    """Both; where they differ, what is above counts."""
    both = dict(below)
    for key, part in above.items():
        standing = both.get(key)
        if isinstance(standing, dict) and isinstance(part, dict) and key not in _WHOLE:
            both[key] = merged(standing, part)
        else:
            both[key] = part
    return both


def strict(body: Body, path: str, kind: type, default: Any = None) -> Any:  # noqa: ANN401  (JSON)
    """The value at a dotted path of a body; refused if it is there and of another kind."""
    value: Any = body
    for step in path.split("."):
        if not isinstance(value, dict):
            raise wrong_value(path, value, "an object around it")
        value = value.get(step)
        if value is None:
            return default
    if kind is bool and isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"  # templates spell them so
    if kind is int and isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)  # and numbers, too
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise wrong_value(path, value, _NAMES[kind])
    return value


_NAMES: Mapping[type, str] = {
    bool: "true or false", int: "a whole number", str: "a string", dict: "an object", list: "a list"
}  # fmt: skip


def wrong_value(path: str, value: object, allowed: str) -> ArmError:
    """A value that may not stand there."""
    shown = str(value)[:60]
    message = f"The value '{shown}' of parameter '{path}' is invalid: it must be {allowed}."
    return ArmError("InvalidParameter", message)


def word(body: Body, path: str, words: Mapping[str, Any], default: Any) -> Any:  # noqa: ANN401  (meanings)
    """What one of several words at a path stands for, compared without case."""
    value = strict(body, path, str)
    if value is None:
        return default
    for one, meaning in words.items():
        if value.lower() == one.lower():
            return meaning
    raise wrong_value(path, value, f"one of {', '.join(words)}")


def spelt(body: Body, words: Words) -> Body:
    """The body with the words at some paths spelt as they are listed, whatever their case."""
    for path, known in words.items():
        value = strict(body, path, str)
        for one in known if value is not None else ():
            if one.lower() == value.lower() and one != value:
                nested: Any = one
                for step in reversed(path.split(".")):
                    nested = {step: nested}
                body = merged(body, nested)
    return body


def tags_of(body: Body) -> dict[str, str]:
    """The tags, which are strings."""
    tags = strict(body, "tags", dict, {})
    if len(tags) > limits.TAGS:
        raise wrong_value("tags", f"{len(tags)} tags", f"at most {limits.TAGS} tags")
    for name, value in tags.items():
        if not isinstance(value, str):
            raise wrong_value(f"tags.{name}", value, "a string")
    return dict(tags)

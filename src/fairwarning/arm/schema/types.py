"""The shape of each resource type, and the conversion of what clients send to it.

`shapes.json` is generated from Azure's SDK. `overlay.json` has what must be exact, and what the SDK
does not say: the models whose unknown members are refused, the enumerations whose other words are
refused, members of older api-versions, and those of every resource and of every part that can be
addressed. Names, locations and tags are strings, and nothing else.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fairwarning.arm.schema.values import (
    ANY,
    DECIMAL,
    FLAG,
    REFERENCE,
    STRING,
    TEXT,
    WHOLE,
    ClosedWords,
    ListOf,
    MapOf,
    Shape,
    ValueType,
    Words,
)
from fairwarning.service.resources import GROUP

_FOLDER = Path(__file__).parent
_SIMPLE: Mapping[str, ValueType] = {
    "any": ANY,
    "decimal": DECIMAL,
    "flag": FLAG,
    "reference": REFERENCE,
    "string": STRING,
    "text": TEXT,
    "whole": WHOLE,
}


@cache
def overlay() -> dict[str, Any]:
    """Return what has to be exact."""
    content: dict[str, Any] = json.loads((_FOLDER / "overlay.json").read_bytes())
    return content


class _Provider:
    """The models and enumerations of a resource provider, as types.

    No model contains itself: the generator writes a reference for another resource.
    """

    def __init__(
        self, models: Mapping[str, Mapping[str, str]], words: Mapping[str, list[str]]
    ) -> None:
        self._models = models
        self._types: dict[str, ValueType] = {
            **_SIMPLE,
            **{name: Words(tuple(allowed)) for name, allowed in words.items()},
            **{name: ClosedWords(tuple(allowed)) for name, allowed in overlay()["words"].items()},
        }

    def resource(self, model: str) -> Shape:
        """Return the shape of a resource, or of a part with an address of its own."""
        members = self._members(model)
        common = {**overlay()["part"], **(overlay()["resource"] if "location" in members else {})}
        return Shape({**members, **{name: self._type(text) for name, text in common.items()}})

    def _members(self, model: str) -> dict[str, ValueType]:
        members = {**self._models.get(model, {}), **overlay()["models"].get(model, {})}
        return {name: self._type(text) for name, text in members.items()}

    def _type(self, text: str) -> ValueType:
        if text not in self._types:
            self._types[text] = self._build(text)
        return self._types[text]

    def _build(self, text: str) -> ValueType:
        if text[0] == "[":
            return ListOf(self._type(text[1:-1]))
        if text[0] == "{":
            return MapOf(self._type(text[1:-1]))
        if "etag" in self._models.get(text, {}):  # as in a subnet of a network
            return self.resource(text)
        return Shape(self._members(text), text in overlay()["exact"])


@cache
def shapes() -> Mapping[str, Shape]:
    """Return the shapes by resource type in lower case; they are read and built once."""
    result = {GROUP.lower(): _Provider({}, {}).resource("ResourceGroup")}
    for namespace, content in json.loads((_FOLDER / "shapes.json").read_bytes()).items():
        provider = _Provider(content["models"], content["words"])
        for name, model in content["types"].items():
            result[f"{namespace}/{name}".lower()] = provider.resource(model)
    return result


def normalize(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with names, words and values in Azure's form (C6).

    The same body is returned for a resource type without a shape. Unknown members are kept, except
    in the parts that the service acts on.
    """
    known = shapes().get(kind.lower())
    return known.convert(body, "") if known else body

"""The shape of each resource type, and the conversion of what clients send to it."""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from fairwarning.arm.schema import overlay
from fairwarning.arm.schema.values import (
    ANY,
    DECIMAL,
    FLAG,
    REFERENCE,
    TEXT,
    WHOLE,
    ListOf,
    MapOf,
    Shape,
    ValueType,
    Words,
)

_FILE = Path(__file__).with_name("shapes.json")
_SIMPLE: Mapping[str, ValueType] = {
    "any": ANY,
    "decimal": DECIMAL,
    "flag": FLAG,
    "reference": REFERENCE,
    "text": TEXT,
    "whole": WHOLE,
}


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
            **overlay.WORDS,
        }

    def resource(self, model: str) -> Shape:
        """Return the shape of a resource, or of a part with an address of its own."""
        members = self._members(model)
        common = overlay.RESOURCE if "location" in members else overlay.PART
        return Shape({**members, **common})

    def _members(self, model: str) -> dict[str, ValueType]:
        members = {name: self._type(text) for name, text in self._models[model].items()}
        return {**members, **overlay.MEMBERS.get(model, {})}

    def _type(self, text: str) -> ValueType:
        if text not in self._types:
            self._types[text] = self._build(text)
        return self._types[text]

    def _build(self, text: str) -> ValueType:
        if text[0] == "[":
            return ListOf(self._type(text[1:-1]))
        if text[0] == "{":
            return MapOf(self._type(text[1:-1]))
        if "etag" in self._models[text]:  # as in a subnet of a network
            return self.resource(text)
        return Shape(self._members(text), text in overlay.EXACT)


class _Shapes(Mapping[str, Shape]):
    """The shapes; they are read and built at the first use."""

    def __getitem__(self, kind: str) -> Shape:
        return self._by_kind[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_kind)

    def __len__(self) -> int:
        return len(self._by_kind)

    @cached_property
    def _by_kind(self) -> Mapping[str, Shape]:
        shapes = dict(overlay.SHAPES)
        for namespace, content in json.loads(_FILE.read_bytes()).items():
            provider = _Provider(content["models"], content["words"])
            for name, model in content["types"].items():
                shapes[f"{namespace}/{name}"] = provider.resource(model)
        return shapes

    @cached_property
    def by_lower_case(self) -> Mapping[str, Shape]:
        """The shapes by resource type in lower case."""
        return {kind.lower(): shape for kind, shape in self._by_kind.items()}


SHAPES: Final = _Shapes()
"""By resource type, in Azure's case."""


def normalize(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with names, words and values in Azure's form (C6).

    The same body is returned for a resource type without a shape. Unknown members are kept, except
    in the parts that the service acts on.
    """
    known = SHAPES.by_lower_case.get(kind.lower())
    return known.convert(body, "") if known else body

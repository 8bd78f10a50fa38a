"""The shape of each resource type, and the conversion of what clients send to it.

Azure accepts more than it returns: member names and words in any case, booleans and numbers as
strings (templates send those). A type converts a value to the form that Azure returns, and refuses
what has none.

`shapes.json` is generated from Azure's SDK. `overlay.json` has what must be exact, and what the SDK
does not say: the models whose unknown members are refused, the enumerations whose other words are
refused, members of older api-versions, and those of every resource and of every part that can be
addressed. Names, locations and tags are strings, and nothing else.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

from fairwarning.arm.http.errors import ArmError, invalid_value
from fairwarning.arm.turns import pause
from fairwarning.service.resources import GROUP

_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*", re.ASCII)
_DECIMAL = re.compile(r"\s*-?[0-9]{1,18}(\.[0-9]{1,18})?\s*", re.ASCII)
_CLOSE = 0.6  # a suggestion
_CHECKED = 100  # unknown members of an object that are compared with known ones
_LONG = 100  # characters of a member's name that are compared
_SIMILAR = 0.85  # `scheduledEventProfile` is meant as `scheduledEventsProfile`


class ValueType(Protocol):
    """The type of a JSON value."""

    def convert(self, value: Any, path: str) -> Any:  # noqa: ANN401  (any JSON)
        """Return the value in Azure's form; refuse a value that has none."""


@dataclass(frozen=True)
class Scalar:
    """A single value: `read` returns it in Azure's form, or None if it has none."""

    read: Callable[[Any], Any]
    allowed: str

    def convert(self, value: Any, path: str) -> Any:  # noqa: ANN401  (any JSON)
        result = self.read(value)
        if result is None and self.allowed:
            raise invalid_value(path, value, self.allowed)
        return result


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flag(value: Any) -> bool | None:  # noqa: ANN401  (any JSON)
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _whole(value: Any) -> int | None:  # noqa: ANN401  (any JSON)
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    whole = _is_number(value) and (isinstance(value, int) or value.is_integer())
    return int(value) if whole else None


def _decimal(value: Any) -> float | None:  # noqa: ANN401  (any JSON)
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return value if _is_number(value) else None


def _text(value: Any) -> str | None:  # noqa: ANN401  (any JSON)
    if _is_number(value):
        return str(value)
    return value if isinstance(value, str) else None


ANY = Scalar(lambda value: value, "")
FLAG = Scalar(_flag, "true or false")
"""A boolean, or one of the strings `true` and `false`."""
WHOLE, DECIMAL = Scalar(_whole, "a whole number"), Scalar(_decimal, "a number")
"""A number, or a string with one."""
STRING = Scalar(lambda value: value if isinstance(value, str) else None, "a string")
"""A string, and nothing else: names, locations, tags."""
TEXT = Scalar(_text, "a string")
"""A string, or a number: ports and zones are strings, and clients send them as numbers."""


@dataclass(frozen=True)
class Words:
    """One of several words, in any case. Others are kept, unless the service acts on the words."""

    words: tuple[str, ...]
    exact: bool = False

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        text: str = TEXT.convert(value, path)
        word = next((word for word in self.words if word.lower() == text.lower()), text)
        if self.exact and word not in self.words:
            raise invalid_value(path, value, f"one of {', '.join(self.words)}")
        return word


@dataclass(frozen=True)
class ListOf:
    """A list."""

    item: ValueType

    def convert(self, value: Any, path: str) -> list[Any]:  # noqa: ANN401  (any JSON)
        if not isinstance(value, list):
            raise invalid_value(path, value, "a list")
        return [self.item.convert(item, f"{path}[{n}]") for n, item in enumerate(value)]


@dataclass(frozen=True)
class MapOf:
    """An object whose member names are data: tags, identities."""

    item: ValueType

    def convert(self, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        if not isinstance(value, dict):
            raise invalid_value(path, value, "an object")
        return {name: self.item.convert(part, f"{path}.{name}") for name, part in value.items()}


@dataclass(frozen=True)
class Shape:
    """An object with known members. Unknown ones are kept, except where the service acts on all.

    A member whose name is almost that of a member that the service acts on is refused: the client
    has misspelled it, and would wait for an effect that never comes.
    """

    members: Mapping[str, ValueType]
    exact: bool = False

    @cached_property
    def _canonical(self) -> Mapping[str, str]:
        return {name.lower(): name for name in self.members}

    @cached_property
    def _acted_on(self) -> list[str]:
        members = self.members.items()
        return [name.lower() for name, k in members if self.exact or getattr(k, "exact", False)]

    def convert(self, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        if not isinstance(value, dict):
            raise invalid_value(path or "the request body", value, "an object")
        pause()
        result = {}
        unknown = 0
        for key, part in value.items():
            name = self._canonical.get(key.lower())
            if name is None:
                unknown += 1
                if unknown <= _CHECKED:
                    self._check_unknown(key, path)
                result[key] = part
            else:
                inner = f"{path}.{name}" if path else name
                result[name] = self.members[name].convert(part, inner)
        return result

    def _check_unknown(self, key: str, path: str) -> None:
        cutoff = _CLOSE if self.exact else _SIMILAR
        nearest = get_close_matches(key[:_LONG].lower(), self._acted_on, 1, cutoff)
        if not self.exact and not nearest:
            return
        kind = path.rpartition(".")[2].partition("[")[0] or "resource"
        text = f"Could not find member '{key[:60]}' on object of type '{kind[0].upper()}{kind[1:]}'"
        if nearest:
            text = f"{text}. Did you mean '{self._canonical[nearest[0]]}'?"
        else:
            text = f"{text}. Its members are {', '.join(self.members)}."
        raise ArmError("BadRequest", text)


REFERENCE = Shape({"id": TEXT})
"""A reference to another resource."""


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
            **{
                name: Words(tuple(allowed), exact=True)
                for name, allowed in overlay()["words"].items()
            },
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

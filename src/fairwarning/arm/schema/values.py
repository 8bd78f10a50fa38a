"""The types of JSON values in Azure's resources, and how each of them reads what clients send.

Azure accepts more than it returns: member names and words in any case, booleans and numbers as
strings (templates send those). A type converts a value to the form that Azure returns, and refuses
what has none.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from fairwarning.arm.http.errors import ArmError, invalid_value

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
        """Return the value in Azure's form."""
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
    """One of several words, in any case. Other words are kept: Azure adds new ones."""

    words: tuple[str, ...]

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        """Return the word in Azure's case."""
        text: str = TEXT.convert(value, path)
        return next((word for word in self.words if word.lower() == text.lower()), text)


class ClosedWords(Words):
    """Words that the service acts on: others are refused."""

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        """Return the word in Azure's case; refuse an unknown one."""
        word = super().convert(value, path)
        if word not in self.words:
            raise invalid_value(path, value, f"one of {', '.join(self.words)}")
        return word


@dataclass(frozen=True)
class ListOf:
    """A list."""

    item: ValueType

    def convert(self, value: Any, path: str) -> list[Any]:  # noqa: ANN401  (any JSON)
        """Return the list with its items in Azure's form."""
        if not isinstance(value, list):
            raise invalid_value(path, value, "a list")
        return [self.item.convert(item, f"{path}[{n}]") for n, item in enumerate(value)]


@dataclass(frozen=True)
class MapOf:
    """An object whose member names are data: tags, identities."""

    item: ValueType

    def convert(self, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        """Return the object with its values in Azure's form."""
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
    _canonical: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _acted_on: Collection[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = {name.lower(): name for name in self.members}
        acted_on = [
            name.lower()
            for name, kind in self.members.items()
            if self.exact or isinstance(kind, ClosedWords) or getattr(kind, "exact", False)
        ]
        object.__setattr__(self, "_canonical", names)
        object.__setattr__(self, "_acted_on", acted_on)

    def convert(self, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        """Return the object with names and values in Azure's form."""
        if not isinstance(value, dict):
            raise invalid_value(path or "the request body", value, "an object")
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

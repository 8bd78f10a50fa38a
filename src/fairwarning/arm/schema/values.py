"""The types of JSON values in Azure's resources, and how each of them reads what clients send.

Azure accepts more than it returns: member names and words in any case, booleans and numbers as
strings (templates send those). A type converts a value to the form that Azure returns, and refuses
what has none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from fairwarning.arm.http.errors import ArmError, invalid_value

_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*", re.ASCII)
_DECIMAL = re.compile(r"\s*-?[0-9]{1,18}(\.[0-9]{1,18})?\s*", re.ASCII)
_SIMILAR = 0.85  # `scheduledEventProfile` is meant as `scheduledEventsProfile`


class ValueType(Protocol):
    """The type of a JSON value."""

    def convert(self, value: Any, path: str) -> Any:  # noqa: ANN401  (any JSON)
        """Return the value in Azure's form; refuse a value that has none."""


# --- Single values --------------------------------------------------------------------------------


class Anything:
    """A value that the service keeps as it is."""

    def convert(self, value: Any, path: str) -> Any:  # noqa: ANN401, ARG002  (any JSON, anywhere)
        """Return the value."""
        return value


class Flag:
    """A boolean, or one of the strings `true` and `false`."""

    def convert(self, value: Any, path: str) -> bool:  # noqa: ANN401  (any JSON)
        """Return a boolean."""
        if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
            return value.strip().lower() == "true"
        if not isinstance(value, bool):
            raise invalid_value(path, value, "true or false")
        return value


class WholeNumber:
    """A whole number, or a string with one."""

    def convert(self, value: Any, path: str) -> int:  # noqa: ANN401  (any JSON)
        """Return an integer."""
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid_value(path, value, "a whole number")
        return value


class Decimal:
    """A number, or a string with one."""

    def convert(self, value: Any, path: str) -> float:  # noqa: ANN401  (any JSON)
        """Return a number."""
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            return float(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise invalid_value(path, value, "a number")
        return value


class String:
    """A string, and nothing else: names, locations, tags."""

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        """Return a string."""
        if not isinstance(value, str):
            raise invalid_value(path, value, "a string")
        return value


class Text(String):
    """A string, or a number: ports and zones are strings, and clients send them as numbers."""

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        """Return a string."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return super().convert(value, path)


@dataclass(frozen=True)
class Words:
    """One of several words, in any case. Other words are kept: Azure adds new ones."""

    words: tuple[str, ...]

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        """Return the word in Azure's case."""
        text = TEXT.convert(value, path)
        return next((word for word in self.words if word.lower() == text.lower()), text)


class ClosedWords(Words):
    """Words that the service acts on: others are refused."""

    def convert(self, value: Any, path: str) -> str:  # noqa: ANN401  (any JSON)
        """Return the word in Azure's case; refuse an unknown one."""
        word = super().convert(value, path)
        if word not in self.words:
            raise invalid_value(path, value, f"one of {', '.join(self.words)}")
        return word


ANY, FLAG, WHOLE, DECIMAL = Anything(), Flag(), WholeNumber(), Decimal()
STRING, TEXT = String(), Text()


# --- Lists, maps and objects ----------------------------------------------------------------------


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

    def __post_init__(self) -> None:
        names = {name.lower(): name for name in self.members}
        object.__setattr__(self, "_canonical", names)

    def convert(self, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        """Return the object with names and values in Azure's form."""
        if not isinstance(value, dict):
            raise invalid_value(path or "the request body", value, "an object")
        result = {}
        for key, part in value.items():
            name = self._canonical.get(key.lower())
            if name is None:
                self._check_unknown(key, path)
                result[key] = part
            else:
                inner = f"{path}.{name}" if path else name
                result[name] = self.members[name].convert(part, inner)
        return result

    def _check_unknown(self, key: str, path: str) -> None:
        acted_on = list(self.members) if self.exact else self._acted_on()
        close = get_close_matches(key.lower(), [n.lower() for n in acted_on], 1, _SIMILAR)
        if not self.exact and not close:
            return
        kind = path.rpartition(".")[2].partition("[")[0] or "resource"
        text = f"Could not find member '{key[:60]}' on object of type '{kind[0].upper()}{kind[1:]}'"
        nearest = get_close_matches(key.lower(), [n.lower() for n in acted_on], 1)
        if nearest:
            text = f"{text}. Did you mean '{self._canonical[nearest[0]]}'?"
        else:
            text = f"{text}. Its members are {', '.join(self.members)}."
        raise ArmError("BadRequest", text)

    def _acted_on(self) -> list[str]:
        return [
            name
            for name, kind in self.members.items()
            if isinstance(kind, ClosedWords) or (isinstance(kind, Shape) and kind.exact)
        ]


REFERENCE = Shape({"id": TEXT})
"""A reference to another resource."""
TEXTS = ListOf(TEXT)

"""Reads TOML files: fleet files, scenarios and the agent's configuration. The guest side uses it.

An error has its place in the file, what is allowed there, and the name that was probably meant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fairwarning.core.errors import Refused

Table = dict[str, Any]
"""A TOML table with its values read."""

Read = Callable[[object], Any]
"""Converts a TOML value, or raises `ConfigurationError`."""

_SHOWN_CHARACTERS = 60
_NAME_CHARACTERS = 200


class ConfigurationError(Refused):
    """An error in a file, with its place from the outermost table to the key."""

    def __init__(self, what: str, *places: str) -> None:
        super().__init__("BadSetting", f"{', '.join(places)}: {what}" if places else what)
        self.what = what
        self.places = places


@contextmanager
def at(place: str) -> Iterator[None]:
    """Add this place to every error raised inside."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(error.what, place, *error.places) from None
    except Refused as refused:  # from other modules, whose errors have no place
        raise ConfigurationError(refused.message, place) from None


def place_of(kind: str, number: int, raw: object) -> str:
    """Return the place of an entry: its number, and its name if it has one."""
    name = raw.get("name") if isinstance(raw, dict) else None
    if isinstance(name, str) and 0 < len(name) <= _NAME_CHARACTERS and name.isprintable():
        return f'{kind} {number} ("{name}")'
    return f"{kind} {number}"


def describe(value: object) -> str:
    """Describe a value: itself if it is short, else its type."""
    if isinstance(value, str):
        return repr(value[:_SHOWN_CHARACTERS])
    if isinstance(value, int) and abs(value) < 10**12:
        return str(value).lower()
    if value == []:
        return "an empty array"
    kinds = {dict: "a table", list: "an array", tuple: "an array", int: "a number of that size"}
    return kinds.get(type(value), "a fraction or a date")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415  (a valid file does not need it)

    return next(iter(get_close_matches(word[:_SHOWN_CHARACTERS], list(known))), "")


# --- Tables ---------------------------------------------------------------------------------------


def parse_toml(text: str) -> Table:
    """Parse TOML."""
    if sys.version_info >= (3, 11):  # imported here: only needed with a file
        import tomllib  # noqa: PLC0415
    else:
        import tomli as tomllib  # noqa: PLC0415  (the same module, for older versions)

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        reason = str(error).replace("at end of document", f"at line {line}, column {column}")
        raise ConfigurationError(f"this is not TOML: {reason}") from None
    except (RecursionError, ValueError):
        raise ConfigurationError(
            "a number has thousands of digits, or an array thousands of levels"
        ) from None


def table(raw: object, keys: Mapping[str, Read], *required: str) -> Table:
    """Read a table that may have only these keys."""
    if not isinstance(raw, dict):
        raise ConfigurationError(f"must be a table, not {describe(raw)}")
    for key in raw:
        if key not in keys:
            meant = nearest(key, keys)
            hint = f"did you mean {meant}?" if meant else f"known here: {', '.join(keys)}"
            raise ConfigurationError(f"there is no key {key[:_SHOWN_CHARACTERS]!r}; {hint}")
    for key in required:
        if key not in raw:
            raise ConfigurationError(f"{key} is missing")
    values = {}
    for key, value in raw.items():
        with at(key):
            values[key] = keys[key](value)
    return values


def tables(value: object) -> list[object]:
    """Read the entries of one kind."""
    if not isinstance(value, list):
        raise ConfigurationError(
            "must be an array of tables: write its heading in double brackets, [[...]]"
        )
    return value


# --- Values ---------------------------------------------------------------------------------------


def checked(check: Callable[[object], str | None]) -> Read:
    """Return a reader for values that a check allows; else it returns what is allowed."""

    def read(value: object) -> object:
        if allowed := check(value):
            raise ConfigurationError(f"must be {allowed}, not {describe(value)}")
        return value

    return read


def one_of(words: Iterable[str]) -> Read:
    """Return a reader for one of these words; it returns the word of `words`, such as a member."""
    known = list(words)

    def read(value: object) -> str:
        for word in known:
            if value == word:
                return word
        meant = nearest(value, known) if isinstance(value, str) else ""
        hint = f"; did you mean {meant}?" if meant else ""
        raise ConfigurationError(f"must be one of {', '.join(known)}, not {describe(value)}{hint}")

    return read


def list_of(read_item: Read, least: int = 0) -> Read:
    """Return a reader for an array of values."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < least:
            kind = "a non-empty array" if least else "an array"
            raise ConfigurationError(f"must be {kind}, not {describe(value)}")
        return tuple(map(read_item, value))

    return read


def flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"must be true or false, not {describe(value)}")
    return value

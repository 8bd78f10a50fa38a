"""What stands in a template, what kind it is, and how it is refused.

No refusal shows what an expression gave, for that may be a secret: it shows what the template
says, and what kind of value was found.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairwarning.core.errors import Refused

DEPTH = 64  # levels; real templates have some fifteen, and Python's stack holds several times this
INT_BITS = 64  # Azure's integers
_SHOWN_CHARACTERS = 60  # of a text in a refusal

Value = Any
"""Whatever JSON can say."""


# --- Refusing -----------------------------------------------------------------------------------


class TemplateError(Refused):
    """Something in the template is wrong, at a place that is known from the outside in."""

    def __init__(self, what: str, where: str = "", *, whole: bool = False) -> None:
        super().__init__("InvalidTemplate", f"{where}: {what}" if where else what)
        self.what = what
        self.where = where
        self.whole = whole


@contextmanager
def at(place: str, *, whole: bool = False) -> Iterator[None]:
    """Whatever is wrong inside is wrong at this place; a whole place stands in no other."""
    try:
        yield
    except TemplateError as wrong:
        if wrong.whole:
            raise
        dot = "." if wrong.where and not wrong.where.startswith("[") else ""
        raise TemplateError(wrong.what, f"{place}{dot}{wrong.where}", whole=whole) from None


def shown(value: object) -> str:
    """What the template says, if it is short, and otherwise how it begins or what kind it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}...")
    kind = kind_of(value)
    return str(value).lower() if kind in {"int", "bool"} else kind


def too_deep() -> TemplateError:
    """There is more in each other than anybody needs."""
    return TemplateError(f"this goes more than {DEPTH} levels deep")


# --- Values -------------------------------------------------------------------------------------

_KINDS = {
    bool: "bool",
    str: "string",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """What ARM calls values like this one; a whole number that is too large is none of them."""
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "int" if isinstance(value, int) and value.bit_length() < INT_BITS else "unknown"


def plain(value: Value) -> Value:
    """The value, if it is JSON and no number is too large."""
    if kind_of(value) == "unknown":
        raise TemplateError(
            f"a value must be JSON, and a whole number must fit into {INT_BITS} bits"
        )
    return value


def canonical(value: Value) -> str:
    """The same text for equal values only: 1 is not true, and properties have no order."""
    return json.dumps(value, sort_keys=True)


def text_of(value: Value) -> str:
    """A value as string() writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "" if value is None else str(value)

"""The `$filter` expressions of Azure's lists: parsed once, evaluated on the documents of a list.

A list declares the fields that its filters may use. Anything else is refused, never ignored: a
filter that has no effect makes a script act on resources that it did not mean.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body

Predicate = Callable[[Body], bool]
_Comparison = Callable[[str, str], bool]

_CHARACTERS = 4_000  # of a filter
_DEPTH = 20  # levels of parentheses
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>'(?:[^']|'')*')|(?P<word>[A-Za-z_][A-Za-z0-9_./]*)|(?P<mark>[(),]))"
)


def _fold(value: str) -> str:
    return value.lower()


@dataclass(frozen=True)
class Field:
    """A field of a filter: its values in a document, and how they are compared."""

    values: Callable[[Body], list[str]]
    fold: Callable[[str], str] = _fold


def _member(name: str) -> Field:
    return Field(lambda document: [str(document.get(name, ""))])


def _tags(document: Body) -> Mapping[str, str]:
    tags: Mapping[str, str] = document.get("tags") or {}
    return tags


def _group(document: Body) -> list[str]:
    segments = str(document["id"]).split("/")
    return [segments[segments.index("resourceGroups") + 1]]


RESOURCE_FIELDS: Mapping[str, Field] = {
    "name": _member("name"),
    "id": _member("id"),
    "resourceType": _member("type"),
    "location": Field(
        lambda document: [str(document.get("location", ""))],
        lambda value: value.replace(" ", "").lower(),
    ),
    "resourceGroup": Field(_group),
    "tagName": Field(lambda document: list(_tags(document))),
    "tagValue": Field(lambda document: list(_tags(document).values()), str),
}
"""The fields of every list of resources. Values of tags are case-sensitive, as on Azure."""


def parse_filter(text: str, fields: Mapping[str, Field]) -> Predicate:
    """Return the predicate of a `$filter`; an empty one matches everything."""
    if not text.strip():
        return lambda _document: True
    if len(text) > _CHARACTERS:
        raise ArmError("InvalidFilterInQueryString", f"The $filter has over {_CHARACTERS} letters.")
    return _Parser(text, fields).parse()


# --- Terms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Term:
    """A comparison of a field with a value."""

    name: str
    field: Field
    value: str
    compare: _Comparison

    def __call__(self, document: Body) -> bool:
        """Whether a value of the field matches."""
        wanted = self.field.fold(self.value)
        values = self.field.values(document)
        return any(self.compare(self.field.fold(value), wanted) for value in values)


_FUNCTIONS: Mapping[str, _Comparison] = {
    "startswith": lambda value, wanted: value.startswith(wanted),
    "endswith": lambda value, wanted: value.endswith(wanted),
    "contains": lambda value, wanted: wanted in value,
    "substringof": lambda value, wanted: wanted in value,  # its arguments are in reverse order
}


def _equal(value: str, wanted: str) -> bool:
    return value == wanted


def _all(terms: list[Predicate]) -> Predicate:
    """Return the conjunction of terms; a tag's name and value must match in one tag."""
    names = [t for t in terms if isinstance(t, _Term) and t.name == "tagName"]
    values = [t for t in terms if isinstance(t, _Term) and t.name == "tagValue"]
    if len(names) == len(values) == 1:
        terms = [t for t in terms if t is not names[0] and t is not values[0]]
        terms.append(_same_tag(names[0], values[0]))
    return terms[0] if len(terms) == 1 else lambda document: all(t(document) for t in terms)


def _same_tag(name: _Term, value: _Term) -> Predicate:
    def matches(document: Body) -> bool:
        single = ({"tags": {key: part}} for key, part in _tags(document).items())
        return any(name(tag) and value(tag) for tag in single)

    return matches


# --- Parser ---------------------------------------------------------------------------------------


class _Parser:
    """A recursive descent over the tokens of a filter."""

    def __init__(self, text: str, fields: Mapping[str, Field]) -> None:
        self._text = text
        self._fields = {name.lower(): (name, field) for name, field in fields.items()}
        self._position = 0
        self._depth = 0

    def parse(self) -> Predicate:
        """Return the predicate of the whole text."""
        predicate = self._alternatives()
        if self._text[self._position :].strip():
            raise self._invalid()
        return predicate

    def _alternatives(self) -> Predicate:
        terms = [self._conjunction()]
        while self._accept("or"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else lambda document: any(t(document) for t in terms)

    def _conjunction(self) -> Predicate:
        terms = [self._term()]
        while self._accept("and"):
            terms.append(self._term())
        return _all(terms)

    def _term(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._invalid()
        predicate = self._nested()
        self._depth -= 1
        return predicate

    def _nested(self) -> Predicate:
        if self._accept("not"):
            inner = self._term()
            return lambda document: not inner(document)
        if self._accept("("):
            inner = self._alternatives()
            self._expect(")")
            return inner
        for name in _FUNCTIONS:
            if self._accept(name):
                return self._function(name)
        return self._comparison()

    def _function(self, function: str) -> Predicate:
        self._expect("(")
        if function == "substringof":
            value = self._value()
            self._expect(",")
            name, field = self._field()
        else:
            name, field = self._field()
            self._expect(",")
            value = self._value()
        self._expect(")")
        term = _Term(name, field, value, _FUNCTIONS[function])
        if not self._accept("eq"):
            return term
        if self._accept("true"):
            return term
        self._expect("false")
        return lambda document: not term(document)

    def _comparison(self) -> Predicate:
        name, field = self._field()
        if self._accept("eq"):
            return _Term(name, field, self._value(), _equal)
        self._expect("ne")
        term = _Term(name, field, self._value(), _equal)
        return lambda document: not term(document)

    def _field(self) -> tuple[str, Field]:
        """Return a declared field. Azure's documentation has its name in quotes for some lists."""
        match = _TOKEN.match(self._text, self._position)
        word = (match["word"] or match["quoted"] or "").strip("'") if match else ""
        if match is None or word.lower() not in self._fields:
            raise self._invalid()
        self._position = match.end()
        return self._fields[word.lower()]

    def _value(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match["quoted"] is None:
            raise self._invalid()
        self._position = match.end()
        return match["quoted"][1:-1].replace("''", "'")

    def _accept(self, token: str) -> bool:
        match = _TOKEN.match(self._text, self._position)
        text = (match["word"] or match["mark"] or "") if match else ""
        if match is None or text.lower() != token:
            return False
        self._position = match.end()
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._invalid()

    def _invalid(self) -> ArmError:
        rest = self._text[self._position :].strip()[:60]
        fields = ", ".join(name for name, _ in self._fields.values())
        text = (
            f"The $filter is not supported at '{rest}'. Use FIELD eq 'VALUE', FIELD ne 'VALUE', "
            "startswith(FIELD, 'VALUE') or substringof('VALUE', FIELD), joined by and, or, not; "
            f"FIELD is one of {fields}."
        )
        return ArmError("InvalidFilterInQueryString", text)

"""The `$filter` expressions of Azure's lists: parsed once, evaluated on the documents of a list.

A list declares the fields that its filters may use. Anything else is refused, never ignored: a
filter that has no effect makes a script act on resources that it did not mean.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.request import Body

Predicate = Callable[[Body], bool]

_TERMS = 10  # of a filter: each is compared with each tag of each document
_TERM = re.compile(
    r"\s*'?(?P<field>[a-z][\w./]*)'?\s+(?P<operator>eq|ne)\s+'(?P<value>(?:[^']|'')*+)'"
    r"(?:\s+(?P<join>and|or)\b|\s*$)",
    re.ASCII | re.IGNORECASE,
)
"""A comparison, and the word after it. Azure's documentation has some fields in quotes."""


@dataclass(frozen=True)
class Field:
    """A field of a filter: its values in a document, and how they are compared."""

    values: Callable[[Body], list[str]]
    fold: Callable[[str], str] = str.lower


def _member(name: str, fold: Callable[[str], str] = str.lower) -> Field:
    return Field(lambda document: [str(document.get(name, ""))], fold)


def _tags(document: Body) -> Mapping[str, str]:
    tags = document.get("tags")  # of a part, as the client wrote them
    return {n: v for n, v in tags.items() if isinstance(v, str)} if isinstance(tags, dict) else {}


def _group(document: Body) -> list[str]:
    return [str(document["id"]).partition("/resourceGroups/")[2].partition("/")[0]]


RESOURCE_FIELDS: Mapping[str, Field] = {
    "name": _member("name"),
    "id": _member("id"),
    "resourceType": _member("type"),
    "location": _member("location", lambda value: value.replace(" ", "").lower()),
    "resourceGroup": Field(_group),
    "tagName": Field(lambda document: list(_tags(document))),
    "tagValue": Field(lambda document: list(_tags(document).values()), str),
}
"""The fields of every list of resources. Values of tags are case-sensitive, as on Azure."""


def parse_filter(text: str, fields: Mapping[str, Field]) -> Predicate:
    """Return the predicate of a `$filter`; an empty one matches everything."""
    if not text.strip():
        return lambda _document: True
    alternatives: list[list[_Term]] = [[]]
    position, join, count = 0, "and", 0
    while join:
        count += 1
        if count > _TERMS:
            text = f"The $filter has more than {_TERMS} comparisons."
            raise ArmError("InvalidFilterInQueryString", text)
        match = _TERM.match(text, position)
        name = next(
            (name for name in fields if match and name.lower() == match["field"].lower()), ""
        )
        if match is None or not name:
            rest, known = text[position:].strip()[:60], ", ".join(fields)
            raise azure_error("InvalidFilterInQueryString/fields", rest=rest, fields=known)
        if join == "or":
            alternatives.append([])
        alternatives[-1].append(_term(name, fields[name], match))
        position, join = match.end(), (match["join"] or "").lower()
    predicates = [*map(_all, alternatives)]
    return lambda document: any(predicate(document) for predicate in predicates)


_Term = tuple[str, Predicate]
"""A predicate, and the field whose value it finds; no field if it is negated."""


def _term(name: str, field: Field, match: re.Match[str]) -> _Term:
    negated = match["operator"].lower() == "ne"
    wanted = field.fold(match["value"].replace("''", "'"))

    def matches(document: Body) -> bool:
        return (wanted in map(field.fold, field.values(document))) is not negated

    return "" if negated else name, matches


def _all(terms: list[_Term]) -> Predicate:
    """Return the conjunction of terms; a tag's name and value must match in one tag."""
    by_tag = [predicate for name, predicate in terms if name in {"tagName", "tagValue"}]
    others = [predicate for name, predicate in terms if name not in {"tagName", "tagValue"}]

    def matches(document: Body) -> bool:
        each = [{"tags": {name: value}} for name, value in _tags(document).items()]
        tagged = any(all(term(tag) for term in by_tag) for tag in each or [{}])
        return tagged and all(term(document) for term in others)

    return matches

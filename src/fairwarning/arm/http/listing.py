"""Answers to list requests, with the OData options of Azure's lists (C6), and their pages.

A list declares the fields that its filters may use. Anything else is refused, never ignored: a
filter that has no effect makes a script act on resources that it did not mean.
"""

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from fairwarning.arm.http.errors import azure_error, invalid_value
from fairwarning.arm.http.request import ArmRequest, Body, json_response, query_pairs

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


RESOURCE_FIELDS: Mapping[str, Field] = {
    "name": _member("name"),
    "id": _member("id"),
    "resourceType": _member("type"),
    "location": _member("location", lambda value: value.replace(" ", "").lower()),
    "resourceGroup": Field(
        lambda document: [document["id"].partition("/resourceGroups/")[2].partition("/")[0]]
    ),
    "tagName": Field(lambda document: list(_tags(document))),
    "tagValue": Field(lambda document: list(_tags(document).values()), str),
}
"""The fields of every list of resources. Values of tags are case-sensitive, as on Azure."""


def _parse_filter(text: str, fields: Mapping[str, Field]) -> Predicate:
    """Return the predicate of a `$filter`; an empty one matches everything."""
    if not text.strip():
        return lambda _document: True
    alternatives: list[list[_Term]] = [[]]
    position, join, count = 0, "and", 0
    while join:
        count += 1
        if count > _TERMS:
            raise azure_error("InvalidFilterInQueryString/too long", most=_TERMS)
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


_TOP_MAX = 10_000


def list_response(
    request: ArmRequest,
    documents: Sequence[Body],
    token: str = "",
    *,
    fields: Mapping[str, Field] = RESOURCE_FIELDS,
) -> Response:
    """Return a page of a list: the documents that `$filter` matches, at most `$top` in all pages.

    `token` is the $skiptoken of the next page. A page may be short, or empty, and have a nextLink.
    """
    matches = _parse_filter(request.query("$filter"), fields)
    value = [document for document in documents if matches(document)]
    top = parse_top(request)
    if top is None:
        return json_response({"value": value, **next_link(request, token)})
    value = value[:top]
    token = token if len(value) < top else ""
    link = next_link(request, token, {"$top": str(top - len(value))})
    return json_response({"value": value, **link})


def parse_top(request: ArmRequest) -> int | None:
    """Return the number of `$top`; None without one."""
    text = request.query("$top")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _TOP_MAX:
        raise invalid_value("$top", text, f"a whole number from 1 to {_TOP_MAX}")
    return int(text)


def parse_expand(request: ArmRequest, allowed: Collection[str]) -> frozenset[str]:
    """Return the words of `$expand`, in the case of `allowed`; refuse others."""
    text = request.query("$expand")
    if not text:
        return frozenset()
    canonical = {word.lower(): word for word in allowed}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not all(word in canonical for word in words):
        raise invalid_value("$expand", text, f"one or more of {', '.join(allowed)}")
    return frozenset(canonical[word] for word in words)


def refuse_ignored(request: ArmRequest) -> None:
    """Refuse OData options that the handler has not read: ignored, they would change the answer."""
    options = [name for name, _ in query_pairs(request.http) if name.startswith("$")]
    ignored = [name for name in options if name.lower() not in request.options_read]
    if ignored:
        supported = ", ".join(request.options_read) or "none"
        raise azure_error("UnsupportedQueryOption", ignored=ignored[0][:40], supported=supported)


def next_link(
    request: ArmRequest, token: str, changes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the `nextLink` member of a listing; nothing on the last page.

    `changes` has query parameters that differ on the next page.
    """
    if not token:
        return {}
    query = {
        key: value
        for key, value in query_pairs(request.http)
        if key.lower() not in {"$skiptoken", "api-version"}
    }
    query |= {**(changes or {}), "$skiptoken": token}
    return {"nextLink": request.link(request.path, query)}


def encode_skip_token(last: str) -> str:
    """Return the $skiptoken for the page after this resource id."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def decode_skip_token(token: str) -> str:
    """Return the resource id before the page; "" for the first page."""
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error) as error:
        raise azure_error("InvalidSkipToken") from error

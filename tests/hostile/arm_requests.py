"""Hostile requests to the control plane: nearly valid ones, and garbage.

A request is drawn as mutations of a valid one. Valid requests are only known once there is a fleet,
so a mutation names positions and replacements, and `mutated` applies them.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st

from fairwarning.arm.http.request import BODY_BYTES
from tests.arm.everything import RouteRequest, fill_path
from tests.fixtures.arm import VERSION, default_version

Json = Any

# --- Values ---------------------------------------------------------------------------------------

DATA: Json = json.loads(Path(__file__).with_name("arm_values.json").read_text("utf-8"))

WORDS: tuple[str, ...] = (
    *DATA["names"], *("new",) * 16, "x" * 90, "x" * 91, "x" * 300, "é" * 300, "x" * 5_000,
    "a/" * 200,
)  # fmt: skip
"""Names, valid and invalid."""

VALUES: tuple[Json, ...] = (
    *DATA["values"], "P" + "9" * 400 + "D", "x" * 201, "x" * 1_001, "é" * 251, ["x"] * 300,
    {"x" * 5_000: 1}, {str(n): "x" for n in range(60)},
)  # fmt: skip

RAW: tuple[str, ...] = (
    *DATA["raw"], "9" * 400, "9" * 5_000, '"' + "x" * 70_000 + '"', '"' + "x" * 530_000 + '"',
    "[" * 40 + "]" * 40, "[" * 59 + "]" * 59, "[" * 70 + "]" * 70, "[" * 5_000 + "]" * 5_000,
    "[" * 5_000, '{"a":' * 100 + "1" + "}" * 100, '{"properties":' * 9_000 + "1" + "}" * 9_000,
)  # fmt: skip
"""Values that no JSON encoder writes."""
_MARK = "@@{}@@"

WHOLE = (
    b"", b" ", b"null", b"[]", b"1", b'"x"', b"{", b"}", b"{}{}", b"{} x", b"\0", b"\xff\xfe",
    b"{\xff}",
    b'{"a":"\xff"}', b"\xef\xbb\xbf{}", "{}".encode("utf-16"), "{}".encode("utf-32"), b"a=b&c=d",
    b"<xml/>", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000,
    b'"' + b"\\u0041" * 20_000 + b'"',
    b"{" + b" " * 200_000 + b"}", b"{" + b'"a":1,' * 20_000 + b'"a":1}',
)  # fmt: skip
"""Bodies unrelated to the request."""

LIMIT = (b"{" + b" " * (BODY_BYTES - 2) + b"}", b"{" + b" " * (BODY_BYTES - 1) + b"}")
"""The maximum body, and one byte more."""

_VERSIONS = (
    VERSION, VERSION, "2017-03-30", "2019-03-01", "2021-02-28", "2024-03-01", "2025-04-01",
    "9999-12-31", "0000-01-01", "2024-11-01-preview",
)  # fmt: skip
_QUERIES = {
    "$skiptoken": ("", "x", "=", "AAAA", "/w==", "0", "1", "999999999999", "bWljcm9zb2Z0", "é"),
    "$filter": (
        "name eq 'one'", "location eq 'local'", "resourceType eq 'x' and name eq 'y'",
        "name eq one",
        "' or 1=1", "name eq '" + "a" * 400 + "'", "a eq 'b'", "name eq 'a' and " * 300,
    ),
    "$expand": ("instanceView", "INSTANCEVIEW,userData", "", "x" * 3_000),
    "$top": ("0", "-1", "1", "x", "9" * 50),
    "monitor": ("true", "", "\0"),
    "statusOnly": ("true", "false"),
    "forceDeletion": ("true", "x"),
    "path": ("x",),
    "self": ("x",),
    "": ("", "x"),
    "api-version": ("", "x", "2024-11-01", "2024-99-99"),
    "API-Version": ("2024-11-01",),
}  # fmt: skip
_HEADERS = {
    "host": (
        "127.0.0.1:8171", "example.org", "", " ", "a/b", "a?b", "a#b", "[", "]", "[::1]:8171",
        "[::1",
        "a b", "\xe9", "x" * 300, "user@host", "a:b:c", "a:99999999", "a\\b", "[v1.x]", "%00", "//",
    ),
    "if-match": ("*", '"1"', '"0"', "x", 'W/"1"', '"1", "2"', "", "\xe9", '"' * 3_000),
    "if-none-match": ("*", '"1"', "**", "", "\xe9"),
    "content-type": ("application/json", "text/plain", "application/json; charset=utf-16", "\xe9"),
    "accept": ("text/html", ""),
    "content-length": ("0", "-1", "99999999999"),
    "x-http-method-override": ("DELETE",),
    "x-forwarded-host": ("evil.example",),
    "x-ms-client-request-id": ("x" * 3_000,),
}  # fmt: skip


# --- Drawing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutation:
    """Mutations of a valid request."""

    params: tuple[tuple[int, int], ...]  # parameter and replacement value
    queries: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    version: str
    changes: tuple[tuple[int, str, int], ...]  # position in the body, kind, value
    whole: int | None  # replaces the body


class Choices:
    """Choices encoded in bytes. Zeros select the first of everything: no mutation."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def number(self) -> int:
        return next(self._data, 0)

    def of(self, some: Sequence[Any]) -> Any:  # noqa: ANN401  (the type of the elements)
        return some[(self.number() << 8 | self.number()) % len(some)]

    def some(self, counts: Sequence[int]) -> range:
        """Choose a count from these; return a range of that length."""
        return range(counts[self.number() % len(counts)])


HOW = ("replace", "raw", "drop", "rename", "wrap", "listed", "double", "replace")
_PLACES = range(500)
_PAIRS = [(name, value) for name, values in _QUERIES.items() for value in values]
_FIELDS = [(name, value) for name, values in _HEADERS.items() for value in values]
_BYTES = 32


def _mutation(data: bytes) -> Mutation:
    choose = Choices(data)
    whole = choose.some((0, 0, 0, 0, 0, 0, 0, 1))
    return Mutation(
        params=tuple(
            (choose.number(), choose.of(_WORDS)) for _ in choose.some((0, 0, 0, 1, 0, 1, 2))
        ),
        queries=tuple(choose.of(_PAIRS) for _ in choose.some((0, 0, 0, 1, 0, 1, 2))),
        headers=tuple(choose.of(_FIELDS) for _ in choose.some((0, 0, 0, 1, 0, 1, 2))),
        changes=tuple(
            (choose.of(_PLACES), choose.of(HOW), choose.of(_PLACES))
            for _ in choose.some((0, 1, 2, 1, 2, 3))
        ),
        version=choose.of(_VERSIONS) if choose.some((0, 0, 1)) else VERSION,
        whole=choose.of(range(len(WHOLE))) if whole else None,
    )


_WORDS = range(len(WORDS))


NO_MUTATION = _mutation(b"")


def random_mutation(rng: Random) -> Mutation:
    """Return a mutation that depends on the state of this generator only."""
    return _mutation(rng.randbytes(_BYTES))


MUTATIONS = st.binary(min_size=_BYTES, max_size=_BYTES).map(_mutation)
"""Mutations of requests, decoded from drawn bytes, since drawing bytes is fast."""


# --- Applying -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MutatedRequest:
    """A request to send."""

    method: str
    path: str
    query: str
    body: bytes
    headers: Mapping[str, str]


def mutated(request: RouteRequest, mutation: Mutation) -> MutatedRequest:
    """Apply a mutation to a valid request."""
    names = [name for name in request.params if name != "subscription"]
    params = dict(request.params)
    for number, word in mutation.params if names else ():
        params[names[number % len(names)]] = WORDS[word]
    path = fill_path(request.route.path, params)
    version = default_version(path) if mutation.version == VERSION else mutation.version
    query = urlencode([("api-version", version), *mutation.queries])
    body = b"" if request.body is None else encoded_body(request.body, mutation.changes)
    if mutation.whole is not None:
        body = WHOLE[mutation.whole]
    return MutatedRequest(request.route.method, path, query, body, dict(mutation.headers))


def encoded_body(body: Json, changes: Sequence[tuple[int, str, Any]]) -> bytes:
    """Return a body with some positions changed, as JSON or something similar."""
    text = json.dumps(changed_body(body, changes))
    for number, raw in enumerate(RAW):
        text = text.replace(f'"{_MARK.format(number)}"', raw)
    return text.encode("utf-8", "surrogatepass")


def changed_body(body: Json, changes: Sequence[tuple[int, str, Any]]) -> Json:
    """Return a body with some positions changed."""
    whole = {"": deepcopy(body)}
    for place, how, what in changes:
        places = _places(whole)
        inside, key = places[place % len(places)]
        _change(inside, key, how, what)
    return whole[""]


def _places(inside: Json) -> list[tuple[Json, Any]]:
    """Return every position in a body: its container and its key."""
    keys = list(inside) if isinstance(inside, dict) else range(len(inside))
    positions: list[tuple[Json, Any]] = []
    for key in keys:
        positions.append((inside, key))
        if isinstance(inside[key], dict | list):
            positions += _places(inside[key])
    return positions


def _change(inside: Json, key: Any, how: str, what: Any) -> None:  # noqa: ANN401  (anything)
    value = inside[key]
    if how == "put":
        inside[key] = what
    elif how == "replace":
        inside[key] = deepcopy(VALUES[what % len(VALUES)])
    elif how == "raw":
        inside[key] = _MARK.format(what % len(RAW))
    elif how == "drop" and key != "":
        del inside[key]
    elif how == "rename" and isinstance(inside, dict) and key != "":
        inside[WORDS[what % len(WORDS)]] = inside.pop(key)
    elif how == "wrap":
        inside[key] = {"value": value}
    elif how == "listed":
        inside[key] = [value]
    elif isinstance(value, list):
        inside[key] = value * (what % 3)

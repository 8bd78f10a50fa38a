"""Hostile requests to the control plane: nearly valid ones, and garbage.

A request is drawn as mutations of a valid one. Valid requests are only known once there is a fleet,
so a mutation names positions and replacements, and `mutated` applies them.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st

from fairwarning.arm.http.request import BODY_BYTES
from tests.arm.everything import RouteRequest, fill_path
from tests.fixtures.arm import VERSION, default_version

Json = Any

# --- Values ---------------------------------------------------------------------------------------

WORDS = (
    "one", *("new",) * 16, "web", "cloud", "web_0", "web_00", "WEB_1", "nothing", "a/b", "a/../b",
    "..", ".", "...",
    "*", "%", "%2F", "%00", "%zz", "?x=1", "a?b", "#", "a#b", "\0", "a\0b", "\n", "\r\nx: y", "\t",
    " ", "  one  ", "a b", "a:b", ":", "::", "'", '"', "\\", "..\\..", "a;b", "&", "=", "~", "(",
    "()",
    "(a)", "-a", "a-", "a.", ".a", "_", "0", "-1", "007", "9" * 30, "1e3", "٣", "é",
    "\uff4f\uff4e\uff45",
    "\N{SNOWMAN}", "\u202e", "\ufeff", "\U0001f4a9", "İ", "ß", "\u2028", "null", "None", "true",
    "[]",
    "{}", "{name}", "$(id)", "' or 1=1 --", "<script>", "../../etc/passwd", "x" * 90, "x" * 91,
    "x" * 300, "é" * 300, "x" * 5_000, "/" * 50, "a/" * 200,
)  # fmt: skip
"""Names, valid and invalid."""

VALUES: tuple[Json, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 201, 1_001, 2**31, 2**63, 2**64, -(2**63) - 1, 1.5, -0.0,
    1e308,
    "", "0", "5", "-5", "true", "False", "PT5M", "PT15M", "PT0S", "PT16M", "P1D", "pt5m", "PT5M\n",
    "P" + "9" * 400 + "D", "Spot", "spot", "Low", "Delete", "Flexible", "Automatic", "OldestVM",
    "x" * 201,
    "x" * 1_001, "\0", "\u202e", "é" * 251, "[concat('a')]", "[", "[]", "[[x]", [], {}, [[]], [{}],
    ["*"],
    ["0", "0"], ["x"] * 300, [None], [1], [[[]]], {"": ""}, {"a": None}, {"id": 1}, {"name": []},
    {"x" * 5_000: 1}, {"value": {"a": [{}]}}, {str(n): "x" for n in range(60)},
    {"capacity": "3"}, {"enable": "TRUE"}, {"automaticallyApprove": 1},
)  # fmt: skip

RAW = (
    "NaN", "-Infinity", "1e400", "-1e400", "1E-999", "9" * 400, "9" * 5_000, "-" + "9" * 19, "0x1",
    "01",
    "1.", "tru", "'x'", "1 2", "/*x*/1", "", ",", '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"',
    '"\\x"',
    '"\x01"', '"\n"', '"' + "x" * 70_000 + '"', '"' + "x" * 530_000 + '"', '{"a":1,"a":2}',
    '{"a":1,}',
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
        """Return the next byte."""
        return next(self._data, 0)

    def of(self, some: Sequence[Any]) -> Any:  # noqa: ANN401  (the type of the elements)
        """Choose an element."""
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
        changes=draw_changes(choose, (0, 1, 2, 1, 2, 3)),
        version=choose.of(_VERSIONS) if choose.some((0, 0, 1)) else VERSION,
        whole=choose.of(range(len(WHOLE))) if whole else None,
    )


def draw_changes(choose: Choices, counts: Sequence[int]) -> tuple[tuple[int, str, int], ...]:
    """Draw changes of a body."""
    return tuple(
        (choose.of(_PLACES), choose.of(HOW), choose.of(_PLACES)) for _ in choose.some(counts)
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

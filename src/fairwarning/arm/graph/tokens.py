"""The words of a query."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fairwarning.core.errors import Refused

QUERY_CHARACTERS = 20_000
_TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<word>[A-Za-z_]\w*(?:-[a-z]+)*)
    | (?P<sign>!(?:contains|startswith|endswith|has|in~|in)(?!\w)
        |==|!=|=~|!~|<=|>=|[<>=|()\[\],.~*])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)")


class GraphQueryError(Refused):
    """A query that is not valid, or that uses what is not supported."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidQuery", message)


@dataclass(frozen=True)
class Token:
    """A word, sign, number or text of a query."""

    kind: str  # word, sign, number or text; "" at the end
    value: str

    def __str__(self) -> str:
        return f"'{self.value[:60]}'" if self.kind else "the end of the query"


END = Token("", "")


def tokenize(query: str) -> Iterator[Token]:
    """Yield the tokens of a query, without spaces and comments."""
    if len(query) > QUERY_CHARACTERS:
        raise GraphQueryError(f"The query has more than {QUERY_CHARACTERS} characters.")
    place = 0
    while place < len(query):
        match = _TOKEN.match(query, place)
        if match is None:
            raise GraphQueryError(f"The query is not valid at '{query[place : place + 40]}'.")
        place = match.end()
        kind = str(match.lastgroup)
        if kind == "text":
            yield Token(kind, _ESCAPE.sub(r"\1", match[0][1:-1]))
        elif kind != "space":
            yield Token(kind, match[0])

"""docs/troubleshooting.md quotes error texts that the program still has."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from types import CodeType

import pytest

from tests.docs.pages import DOCS, ROOT, text_of

PAGE = DOCS / "troubleshooting.md"
_FEWEST_LETTERS = 5  # shorter fragments, between two placeholders, would match anything


def quotes() -> list[str]:
    """Return the texts that the headings of the page quote."""
    headings = re.findall(r"^### (.*)$", text_of(PAGE), re.MULTILINE)
    return [quote for heading in headings for quote in re.findall(r"`([^`]+)`", heading)]


def fragments(quote: str) -> list[str]:
    """Return the literal parts of a quoted text; `...` and values in quotes vary."""
    parts = re.split(r"\.\.\.|'[^']*'", quote)
    return [part.strip() for part in parts if len(part.strip()) >= _FEWEST_LETTERS]


@cache
def literals() -> str:
    """Return every string literal of the program, one per line."""
    files = sorted((ROOT / "src").rglob("*.py"))
    codes = (SourceFileLoader(path.stem, str(path)).get_code(path.stem) for path in files)
    return "\n".join(text for code in codes for text in _texts(code))


def _texts(constant: object) -> Iterator[str]:
    """Yield the strings of a compiled module, which Python keeps: parsing again takes seconds."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, CodeType):
        yield from _texts(constant.co_consts)
    elif isinstance(constant, tuple | frozenset):
        for part in constant:
            yield from _texts(part)


@pytest.mark.parametrize("quote", quotes())
def test_the_program_has_the_text(quote: str) -> None:
    """Every literal part of a quoted error occurs in the source."""
    missing = [part for part in fragments(quote) if part not in literals()]
    assert missing == []

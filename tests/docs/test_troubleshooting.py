"""docs/troubleshooting.md quotes error texts that the program still has."""

import ast
import re
from functools import cache

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
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    return "\n".join(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("quote", quotes())
def test_the_program_has_the_text(quote: str) -> None:
    """Every literal part of a quoted error occurs in the source."""
    missing = [part for part in fragments(quote) if part not in literals()]
    assert missing == []


def test_a_text_that_the_program_does_not_have_is_found() -> None:
    """Otherwise the test above proves nothing."""
    assert all(part not in literals() for part in fragments("no such text ... in any literal"))

"""Outlines: what a surface promises, as nested lines.

A line is one promise; the lines below it, indented, are its parts:

    machine restart
        1. MACHINE...: text (required)
        --wait: flag
"""

from collections.abc import Iterable, Iterator

Outline = dict[str, "Outline"]

REQUIRED = "(required)"
_INDENT = "    "


def outline_of(lines: Iterable[str]) -> Outline:
    """Return an outline of lines without parts."""
    return {line: {} for line in lines}


def render(outline: Outline) -> str:
    """Return the text of an outline."""
    return "".join(f"{line}\n" for line in _lines(outline, ""))


def _lines(outline: Outline, indent: str) -> Iterator[str]:
    for line, parts in outline.items():
        yield f"{indent}{line}"
        yield from _lines(parts, indent + _INDENT)

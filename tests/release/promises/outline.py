"""Outlines: what a surface promises, as nested lines, and the comparison of two of them.

A line is one promise; the lines below it, indented, are its parts:

    machine restart
        1. MACHINE...: text (required)
        --wait: flag

A missing line takes something away from users. A new line gives them something, unless it is
required of them. A line whose name stays and whose rest differs has changed.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Outline = dict[str, "Outline"]

REQUIRED = "(required)"
_INDENT = "    "
_NAME = re.compile(r"[^:=(]+")


class OutlineChanges(NamedTuple):
    """The differences of two outlines, a sentence each."""

    added: list[str]
    broken: list[str]


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


def parse(text: str) -> Outline:
    """Return the outline of a text."""
    root: Outline = {}
    open_outlines = [root]
    for line in text.splitlines():
        content = line.lstrip()
        depth = (len(line) - len(content)) // len(_INDENT)
        del open_outlines[depth + 1 :]
        open_outlines.append(open_outlines[depth].setdefault(content, {}))
    return root


def compare(before: Outline, after: Outline, path: tuple[str, ...] = ()) -> OutlineChanges:
    """Return what was added, and what was removed or changed."""
    changes = OutlineChanges([], [])
    removed = [line for line in before if line not in after]
    added = [line for line in after if line not in before]
    for line in removed:
        replacement = next((new for new in added if _name(new) == _name(line)), None)
        if replacement is None:
            changes.broken.append(f"removed: {_joined(path, line)}")
        else:
            added.remove(replacement)
            changes.broken.append(f"changed: {_joined(path, line)}  ->  {replacement}")
    for line in added:
        required = REQUIRED in line and path
        (changes.broken if required else changes.added).append(f"added: {_joined(path, line)}")
    for line in before.keys() & after.keys():
        parts = compare(before[line], after[line], (*path, line))
        changes.added.extend(parts.added)
        changes.broken.extend(parts.broken)
    return OutlineChanges(sorted(changes.added), sorted(changes.broken))


def _name(line: str) -> str:
    match = _NAME.match(line)
    return match[0].strip() if match else line


def _joined(path: tuple[str, ...], line: str) -> str:
    return " / ".join((*path, line))

"""Parse the documentation pages: code blocks with their marks, headings, links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = DOCS / "reference"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (.*?) -->\n\Z")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A code block of a page, with the mark in the comment right before it."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


@dataclass(frozen=True)
class Link:
    """A link, or an image."""

    text: str
    target: str
    image: bool


def pages() -> list[Path]:
    """Return the README and every page of the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name(page: Path) -> str:
    """Return the name of a page for test reports."""
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    """Return the text of a page."""
    return page.read_text("utf-8")


def blocks(page: Path) -> Iterator[Block]:
    """Yield the code blocks of a page, in order."""
    text = text_of(page)
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        mark = _MARK.search(before)
        line = before.count("\n") + 1
        yield Block(page, line, fence[1], fence[2], mark[1] if mark else "")


def prose(page: Path) -> str:
    """Return the page without its code blocks."""
    return _FENCE.sub("", text_of(page))


def links(page: Path) -> Iterator[Link]:
    """Yield the links and images of a page, except those inside `code`."""
    for match in _LINK.finditer(re.sub(r"`[^`\n]*`", "`", prose(page))):
        yield Link(text=match[2], target=match[3], image=match[1] == "!")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page, one for each heading."""
    taken: list[str] = []
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        repeated = sum(1 for name in taken if re.fullmatch(rf"{re.escape(slug)}(_\d+)?", name))
        taken.append(f"{slug}_{repeated}" if repeated else slug)
    return frozenset(taken)

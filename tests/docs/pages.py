"""What stands on the pages: blocks of code with the marks before them, headings, links."""

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
    """A block of code on a page, and what the comment right before it says of it."""

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
    """Every page of the documentation, and the one that a stranger reads first."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@cache
def text_of(page: Path) -> str:
    """As it is written."""
    return page.read_text("utf-8")


def blocks(page: Path) -> Iterator[Block]:
    """Those of a page, in order."""
    text = text_of(page)
    for found in _FENCE.finditer(text):
        before = text[: found.start()]
        mark = _MARK.search(before)
        line = before.count("\n") + 1
        yield Block(page, line, found[1], found[2], mark[1] if mark else "")


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", text_of(page))


def links(page: Path) -> Iterator[Link]:
    """All that lead somewhere; what stands in `code` is none."""
    for found in _LINK.finditer(re.sub(r"`[^`\n]*`", "`", prose(page))):
        yield Link(text=found[2], target=found[3], image=found[1] == "!")


@cache
def anchors(page: Path) -> frozenset[str]:
    """What may stand behind the # of a link to this page: one for each heading."""
    taken: list[str] = []
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        again = sum(1 for one in taken if re.fullmatch(rf"{re.escape(slug)}(_\d+)?", one))
        taken.append(f"{slug}_{again}" if again else slug)
    return frozenset(taken)

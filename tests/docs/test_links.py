"""Links resolve, images have alternative texts, and every page is reachable."""

import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, name, pages

TOP = [
    *pages(),
    *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "RELEASING", "SECURITY")),
]
_ELSEWHERE = ("http://", "https://", "mailto:")
_FEWEST_WORDS = 4  # of the alternative text of an image


@pytest.mark.parametrize("page", TOP, ids=name)
def test_links_resolve(page: Path) -> None:
    """Each link leads to an existing file, and to a heading of that file."""
    broken = []
    for link in links(page):
        if link.target.startswith(_ELSEWHERE):
            continue
        path, _, anchor = link.target.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link.target)
        if DOCS in page.parents and DOCS not in target.parents:
            broken.append(f"{link.target} (is not part of the site)")
    assert broken == []


@pytest.mark.parametrize("page", TOP, ids=name)
def test_images_have_alternative_texts(page: Path) -> None:
    """Each text describes the image in a few words."""
    images = [link for link in links(page) if link.image]
    assert [image for image in images if len(image.text.split()) < _FEWEST_WORDS] == []


def test_every_page_is_in_the_navigation() -> None:
    """Each page is listed once, and nothing else is listed."""
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_page_is_linked_from_another_page() -> None:
    """A link in the text, besides the navigation."""
    known = {
        (page.parent / link.target.partition("#")[0]).resolve()
        for page in pages()
        for link in links(page)
        if not link.target.startswith(_ELSEWHERE)
    }
    assert [name(page) for page in DOCS.rglob("*.md") if page not in known] == []


def test_every_drawing_is_used_and_described() -> None:
    """A page shows each drawing, which has a title, a description and dark colours."""
    shown = {Path(link.target).name for page in pages() for link in links(page) if link.image}
    drawings = sorted((DOCS / "images").glob("*.svg"))
    assert [drawing.name for drawing in drawings if drawing.name not in shown] == []
    for drawing in drawings:
        text = drawing.read_text("utf-8")
        assert "<title" in text
        assert "<desc" in text
        assert "prefers-color-scheme: dark" in text
        # The namespace of SVG, and commands in a drawn terminal
        assert re.findall(r"https?://(?!www\.w3\.org/|127\.)", text) == []


def test_badges_are_true() -> None:
    """Those of the README are fixed texts: what they say is in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    badges = [link.target for link in links(ROOT / "README.md") if "/badge/" in link.target]
    texts = {unquote(target.partition("/badge/")[2]).rpartition("-")[0] for target in badges}
    assert texts == {f"license-{project['license'].replace('-', '--')}", "python-3.11_or_newer"}
    assert "Programming Language :: Python :: 3.11" in project["classifiers"]
    marked = project["optional-dependencies"]["server"]
    assert all("python_version >= '3.11'" in requirement for requirement in marked)

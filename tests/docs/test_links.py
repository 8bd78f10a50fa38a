"""Every link leads somewhere, every image can be heard, and every page can be found."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, pages

TOP = [*pages(), *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "SECURITY"))]
_ELSEWHERE = ("http://", "https://", "mailto:")
_FEWEST_WORDS = 4  # of what an image shows, for whoever does not see it


def name(page: Path) -> str:
    """What a page is called in a report."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", TOP, ids=name)
def test_its_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
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
def test_its_images_can_be_heard(page: Path) -> None:
    """Each has a text that says what it shows."""
    poor = [one for one in links(page) if one.image and len(one.text.split()) < _FEWEST_WORDS]
    assert poor == []


def test_every_page_is_in_the_navigation() -> None:
    """Once, and nothing else is."""
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_redirects_lead_from_old_pages_to_existing_ones() -> None:
    """A page that was renamed has a redirect, and no page has the old name."""
    text = (ROOT / "mkdocs.yml").read_text()
    maps = dict(re.findall(r"^ +(\S+\.md): (\S+\.md)$", text, re.MULTILINE))
    assert maps["cluster.md"] == "high-availability.md"
    assert [old for old in maps if (DOCS / old).exists()] == []
    assert [new for new in maps.values() if not (DOCS / new).is_file()] == []


def test_every_page_is_led_to_from_another() -> None:
    """By a link in its text, beside the navigation."""
    known = {
        (page.parent / link.target.partition("#")[0]).resolve()
        for page in pages()
        for link in links(page)
        if not link.target.startswith(_ELSEWHERE)
    }
    assert [name(page) for page in DOCS.rglob("*.md") if page not in known] == []


def test_every_picture_is_shown() -> None:
    """Somewhere; a drawing names itself and says what it shows."""
    shown = {Path(link.target).name for page in pages() for link in links(page) if link.image}
    drawings = sorted((DOCS / "images").glob("*.svg"))
    assert [one.name for one in drawings if one.name not in shown] == []
    for one in drawings:
        text = one.read_text("utf-8")
        assert "<title" in text
        assert "<desc" in text
        assert "prefers-color-scheme: dark" in text
        assert re.findall(r"https?://(?!www\.w3\.org/)", text) == []

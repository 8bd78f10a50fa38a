"""The README is short, and its badges are true."""

import re
import tomllib
from urllib.parse import unquote

from tests.docs.pages import ROOT, links, text_of

README = ROOT / "README.md"
BADGE = "https://img.shields.io/badge/"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MOST_LINES = 72


def badges() -> dict[str, str]:
    """Return the text of each badge by its label; `--` is a dash, and `_` a space."""
    texts = [link.target.removeprefix(BADGE) for link in links(README) if BADGE in link.target]
    parts = [re.split(r"(?<!-)-(?!-)", unquote(text)) for text in texts]
    return {label: text.replace("--", "-").replace("_", " ") for label, text, _ in parts}


def test_it_is_short() -> None:
    """A reader sees all of it without searching."""
    assert len(text_of(README).splitlines()) <= MOST_LINES


def test_badges_are_true() -> None:
    """They are fixed texts: what they say is in pyproject.toml."""
    assert badges() == {"license": PROJECT["license"], "python": "3.11 or newer"}
    assert "Programming Language :: Python :: 3.11" in PROJECT["classifiers"]
    marked = PROJECT["optional-dependencies"]["server"]
    assert all("python_version >= '3.11'" in requirement for requirement in marked)

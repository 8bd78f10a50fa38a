"""The examples of every `--help`, as a user copies them."""

import re
from collections.abc import Iterator

from tests.docs.chapters.cli import helps

_SECTION = re.compile(
    r"^ *examples[^\n]*:\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_COMMENT = re.compile(r"(?: {3,}\(.*\)| {8,}\w.*)$")
"""Behind an example: a remark in brackets, or what it does, as in the help of the agent."""


def examples() -> dict[str, list[str]]:
    """Return the examples of each command, in order."""
    found = {words: list(_examples(text)) for words, text in helps().items()}
    return {words: lines for words, lines in found.items() if lines}


def _examples(text: str) -> Iterator[str]:
    section = _SECTION.search(text)
    if section:
        for line in section[1].replace("\\\n", "").splitlines():
            yield _COMMENT.sub("", line.strip())

"""The terminal detects differences; otherwise the tests of the pages prove nothing."""

from pathlib import Path

import pytest

from tests.docs.pages import Block
from tests.docs.terminal import Terminal
from tests.docs.test_blocks import PageRunner


def block(language: str, text: str, mark: str = "") -> Block:
    """Return a block of an existing page."""
    return Block(Path(__file__), 1, language, text, mark)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("echo one", "two"),
        ("echo one; echo two", "one"),
        ("echo one", "one\ntwo"),
        ("echo at 2026-11-15", "at 2026-11-16"),
        ("exit 1", ""),
        ("echo fine", "Error: fine"),
        ("echo one &", "two"),
    ],
)
def test_a_difference_fails(tmp_path: Path, typed: str, shown: str) -> None:
    """In the output, in the exit code, and in the output of a background program."""
    with Terminal(tmp_path) as terminal, pytest.raises(AssertionError):
        terminal.type(typed, shown)


@pytest.mark.parametrize(
    "wrong",
    [
        block("rust", "fn main() {}\n"),
        block("console", "no command\n"),
        block("toml", "[[machine]]\nnam = 'web'\n"),
        block("json", "{"),
        block("python", "raise SystemExit(1)\n"),
        block("sh", "false\ntrue\n"),
    ],
)
def test_a_wrong_block_fails(tmp_path: Path, wrong: Block) -> None:
    """Each language has a parser or an interpreter that detects errors."""
    with Terminal(tmp_path) as terminal, pytest.raises((Exception, pytest.fail.Exception)):
        PageRunner(terminal).run(wrong)

"""The terminal detects differences; otherwise the tests of the pages prove nothing."""

from pathlib import Path

import pytest

from tests.docs.pages import Block
from tests.docs.terminal import Terminal, commands
from tests.docs.test_blocks import PageRunner, is_run

ACTUAL = "45CBE3FE-23CF-8C6F-B955-6FFA836C086C"
SHOWN = "9E823CE1-4373-824C-9E9A-6DC2A19CA921"


def block(language: str, text: str, mark: str = "") -> Block:
    """Return a block of an existing page."""
    return Block(Path(__file__), 1, language, text, mark)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("echo one; echo two", "one\ntwo"),
        ("echo one; echo two; echo three", "one\n..."),
        ("echo it took 0.31 s", "it took 4.20 s"),
        ("echo at 2026-11-15T10:00:00Z", "at 2031-01-01T00:00:00Z"),
        ("echo 'much    space  '", "much space"),
        ("echo Error: no; exit 3", "Error: no"),
    ],
)
def test_equal_output_passes(tmp_path: Path, typed: str, shown: str) -> None:
    """Values that vary between runs, and layout, do not matter."""
    with Terminal(tmp_path) as terminal:
        terminal.type(typed, shown)


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


def test_ids_are_replaced_in_later_commands(tmp_path: Path) -> None:
    """A later command uses the id of this run, also where the page abbreviates it."""
    with Terminal(tmp_path) as terminal:
        terminal.type(f"echo event {ACTUAL}", f"event {SHOWN}")
        terminal.type("echo 9E82 web_0", "45CB web_0")


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


@pytest.mark.parametrize("mark", ["not run: no", "tested by tests/nothing.py", "todo"])
def test_a_mark_needs_a_reason(mark: str) -> None:
    """Or an existing test that refers to the page."""
    with pytest.raises((AssertionError, OSError)):
        is_run(block("sh", "true\n", mark))


def test_a_command_may_span_lines() -> None:
    """With a backslash, as in a shell."""
    assert list(commands("$ a \\\n    b\nsaid\n$ c\n")) == [("a \\\n    b", "said\n"), ("c", "")]

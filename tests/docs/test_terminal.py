"""The terminal sees a difference; or else what it says of the pages proves nothing."""

from pathlib import Path

import pytest

from tests.docs.pages import Block
from tests.docs.terminal import Terminal, commands
from tests.docs.test_blocks import Stage, is_run

ONE = "45CBE3FE-23CF-8C6F-B955-6FFA836C086C"
OTHER = "9E823CE1-4373-824C-9E9A-6DC2A19CA921"


def block(language: str, text: str, mark: str = "") -> Block:
    """On a page that is there."""
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
def test_the_same_is_the_same(tmp_path: Path, typed: str, shown: str) -> None:
    """Whatever differs from run to run, and however it is laid out."""
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
def test_a_difference_is_seen(tmp_path: Path, typed: str, shown: str) -> None:
    """In what is said, in how it ends, and in what goes on."""
    with Terminal(tmp_path) as terminal, pytest.raises(AssertionError):
        terminal.type(typed, shown)


def test_ids_are_learnt(tmp_path: Path) -> None:
    """A later command means the id of this run, also where the page has it shortened."""
    with Terminal(tmp_path) as terminal:
        terminal.type(f"echo event {ONE}", f"event {OTHER}")
        terminal.type("echo 9E82 web_0", "45CB web_0")


@pytest.mark.parametrize(
    "one",
    [
        block("rust", "fn main() {}\n"),
        block("console", "no command\n"),
        block("toml", "[[machine]]\nnam = 'web'\n"),
        block("json", "{"),
        block("python", "raise SystemExit(1)\n"),
        block("sh", "false\ntrue\n"),
    ],
)
def test_a_block_that_is_wrong_is_seen(tmp_path: Path, one: Block) -> None:
    """By whatever reads or runs it."""
    with Terminal(tmp_path) as terminal, pytest.raises((Exception, pytest.fail.Exception)):
        Stage(terminal).perform(one)


@pytest.mark.parametrize("mark", ["not run: no", "tested by tests/nothing.py", "todo"])
def test_a_mark_needs_a_reason(mark: str) -> None:
    """Or a test that is there, and knows the page."""
    with pytest.raises((AssertionError, OSError)):
        is_run(block("sh", "true\n", mark))


def test_a_command_may_go_on_in_the_next_line() -> None:
    """With a backslash, as in a shell."""
    assert list(commands("$ a \\\n    b\nsaid\n$ c\n")) == [("a \\\n    b", "said\n"), ("c", "")]

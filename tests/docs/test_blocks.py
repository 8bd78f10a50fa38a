"""Every code block of every page is executed, or is the output of a command that is.

A comment right before a block marks special cases:

    <!-- file: handler.py -->            write it to a file, for the commands below
    <!-- in another terminal -->         run its commands in the background
    <!-- tested by tests/x/test_y.py --> another test runs it
    <!-- not run: the reason -->         it cannot run here
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fairwarning.guest.agent import config
from fairwarning.service.config import fleet_file
from fairwarning.testing import scenarios
from tests.docs.pages import DOCS, GENERATED, ROOT, Block, blocks, pages
from tests.docs.terminal import Terminal, commands
from tests.fixtures.loopback import NETWORKS
from tests.fixtures.private_network import run_inside
from tests.fixtures.requirements import needs_curl, needs_linux, needs_namespaces

PAGES = [page for page in pages() if GENERATED not in page.parents and list(blocks(page))]
FIRST = (
    "README.md",
    "index.md",
    "first-event.md",
    "laptop.md",
    "pytest.md",
)
"""What a newcomer types first; `make test-all` runs the other pages."""
ELSEWHERE = ("not run: ", "tested by ")
_INSIDE = re.compile(r"^\$ fairwarning (exec|certify) ", re.MULTILINE)
_CURL = re.compile(r"^\$ (?:.* )?curl ", re.MULTILINE)
_LEAST_REASON = 10  # characters


def is_run(block: Block) -> bool:
    """Return whether this module runs the block; check the mark."""
    kind, _, reason = block.mark.partition(": ")
    if kind == "not run":
        assert len(reason) > _LEAST_REASON, f"{block}: say why it is not run"
        return False
    if block.mark.startswith("tested by "):
        test = ROOT / block.mark.removeprefix("tested by ")
        assert block.page.name in test.read_text("utf-8"), (
            f"{block}: {test} does not refer to the page"
        )
        return False
    known = ("", "in another terminal")
    assert block.mark in known or kind == "file", f"{block}: unknown mark {block.mark!r}"
    return True


def read_toml(text: str) -> None:
    """Parse a scenario, an agent configuration or a fleet file."""
    if "[[step]]" in text:
        scenarios.read(text)
    elif re.search(r"^\[\[hook\]\]|^\[approve\]|^\[group", text, re.MULTILINE):
        config.parse(text)
    else:
        fleet_file.read(text)


class PageRunner:
    """Runs the blocks of a page in one terminal, and collects its tests."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.folder = terminal.folder
        self.tests: list[str] = []

    def run(self, block: Block) -> None:
        """Run or parse a block, by its language."""
        if block.mark.startswith("file: "):
            (self.folder / block.mark.removeprefix("file: ")).write_text(block.text)
        if block.language == "console":
            assert block.text.startswith("$ "), "the block starts with output, not with a command"
            for typed, shown in commands(block.text):
                background = block.mark == "in another terminal"
                (self.terminal.begin if background else self.terminal.type)(typed, shown)
        elif block.language == "sh":
            self.terminal.type(f"set -e\n{block.text}", "")
        elif block.language == "python":
            self._python(block)
        elif block.language == "toml":
            read_toml(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "text":
            self.terminal.expect(block.text)
        elif not block.mark:
            pytest.fail(f"{block}: cannot run a block of {block.language or 'no language'}")

    def _python(self, block: Block) -> None:
        if block.mark:  # written to a file, which a command below runs
            return
        name = f"test_{block.line}.py"
        (self.folder / name).write_text(block.text)
        if "def test_" in block.text:
            self.tests.append(name)
        else:
            self.terminal.type(f"python3 {name}", "")


def run_page(page: Path, terminal: Terminal) -> None:
    """Run all blocks of a page in order, and its tests."""
    runner = PageRunner(terminal)
    for block in [block for block in blocks(page) if is_run(block)]:
        try:
            runner.run(block)
        except Exception as error:
            raise AssertionError(f"{block}: {error}") from error
    if runner.tests:
        terminal.type(f"pytest -q {' '.join(runner.tests)}", "")


def _case(page: Path) -> object:
    """Return a page as a parameter, with marks for what it needs."""
    typed = [block.text for block in blocks(page) if not block.mark.startswith(ELSEWHERE)]
    marks = [needs_namespaces] if any(map(_INSIDE.search, typed)) else []
    marks += [needs_curl] if any(map(_CURL.search, typed)) else []
    marks += [pytest.mark.campaign] if page.name not in FIRST else []
    return pytest.param(page, marks=marks, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", [_case(page) for page in PAGES])
def test_the_blocks_of_a_page(page: Path, tmp_path: Path) -> None:
    """All blocks run in order, in one directory, with the page's background programs."""
    with Terminal(tmp_path) as terminal:
        run_page(page, terminal)


ELSEWHERE_PAGES = ("first-event.md", "laptop.md")


def _as_on_linux(output: str) -> str:
    """Return output with the URLs that machines have where each has its own address."""
    return re.sub(
        r"http://(?:127\.0\.0\.1|\[::1\]):82(\d\d)\b",
        lambda match: f"http://127.1.0.{int(match[1]) + 1}:8169",
        output,
    )


@needs_linux
@needs_namespaces
@pytest.mark.campaign
@pytest.mark.spec("M22", "O12")
@pytest.mark.parametrize("page", ELSEWHERE_PAGES)
@pytest.mark.parametrize("limit_network", NETWORKS.values(), ids=NETWORKS)
def test_a_tutorial_on_another_network(
    page: str, limit_network: Callable[[], None], tmp_path: Path
) -> None:
    """The commands work as they are written, on the default ports; only the URLs differ."""

    def check() -> None:
        limit_network()
        with Terminal(tmp_path, free_ports=False, as_shown=_as_on_linux) as terminal:
            run_page(DOCS / page, terminal)

    run_inside(check)

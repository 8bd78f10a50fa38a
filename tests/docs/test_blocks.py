"""Every block of code on every page is run, or is what something that is run has said.

A comment right before a block says what is special about it:

    <!-- file: handler.py -->            it is put into a file, for the commands below it
    <!-- in another terminal -->         its commands go on while the others are run
    <!-- tested by tests/x/test_y.py --> that test runs it
    <!-- not run: the reason -->         it cannot be run here
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from fairwarning.guest.agent import config
from fairwarning.service.config import fleet_file
from fairwarning.testing import scenarios
from tests.docs.pages import GENERATED, ROOT, Block, blocks, pages
from tests.docs.terminal import Terminal, commands
from tests.fixtures.requirements import needs_namespaces

PAGES = [page for page in pages() if GENERATED not in page.parents and list(blocks(page))]
ELSEWHERE = ("not run: ", "tested by ")
_INSIDE = re.compile(r"^\$ fairwarning (exec|certify) ", re.MULTILINE)
_CURL = re.compile(r"^\$ (?:.* )?curl ", re.MULTILINE)
needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None, reason="the page shows curl, and curl is not installed"
)
_LEAST_REASON = 10  # characters; a mark without a reason is none


def is_run(block: Block) -> bool:
    """Whether it is for us to run; a mark that says otherwise has to be sound."""
    kind, _, what = block.mark.partition(": ")
    if kind == "not run":
        assert len(what) > _LEAST_REASON, f"{block}: say why it is not run"
        return False
    if block.mark.startswith("tested by "):
        test = ROOT / block.mark.removeprefix("tested by ")
        assert block.page.name in test.read_text("utf-8"), f"{block}: {test} knows nothing of it"
        return False
    known = ("", "in another terminal")
    assert block.mark in known or kind == "file", f"{block}: no mark is called {block.mark!r}"
    return True


def read_toml(text: str) -> None:
    """By the reader that it is for."""
    if "[[step]]" in text:
        scenarios.read(text)
    elif re.search(r"^\[\[hook\]\]|^\[approve\]|^\[group", text, re.MULTILINE):
        config.parse(text)
    else:
        fleet_file.read(text)


class Stage:
    """A page's terminal, and the tests that stand on the page."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.folder = terminal.folder
        self.tests: list[str] = []

    def perform(self, block: Block) -> None:
        """Do what the block is for."""
        if block.mark.startswith("file: "):
            (self.folder / block.mark.removeprefix("file: ")).write_text(block.text)
        if block.language == "console":
            assert block.text.startswith("$ "), "it shows what no command said"
            for typed, shown in commands(block.text):
                begin = block.mark == "in another terminal"
                (self.terminal.begin if begin else self.terminal.type)(typed, shown)
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
            pytest.fail(f"{block}: nothing runs a block of {block.language or 'no language'}")

    def _python(self, block: Block) -> None:
        if block.mark:  # it is in its file, and a command below runs it
            return
        name = f"test_{block.line}.py"
        (self.folder / name).write_text(block.text)
        if "def test_" in block.text:
            self.tests.append(name)
        else:
            self.terminal.type(f"python3 {name}", "")

    def run_tests(self) -> None:
        """All that stand on the page, as they stand there."""
        if not self.tests:
            return
        self.terminal.type(f"pytest -q {' '.join(self.tests)}", "")


def _case(page: Path) -> object:
    """A page; some need more of the system than others."""
    typed = [block.text for block in blocks(page) if not block.mark.startswith(ELSEWHERE)]
    marks = [needs_namespaces] if any(map(_INSIDE.search, typed)) else []
    marks += [needs_curl] if any(map(_CURL.search, typed)) else []
    return pytest.param(page, marks=marks, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", [_case(page) for page in PAGES])
def test_the_blocks_of_a_page(page: Path, tmp_path: Path) -> None:
    """In their order, in one folder, with what the page has started."""
    mine = [block for block in blocks(page) if is_run(block)]
    with Terminal(tmp_path) as terminal:
        stage = Stage(terminal)
        for block in mine:
            try:
                stage.perform(block)
            except Exception as error:
                raise AssertionError(f"{block}: {error}") from error
        stage.run_tests()

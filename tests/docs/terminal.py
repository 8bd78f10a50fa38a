"""A terminal in which a page's commands are typed, and what they say is compared with the page.

The commands are run as they stand, in a folder of their own. Only ports are others: a service of a
page gets free ones, and the usual ones stand for them in commands and in what they say.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.fixtures.programs import BackgroundProgram, run_program
from tests.fixtures.waiting import wait_until

_USUAL = {"metadata": "8169", "console": "8170", "arm": "8171"}

# What differs from run to run, in pages as in what is said.
_VARIES = re.compile(
    r"(?P<guid>\b[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\b)"
    r"|(?P<id>\b[0-9a-f]{32}\b)"
    r"|(?P<short>\b[0-9A-F]{8}\b)"
    r"|(?P<day>\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)"
    r"|(?P<date>\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?)"
    r"|(?P<time>\b\d\d:\d\d:\d\dZ)"
    r"|(?P<took>\b\d+\.\d+ ?s\b)"
    r"|(?P<any>\.\.\.)"
)
_PATTERNS = {
    "guid": r"([0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12})",
    "id": r"([0-9a-f]{32})",
    "short": r"([0-9A-F]{8})",
    "day": r"([A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)",
    "date": r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?)",
    "time": r"(\d\d:\d\d:\d\dZ)",
    "took": r"(\d+\.\d+ ?s)",
    "any": "(.*)",
}
_NAMES = ("guid", "id")  # what later commands call things by


def commands(text: str) -> Iterator[tuple[str, str]]:
    """What is typed in a console block, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        typed = [lines.pop(0)]
        while typed[-1].endswith("\\"):
            typed.append(lines.pop(0))
        yield "\n".join(typed), "\n".join(lines)


def _plain(text: str) -> str:
    """Without what only lays it out."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def _pattern(shown: str) -> tuple[re.Pattern[str], list[tuple[str, str]]]:
    """What says the same as the page, and what its groups stand for there."""
    pieces, groups = [], []
    for line in _plain(shown).splitlines():
        if line == "...":
            pieces.append(r"(?:.*\n)*?")
            continue
        end = 0
        for found in _VARIES.finditer(line):
            pieces += [re.escape(line[end : found.start()]), _PATTERNS[str(found.lastgroup)]]
            groups.append((str(found.lastgroup), found[0]))
            end = found.end()
        pieces.append(re.escape(line[end:]) + r"\n")
    return re.compile("".join(pieces)), groups


class Terminal:
    """A folder, what runs there, and what the page's ids are called in this run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: dict[str, str] = {}  # as the page has them -> as they are
        self._ports: dict[str, str] = {}
        self._running: list[BackgroundProgram] = []
        self._said = ""
        self._bin = folder / ".bin"
        self._bin.mkdir()
        self._write_programs()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._running):
            program.end()

    # --- What a page has us do ------------------------------------------------------------------

    def type(self, typed: str, shown: str) -> None:
        """Run a command to its end, or until it has said what is shown if it goes on after that."""
        if typed.startswith("fairwarning up") or typed.endswith(" &"):
            self.begin(typed.removesuffix(" &"), shown)
            return
        done = self.run(typed)
        self._said = self._usual(done.stdout)
        wrong = shown.startswith("Error") != bool(done.returncode)
        assert not wrong, f"$ {typed}\nexit code {done.returncode}\n{self._said}"
        pattern, groups = _pattern(shown)
        if shown.strip():
            found = pattern.fullmatch(_plain(self._said))
            self._compare(found, groups, typed, shown)

    def run(self, typed: str) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return run_program(
            "bash",
            "-c",
            self._own(typed),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    def begin(self, typed: str, shown: str) -> None:
        """Start what goes on, as in another terminal, and wait until it says what is shown."""
        script = f"exec {self._own(typed)}" if "=" not in typed else self._own(typed)
        env = self._environment()
        program = BackgroundProgram("bash", "-c", script, folder=self.folder, env=env)
        self._running.append(program)
        if typed.startswith("fairwarning up") and not shown.startswith("Error"):
            self._learn_ports(typed, program)
        self.expect(shown)

    def expect(self, shown: str) -> None:
        """Wait until what was started last has said this; or what has ended did say it."""
        pattern, groups = _pattern(shown)
        if not shown.strip():
            return
        if self._running:
            program = self._running[-1]

            def is_decided() -> bool:
                ended = program.has_ended  # before the look, so that its last words are in it
                self._said = self._usual(program.output)
                return ended or pattern.search(_plain(self._said)) is not None

            with suppress(AssertionError):  # the comparison says more
                wait_until(is_decided)
        found = pattern.search(_plain(self._said))
        self._compare(found, groups, "(what runs)", shown)

    # --- How ------------------------------------------------------------------------------------

    def _compare(
        self, found: re.Match[str] | None, groups: list[tuple[str, str]], typed: str, shown: str
    ) -> None:
        assert found, f"$ {typed}\n--- the page shows\n{shown}\n--- but it says\n{self._said}"
        for (kind, there), here in zip(groups, found.groups(), strict=True):
            if kind in _NAMES:
                self._names[there] = here

    def _own(self, typed: str) -> str:
        """The command with this run's ids and ports."""
        for usual, port in self._ports.items():
            typed = re.sub(rf":{usual}\b", f":{port}", typed)

        def name(found: re.Match[str]) -> str:
            for there, here in self._names.items():
                if there.startswith(found[0]):
                    return here[: len(found[0])]
            return found[0]

        return re.sub(r"(?<![\w/.-])[0-9A-Fa-f]{4}[0-9A-Fa-f-]*(?![\w/.])", name, typed)

    def _usual(self, said: str) -> str:
        """What was said, with the usual ports."""
        for usual, port in self._ports.items():
            said = re.sub(rf":{port}\b", f":{usual}", said)
        return said

    def _learn_ports(self, typed: str, program: BackgroundProgram) -> None:
        words = shlex.split(typed)
        data = words[words.index("--data") + 1] if "--data" in words else ".fairwarning"
        ready = self.folder / data / "up.json"
        wait_until(lambda: ready.exists() or program.has_ended, lambda: program.output)
        assert ready.exists(), program.output
        where = json.loads(ready.read_text())
        self._ports = {usual: where[key].rpartition(":")[2] for key, usual in _USUAL.items()}

    def _environment(self) -> Mapping[str, str]:
        bins = [str(self._bin), str(Path(sys.executable).parent), os.environ["PATH"]]
        ours = {
            "PATH": os.pathsep.join(bins),
            "HOME": str(self.folder),
            "NO_COLOR": "1",
            "COLUMNS": "80",
        }
        not_ours = re.compile("PYTEST_.*|.*_proxy", re.IGNORECASE)  # no proxy leads to a machine
        kept = {key: one for key, one in os.environ.items() if not not_ours.fullmatch(key)}
        # A reader's pytest has our plugin, and none of the others that are installed here.
        pytest = {"DISABLE_PLUGIN_AUTOLOAD": "1", "ADDOPTS": "-p fairwarning.pytest_plugin"}
        return {**kept, **ours, **{f"PYTEST_{key}": one for key, one in pytest.items()}}

    def _write_programs(self) -> None:
        """The program under its name; what it runs gets free ports."""
        program = f"exec {shlex.quote(sys.executable)} -m fairwarning"
        free = " ".join(f"--{key} 127.0.0.1:0" for key in _USUAL)
        text = f'#!/bin/sh\n[ "$1" = up ] && {program} "$@" {free}\n{program} "$@"\n'
        path = self._bin / "fairwarning"
        path.write_text(text)
        path.chmod(0o755)

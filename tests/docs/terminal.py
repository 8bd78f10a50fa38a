"""Run the commands of a page and compare their output with the page.

The commands run unchanged, in a directory of their own, except for ports: a service gets free
ports, and the terminal translates the default ports in commands and output.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.cli.terminal import run_on_terminal
from tests.fixtures.programs import BackgroundProgram, run_program
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

_DEFAULT_PORTS = {"metadata": "8169", "console": "8170", "arm": "8171"}

# Values that vary between runs.
_VARIES = re.compile(
    r"(?P<guid>\b[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\b)"
    r"|(?P<id>\b[0-9a-f]{32}\b)"
    r"|(?P<token>\b[0-9a-f]{16}\b)"
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
    "token": r"([0-9a-f]{16})",
    "short": r"([0-9A-F]{8})",
    "day": r"([A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)",
    "date": r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?)",
    "time": r"((?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\dZ)",  # the date too, across midnight
    "took": r"(\d+\.\d+ ?s)",
    "any": "(.*)",
}
_NAMES = ("guid", "id", "token")  # ids that later commands may use


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        typed = [lines.pop(0)]
        while typed[-1].endswith("\\"):
            typed.append(lines.pop(0))
        yield "\n".join(typed), "\n".join(lines)


def _plain(text: str) -> str:
    """Return the text without differences in white space."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def _pattern(shown: str) -> tuple[re.Pattern[str], list[tuple[str, str]]]:
    """Return a pattern for the shown output, and the kind and shown text of each group."""
    pieces, groups = [], []
    for line in _plain(shown).splitlines():
        if line == "...":
            pieces.append(r"(?:.*\n)*?")
            continue
        end = 0
        for match in _VARIES.finditer(line):
            pieces += [re.escape(line[end : match.start()]), _PATTERNS[str(match.lastgroup)]]
            groups.append((str(match.lastgroup), match[0]))
            end = match.end()
        pieces.append(re.escape(line[end:]) + r"\n")
    return re.compile("".join(pieces)), groups


class Terminal:
    """A directory, its background programs, and the ids of this run."""

    def __init__(
        self,
        folder: Path,
        *,
        free_ports: bool = True,
        as_shown: Callable[[str], str] = lambda output: output,
    ) -> None:
        """`as_shown` gives output the form that it has on the page, before they are compared."""
        self.folder = folder
        self._as_shown = as_shown
        self._ids: dict[str, str] = {}  # as the page shows them -> in this run
        self._ports: dict[str, str] = {}
        self._running: list[BackgroundProgram] = []
        self._output = ""
        self._bin = folder / ".bin"
        self._bin.mkdir()
        self._write_programs(free_ports=free_ports)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._running):
            program.end()

    # --- Commands -------------------------------------------------------------------------------

    def type(self, typed: str, shown: str) -> None:
        """Run a command and compare its output; start a service or a background command."""
        if typed.startswith("fairwarning up") or typed.endswith(" &"):
            self.begin(typed.removesuffix(" &"), shown)
            return
        done = self.run(typed)
        self._output = self._with_default_ports(done.stdout)
        wrong = shown.startswith("Error") != bool(done.returncode)
        assert not wrong, f"$ {typed}\nexit code {done.returncode}\n{self._output}"
        pattern, groups = _pattern(shown)
        if shown.strip():
            match = pattern.fullmatch(_plain(self._output))
            self._compare(match, groups, typed, shown)

    def run(self, typed: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return run_program(
            "bash",
            "-c",
            self._translate(typed),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    def answer(self, typed: str, answers: str) -> tuple[int, str]:
        """Run a command on a real terminal where a user types answers; return code and output."""
        command = ["bash", "-c", self._translate(typed)]
        return run_on_terminal(command, answers, cwd=self.folder, env=self._environment())

    def interrupt(self) -> int:
        """Press Ctrl-C once the last background program has printed something."""
        program = self._running.pop()
        wait_until(lambda: bool(program.output) or program.has_ended, lambda: "no output")
        self._output = program.output
        with suppress(ProcessLookupError):
            os.killpg(program.process.pid, signal.SIGINT)
        return program.process.wait(LIMIT_SECONDS)

    def begin(self, typed: str, shown: str) -> None:
        """Start a background command and wait for the shown output."""
        script = f"exec {self._translate(typed)}" if "=" not in typed else self._translate(typed)
        env = self._environment()
        program = BackgroundProgram("bash", "-c", script, folder=self.folder, env=env)
        self._running.append(program)
        if typed.startswith("fairwarning up") and not shown.startswith("Error"):
            self._learn_ports(typed, program)
        self.expect(shown)

    def expect(self, shown: str) -> None:
        """Wait for the shown output of the last background program or finished command."""
        pattern, groups = _pattern(shown)
        if not shown.strip():
            return
        if self._running:
            program = self._running[-1]

            def is_decided() -> bool:
                ended = program.has_ended  # read this first, so that the output is complete
                self._output = self._with_default_ports(program.output)
                return ended or pattern.search(_plain(self._output)) is not None

            with suppress(AssertionError):  # the comparison below has a better message
                wait_until(is_decided)
        match = pattern.search(_plain(self._output))
        self._compare(match, groups, "(background program)", shown)

    # --- Internals ------------------------------------------------------------------------------

    def _compare(
        self, match: re.Match[str] | None, groups: list[tuple[str, str]], typed: str, shown: str
    ) -> None:
        assert match, f"$ {typed}\n--- the page shows\n{shown}\n--- the output is\n{self._output}"
        for (kind, on_page), actual in zip(groups, match.groups(), strict=True):
            if kind in _NAMES:
                self._ids[on_page] = actual

    def _translate(self, typed: str) -> str:
        """Return the command with the ids and ports of this run."""
        for default, port in self._ports.items():
            typed = re.sub(rf":{default}\b", f":{port}", typed)

        def replace(match: re.Match[str]) -> str:
            for on_page, actual in self._ids.items():
                if on_page.startswith(match[0]):
                    return actual[: len(match[0])]
            return match[0]

        return re.sub(r"(?<![\w/.-])[0-9A-Fa-f]{4}[0-9A-Fa-f-]*(?![\w/.])", replace, typed)

    def _with_default_ports(self, output: str) -> str:
        """Return the output with the default ports."""
        for default, port in self._ports.items():
            output = re.sub(rf":{port}\b", f":{default}", output)
        return self._as_shown(output)

    def _learn_ports(self, typed: str, program: BackgroundProgram) -> None:
        words = shlex.split(typed)
        data = words[words.index("--data") + 1] if "--data" in words else ".fairwarning"
        ready = self.folder / data / "up.json"
        wait_until(lambda: ready.exists() or program.has_ended, lambda: program.output)
        assert ready.exists(), program.output
        addresses = json.loads(ready.read_text())
        self._ports = {
            default: addresses[key].rpartition(":")[2] for key, default in _DEFAULT_PORTS.items()
        }

    def _environment(self) -> Mapping[str, str]:
        bins = [str(self._bin), str(Path(sys.executable).parent), os.environ["PATH"]]
        own = {
            "PATH": os.pathsep.join(bins),
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }
        dropped = re.compile("PYTEST_.*|.*_proxy", re.IGNORECASE)  # no proxy can reach a machine
        kept = {key: text for key, text in os.environ.items() if not dropped.fullmatch(key)}
        # Load only our pytest plugin, as for a reader of the page.
        pytest = {"DISABLE_PLUGIN_AUTOLOAD": "1", "ADDOPTS": "-p fairwarning.pytest_plugin"}
        return {**kept, **own, **{f"PYTEST_{key}": text for key, text in pytest.items()}}

    def _write_programs(self, *, free_ports: bool) -> None:
        """Write a `fairwarning` command that may pass free ports to `up`."""
        program = f"exec {shlex.quote(sys.executable)} -m fairwarning"
        ports = _DEFAULT_PORTS if free_ports else ()
        free = " ".join(f"--{key} 127.0.0.1:0" for key in ports)
        text = f'#!/bin/sh\n[ "$1" = up ] && {program} "$@" {free}\n{program} "$@"\n'
        path = self._bin / "fairwarning"
        path.write_text(text)
        path.chmod(0o755)

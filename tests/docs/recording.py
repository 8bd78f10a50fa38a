"""Record the terminal session of the README: `python -m tests.docs.recording --write`.

The commands run on a real terminal, against a real service with a virtual clock. What they print is
kept (docs/images/session.json), and drawn as an SVG: no script, no font, nothing from elsewhere.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from tests.cli.terminal import run_on_terminal
from tests.docs.pages import DOCS
from tests.docs.terminal import Terminal

RECORDING = DOCS / "images" / "session.json"
PICTURE = DOCS / "images" / "session.svg"
REGENERATE = "run: python -m tests.docs.recording --write"

SERVICE = "fairwarning up --sample --clock virtual"
"""What runs in another terminal."""

POLL = (
    "curl -sH Metadata:true http://127.1.0.1:8169/metadata/scheduledevents?api-version=2020-07-01"
)
COMMANDS = (
    POLL,
    "fairwarning machine restart web_0",
    POLL,
    "fairwarning clock advance 16m",
    "fairwarning machine explain web_0",
)
ROWS, COLUMNS = 25, 96

Session = Sequence[tuple[str, str]]
"""Each command, and what the terminal then showed."""


class RecordingTerminal(Terminal):
    """Runs commands on a terminal of a fixed size, and keeps what it shows."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.recorded: list[tuple[str, str]] = []

    def run(self, typed: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as if a person had typed it."""
        env = {**self._environment(), "TERM": "xterm-256color"}
        for name in ("COLUMNS", "NO_COLOR"):
            del env[name]
        command = ("bash", "-c", self._translate(typed))
        code, shown = run_on_terminal(command, cwd=self.folder, env=env, size=(ROWS, COLUMNS))
        output = self._with_default_ports(shown)
        self.recorded.append((typed, output))
        return subprocess.CompletedProcess(command, code, output)


def record(folder: Path) -> Session:
    """Run the session in an empty folder."""
    with RecordingTerminal(folder) as terminal:
        terminal.begin(SERVICE, "")
        for command in COMMANDS:
            terminal.type(command, "")
        return terminal.recorded


def read() -> Session:
    """Return what was recorded."""
    return [(typed, output) for typed, output in json.loads(RECORDING.read_text("utf-8"))]


# --- The picture ----------------------------------------------------------------------------------

CHARACTER = 8.0  # the width of a column; texts are stretched to it, whatever the font
LINE = 18
MARGIN = 16
TOP = 34 + MARGIN + 13.3  # the title bar, and the height of a character

_SGR = re.compile(r"\x1b\[([\d;]*)m")
_CLASSES = {"1": "b", "2": "dim", "31": "red", "32": "green", "33": "amber", "36": "cyan"}
_RESETS = ("", "0")
TEMPLATE = Template(Path(__file__).with_suffix(".svg.template").read_text("utf-8"))


class Span(NamedTuple):
    """A piece of a line in one style."""

    text: str
    style: str


def spans(text: str) -> Iterator[Span]:
    """Split the output of a program by its colours; any other control sequence is an error."""
    style, end = "", 0
    for match in _SGR.finditer(text):
        yield Span(text[end : match.start()], style)
        codes = match[1].split(";")
        style = "" if match[1] in _RESETS else " ".join(_CLASSES[code] for code in codes)
        end = match.end()
    yield Span(text[end:], style)


def lines(text: str) -> list[list[Span]]:
    """Break output into the lines that a terminal shows."""
    rows: list[list[Span]] = [[]]
    for span in spans(text.replace("\r\n", "\n").removesuffix("\n")):
        for number, rest in enumerate(span.text.split("\n")):
            if number:
                rows.append([])
            while rest:
                room = COLUMNS - sum(len(shown.text) for shown in rows[-1])
                part, rest = rest[:room], rest[room:]  # noqa: PLW2901  (what does not fit)
                assert part.isprintable(), f"cannot draw {part!r}"
                rows[-1].append(Span(part, span.style))
                if rest:
                    rows.append([])
    return rows


def picture(session: Session) -> str:
    """Return the drawing of the session."""
    rows = [
        row
        for typed, output in session
        for row in ([Span("$ ", "prompt"), Span(typed, "")], *lines(output))
    ]
    assert len(rows) <= ROWS, f"the session has {len(rows)} lines, and its terminal {ROWS}"
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, 34 + 2 * MARGIN + ROWS * LINE
    return TEMPLATE.substitute(
        size=f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"',
        heading=f"in another terminal: {escape(SERVICE)}",
        described=escape("; ".join(typed for typed, _ in session)),
        inner=f'x="1" y="1" width="{width - 2:g}"',
        inner_height=f"{height - 2:g}",
        dots="".join(f'<circle class="dot" cx="{x}" cy="17" r="5.5"/>' for x in (20, 38, 56)),
        middle=f"{width / 2:g}",
        body="\n  ".join(_drawn(number, row) for number, row in enumerate(rows) if row),
    )


def _drawn(number: int, row: list[Span]) -> str:
    length = sum(len(span.text) for span in row) * CHARACTER
    place = f'x="{MARGIN}" y="{TOP + number * LINE:g}" textLength="{length:g}"'
    inside = "".join(
        f'<tspan class="{style}">{escape(text, quote=False)}</tspan>' for text, style in row
    )
    return f'<text class="t" xml:space="preserve" {place}>{inside}</text>'


def write() -> None:
    """Record the session again, and write both files."""
    with tempfile.TemporaryDirectory() as folder:
        session = record(Path(folder))
    RECORDING.write_text(json.dumps(session, indent=1) + "\n", "utf-8")
    PICTURE.write_text(picture(session), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(REGENERATE)
    write()

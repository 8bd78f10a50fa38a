"""Record the terminal session of the README: `python -m tests.docs.recording --write`.

The commands run on a real terminal, against a real service with a virtual clock. The recording is
kept as an asciicast (docs/images/session.cast), and drawn from it by tests/docs/session_picture.py.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cli.terminal import run_on_terminal
from tests.docs import session_picture
from tests.docs.pages import DOCS
from tests.docs.terminal import Terminal

CAST = DOCS / "images" / "session.cast"
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
PROMPT = "$ "


@dataclass(frozen=True)
class RecordedCommand:
    """A command, what the terminal then showed, and how long it took."""

    typed: str
    output: str
    seconds: float


class RecordingTerminal(Terminal):
    """Runs commands on a terminal of a fixed size, and keeps what it shows."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.recorded: list[RecordedCommand] = []

    def run(self, typed: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as if a person had typed it."""
        env = {**self._environment(), "TERM": "xterm-256color"}
        for name in ("COLUMNS", "NO_COLOR"):
            del env[name]
        command = ("bash", "-c", self._translate(typed))
        began = time.monotonic()
        code, shown = run_on_terminal(command, cwd=self.folder, env=env, size=(ROWS, COLUMNS))
        seconds = time.monotonic() - began
        output = self._with_default_ports(shown.replace("\n", "\r\n"))
        self.recorded.append(RecordedCommand(typed, output, seconds))
        return subprocess.CompletedProcess(command, code, output)


def record(folder: Path) -> list[RecordedCommand]:
    """Run the session in an empty folder."""
    with RecordingTerminal(folder) as terminal:
        terminal.begin(SERVICE, "")
        for command in COMMANDS:
            terminal.type(command, "")
        return terminal.recorded


# --- The asciicast --------------------------------------------------------------------------------


def to_cast(recorded: list[RecordedCommand]) -> str:
    """Return the session as an asciicast, version 2, with each command as an event of input."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": SERVICE}
    lines: list[object] = [header]
    now = 0.0
    for command in recorded:
        lines.append([round(now, 2), "i", command.typed])
        now += command.seconds
        lines.append([round(now, 2), "o", command.output])
    return "".join(json.dumps(line) + "\n" for line in lines)


def read_cast(text: str) -> list[RecordedCommand]:
    """Return the commands of an asciicast."""
    _, *events = (json.loads(line) for line in text.splitlines())
    pairs = zip(events[::2], events[1::2], strict=True)
    return [
        RecordedCommand(typed, output, round(end - start, 2))
        for (start, _, typed), (end, _, output) in pairs
    ]


def picture(recorded: list[RecordedCommand]) -> str:
    """Return the animated drawing of the session."""
    steps = [(PROMPT, command.typed, command.output, command.seconds) for command in recorded]
    return session_picture.draw(steps, title=SERVICE, columns=COLUMNS, rows=ROWS)


def write() -> None:
    """Record the session again, and write both files."""
    with tempfile.TemporaryDirectory() as folder:
        CAST.write_text(to_cast(record(Path(folder))), "utf-8")
    PICTURE.write_text(picture(read_cast(CAST.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(REGENERATE)
    write()

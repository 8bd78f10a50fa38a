"""The output on a real terminal of 80 columns, run and read with tmux."""

import os
from tempfile import TemporaryDirectory
from typing import Self

from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_tmux
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import OUTER_LIMIT_SECONDS, wait_until

pytestmark = needs_tmux

COLUMNS, LINES = 80, 50


class Terminal:
    """A terminal in which one command runs."""

    def __init__(self, *words: str, before: str = "") -> None:
        self._folder = TemporaryDirectory(prefix="fw")  # short, because socket paths are limited
        self._tmux = ["tmux", "-S", f"{self._folder.name}/tmux", "-f", os.devnull]
        command = " ".join(f"'{word}'" for word in (*PROGRAM, *words))
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        ended = f"{before} {command}; echo code $?; exec sleep {OUTER_LIMIT_SECONDS:g}"
        self._run("new-session", "-d", *size, ended)

    def _run(self, *words: str) -> str:
        env = {key: value for key, value in os.environ.items() if key not in {"TMUX", "NO_COLOR"}}
        return run_program(*self._tmux, *words, env=env, check=True).stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server")
        self._folder.cleanup()

    def press(self, key: str) -> None:
        """Press a key."""
        self._run("send-keys", key)

    def wait_for(self, *words: str) -> str:
        """Wait until the screen has all these words; return its text."""

        def complete() -> str:
            screen = self._run("capture-pane", "-p")
            return screen if all(word in screen for word in words) else ""

        return wait_until(complete, lambda: self._run("capture-pane", "-p"))

    def colours(self) -> str:
        """Return the screen with its escape sequences."""
        return self._run("capture-pane", "-p", "-e")


def lines_of(screen: str) -> list[str]:
    """Return the lines that are not empty."""
    return [line.rstrip() for line in screen.splitlines() if line.strip()]


def test_watch_in_colour(service: ServiceProcess) -> None:
    """Each change is a line with full ids; long text is folded within its column."""
    service.poll("web_0")
    with Terminal("event", "watch", "--data", str(service.data)) as terminal:
        terminal.wait_for("Watching for changes")
        event = service.json("machine", "restart", "web_0")[0]["events"][0]["id"]
        lines = lines_of(terminal.wait_for("Scheduled", event))
        assert any(line.endswith(event) for line in lines)
        assert "\x1b[33mScheduled" in terminal.colours()
        terminal.press("C-c")
        terminal.wait_for("code 0")


def test_the_progress_bar_of_a_rollout(service: ServiceProcess) -> None:
    """There is one bar from start to end, with the pending events below it."""
    service.poll("db_0")
    words = ["rollout", "start", "db", "--kind", "reboot", "--wait", "--data", str(service.data)]
    with Terminal(*words) as terminal:
        lines = lines_of(terminal.wait_for("0 of 2 done", "not before", "clock is stopped"))
        assert sum("━" in line for line in lines) == 1
        service.run("clock", "advance", "20m")
        terminal.wait_for("1 of 2 done")
        service.run("clock", "advance", "20m")
        lines = lines_of(terminal.wait_for("Done: 2 of 2 done", "code 0"))
        assert sum("━" in line for line in lines) == 1
        assert "not before" not in "\n".join(lines)


def test_the_remaining_time_counts_down(service: ServiceProcess) -> None:
    """The display refreshes while the service's clock runs."""
    service.poll("db_0")
    words = ["machine", "restart", "db_0", "--wait", "--data", str(service.data)]
    with Terminal(*words) as terminal:
        terminal.wait_for("(in 15 min)")
        service.run("clock", "run", "60")
        terminal.wait_for("(in 14 min")
        service.advance(15 * 60)
        terminal.wait_for("1 of 1 done", "code 0")


def test_a_terminal_that_cannot_redraw(service: ServiceProcess) -> None:
    """A watched list appears at once, one version below the other."""
    words = ("machine", "list", "--watch", "--data", str(service.data))
    with Terminal(*words, before="TERM=dumb") as terminal:
        terminal.wait_for("web_0", "FrontEnd_IN_0")
        terminal.press("C-c")
        terminal.wait_for("code 0")


def test_no_color(service: ServiceProcess) -> None:
    """NO_COLOR disables colour on a terminal."""
    service.poll("db_0")
    service.run("machine", "restart", "db_0")
    words = ("machine", "list", "--data", str(service.data))
    for before, coloured in (("", True), ("NO_COLOR=1", False)):
        with Terminal(*words, before=before) as terminal:
            terminal.wait_for("Reboot not before", "code 0")
            assert ("\x1b[33mReboot" in terminal.colours()) is coloured

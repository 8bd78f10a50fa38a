"""What people see on a real terminal of 80 columns: tmux types, and reads its screen."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_tmux
from tests.fixtures.service import FREE, PROGRAM, ServiceProcess
from tests.fixtures.waiting import OUTER_LIMIT_SECONDS, wait_until

pytestmark = needs_tmux

COLUMNS, LINES = 80, 50


class Terminal:
    """A terminal in which one command runs."""

    def __init__(self, *words: str, before: str = "") -> None:
        self._folder = TemporaryDirectory(prefix="fw")  # a socket's path has to be short
        self._tmux = ["tmux", "-S", f"{self._folder.name}/tmux", "-f", os.devnull]
        command = " ".join(f"'{word}'" for word in (*PROGRAM, *words))
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        ended = f"{before} {command}; echo code $?; exec sleep {OUTER_LIMIT_SECONDS:g}"
        self._run("new-session", "-d", *size, ended)

    def _run(self, *words: str) -> str:
        asked = {key: value for key, value in os.environ.items() if key not in {"TMUX", "NO_COLOR"}}
        return run_program(*self._tmux, *words, env=asked, check=True).stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server")
        self._folder.cleanup()

    def press(self, key: str) -> None:
        """A key."""
        self._run("send-keys", key)

    def wait_for(self, *words: str) -> str:
        """The screen once it has all these words."""

        def complete() -> str:
            screen = self._run("capture-pane", "-p")
            return screen if all(word in screen for word in words) else ""

        return wait_until(complete, lambda: self._run("capture-pane", "-p"))

    def colours(self) -> str:
        """The same with its escapes."""
        return self._run("capture-pane", "-p", "-e")


def lines_of(screen: str) -> list[str]:
    """What stands there; a line that was too long for the terminal would have become two."""
    lines = [line.rstrip() for line in screen.splitlines()]
    assert max(map(len, lines)) <= COLUMNS
    return [line for line in lines if line]


def test_up_is_read_at_a_glance(tmp_path: Path) -> None:
    """Every machine, what to try, and how to stop it."""
    words = ["up", "--demo", "--memory", "--data", str(tmp_path / "d")]
    words += ["--metadata", FREE, "--console", FREE, "--arm", FREE]
    with Terminal(*words) as terminal:
        lines = lines_of(terminal.wait_for("Ctrl-C"))
        assert lines[0].startswith("Fairwarning is up")
        assert any("web_0" in line for line in lines)
        terminal.press("C-c")
        terminal.wait_for("Stopped.", "code 0")


def test_what_happens_is_followed_in_colour(tmp_path: Path) -> None:
    """A line each, ids whole, what does not fit below in its column."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as it:
        it.poll("web_0")
        with Terminal("event", "watch", "--data", str(it.data)) as terminal:
            terminal.wait_for("Following what happens")
            event = it.json("machine", "restart", "web_0")[0]["events"][0]["id"]
            lines = lines_of(terminal.wait_for("Scheduled", event))
            assert any(line.endswith(event) for line in lines)
            assert "\x1b[33mScheduled" in terminal.colours()
            terminal.press("C-c")
            terminal.wait_for("code 0")


def test_a_rollout_moves_its_bar_in_place(tmp_path: Path) -> None:
    """One bar from beginning to end, with what is pending while it is."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as it:
        it.poll("db_0")
        words = ["rollout", "start", "db", "--kind", "reboot", "--wait", "--data", str(it.data)]
        with Terminal(*words) as terminal:
            lines = lines_of(terminal.wait_for("0 of 2 done", "not before", "Time stands still"))
            assert sum("━" in line for line in lines) == 1
            it.run("clock", "advance", "20m")
            terminal.wait_for("1 of 2 done")
            it.run("clock", "advance", "20m")
            lines = lines_of(terminal.wait_for("Done: 2 of 2 done", "code 0"))
            assert sum("━" in line for line in lines) == 1
            assert "not before" not in "\n".join(lines)


def test_a_wait_is_shown_with_the_time_that_is_left(tmp_path: Path) -> None:
    """The screen counts down by itself while the service's time runs."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as it:
        it.poll("db_0")
        words = ["machine", "restart", "db_0", "--wait", "--data", str(it.data)]
        with Terminal(*words) as terminal:
            terminal.wait_for("(in 15 min)")
            it.run("clock", "run", "60")
            terminal.wait_for("(in 12 min")
            terminal.wait_for("1 of 1 done", "code 0")


def test_no_colour_for_who_wants_none(tmp_path: Path) -> None:
    """NO_COLOR is heeded on a terminal too; without it there is colour."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--clock", "virtual") as it:
        it.poll("db_0")
        it.run("machine", "restart", "db_0")
        words = ("machine", "list", "--data", str(it.data))
        for before, coloured in (("", True), ("NO_COLOR=1", False)):
            with Terminal(*words, before=before) as terminal:
                terminal.wait_for("Reboot not before", "code 0")
                assert ("\x1b[33mReboot" in terminal.colours()) is coloured

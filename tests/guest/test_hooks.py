"""Hooks side by side: how they are started, stopped, and reported once."""

import threading
from pathlib import Path

import pytest

from fairwarning.guest.agent import hooks as module
from fairwarning.guest.agent.actions import StopHook
from fairwarning.guest.agent.event_state import NO_TIME_LEFT
from fairwarning.guest.agent.hook_output import KEPT_BYTES
from fairwarning.guest.agent.hooks import STOPPED
from fairwarning.guest.events import Phase
from tests.guest.hook_harness import EVENT, hook_harness
from tests.guest.hook_programs import (
    HERE,
    accept_process,
    descriptors,
    gone,
    listening_server,
    program,
)


def test_nothing_starts_after_the_deadline(tmp_path: Path) -> None:
    """A hook whose deadline has passed fails without running."""
    with hook_harness() as harness:
        harness.run(program(f"open({str(tmp_path / 'ran')!r}, 'w')"), seconds=0)
        assert harness.failure() == NO_TIME_LEFT
    assert not (tmp_path / "ran").exists()


@pytest.mark.spec("G4")
def test_hooks_run_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty hooks that wait for each other all end."""
    code = f"{HERE}\nassert here().recv(1) == b'g'"
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        for number in range(20):
            harness.run(program(code, f"hook {number}"))
        processes = [accept_process(server) for _ in range(20)]
        for process in processes:
            process.sendall(b"g")
            process.close()
        names = {name for _, _, name, failed in harness.results() if not failed}
    assert names == {f"hook {number}" for number in range(20)}


def test_a_hook_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the named hook stops, with its event id in any case; the others continue."""
    code = f"{HERE}\nhere().recv(1)"
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        harness.run(program(code))
        process = accept_process(server)
        harness.run(program(code, "other"))
        other = accept_process(server)
        for stop in (
            StopHook(EVENT.id, Phase.STARTED, "main"),
            StopHook("another", Phase.SCHEDULED, "main"),
            StopHook(EVENT.id, Phase.SCHEDULED, "unknown"),
            StopHook(EVENT.id.lower(), Phase.SCHEDULED, "main"),
        ):
            harness.hooks.stop(stop)
        assert gone(process)
        other.sendall(b"x")
        assert {(name, failed) for _, _, name, failed in harness.results()} == {
            ("main", STOPPED),
            ("other", ""),
        }
        process.close()
        other.close()


def test_closing_stops_all_hooks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Even those that ignore signals; no new hook starts."""
    code = f"{HERE}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nhere().recv(1)"
    with listening_server(monkeypatch) as server, hook_harness() as harness:
        for number in range(3):
            harness.run(program(code, f"hook {number}"))
        processes = [accept_process(server) for _ in range(3)]
        harness.hooks.close()
        assert [failed for *_, failed in harness._results] == [STOPPED] * 3
        assert all(map(gone, processes))
        for connection in processes:
            connection.close()
        harness.run(program(f"open({str(tmp_path / 'ran')!r}, 'w')"))
        assert [failed for *_, failed in harness.results()] == [STOPPED] * 4
    assert not (tmp_path / "ran").exists()


def test_each_end_is_reported_once() -> None:
    """Even if a program exits just at its deadline, or while it is being stopped."""
    with hook_harness() as harness:
        for number in range(12):
            code = f"import time; time.sleep({0.6 + number / 100})"
            harness.run(program(code, f"hook {number}"), seconds=0.9)
        for number in range(6):
            harness.hooks.stop(StopHook(EVENT.id, Phase.SCHEDULED, f"hook {number}"))
            harness.hooks.stop(StopHook(EVENT.id, Phase.SCHEDULED, f"hook {number}"))
        names = [name for _, _, name, _ in harness.results()]
    assert sorted(names) == sorted(f"hook {number}" for number in range(12))


@pytest.mark.parametrize("after", range(4))
def test_a_hook_fails_without_threads(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The failure is reported like any other, and no file stays open."""
    start, started = threading.Thread.start, 0

    def refuse(thread: threading.Thread) -> None:
        nonlocal started
        started += 1
        if started > after:
            raise RuntimeError("can't start new thread")
        start(thread)

    before = descriptors()
    with hook_harness() as harness:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        harness.run(program(""))
        assert harness.failure().endswith("can't start new thread")
        monkeypatch.undo()
    assert descriptors() <= before


# --- Output ---------------------------------------------------------------------------------------


def test_output_of_a_failed_hook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its last lines are prefixed, so that none can imitate a log line."""
    caplog.set_level("INFO", module.__name__)
    with hook_harness() as harness:
        harness.run(program("print('ERROR forged\\n\\x1b[2Jtwo'); raise SystemExit(1)"))
        assert harness.failure() == "exit code 1: [2Jtwo"
    begun, ended = (record.getMessage() for record in caplog.records)
    assert begun.startswith(f"hook main (event {EVENT.id}, scheduled) starts, deadline 2")
    assert ended.endswith(" s: exit code 1: [2Jtwo\n  | ERROR forged\n  | [2Jtwo")


@pytest.mark.spec("G4")
@pytest.mark.parametrize(("code", "result"), [(0, "is done after"), (3, "failed after")])
def test_output_of_the_last_run_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, result: str
) -> None:
    """All of it, in a file of the state folder that the log names."""
    caplog.set_level("INFO", module.__name__)
    path = tmp_path / "output" / "main-scheduled.log"
    for text in ("earlier " * 100, "h\u00fc\x1b"):
        with hook_harness(tmp_path) as harness:
            harness.run(program(f"print({text!r}, *range(99)); raise SystemExit({code})"))
            harness.results()
    head, *lines = path.read_text("utf-8").splitlines()
    assert head.startswith(f"# hook main (event {EVENT.id}, scheduled) {result} ")
    assert lines == [" ".join(map(str, ("h\u00fc\x1b", *range(99))))]
    assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
    assert f"; output: {path}\n  | " in caplog.messages[-1]


def test_kept_output_is_bounded(tmp_path: Path) -> None:
    """The end of a flood, even of bytes that are no text, takes 64 KiB."""
    flood = "import os\nfor _ in range(99): os.write(1, b'\\xff' * 9999)\nos.write(1, b'end')"
    with hook_harness(tmp_path) as harness:
        harness.run(program(flood))
        harness.results()
    content = (tmp_path / "output" / "main-scheduled.log").read_bytes()
    assert content.startswith(b"# hook main ")
    assert content.endswith(b"end")
    assert len(content) <= KEPT_BYTES


@pytest.mark.parametrize(
    "name", ["../../x", ".", "a/b", "\u00fc\ud800", "x" * 5000, "tell the team"]
)
def test_no_name_of_a_hook_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Names are quoted and shortened."""
    with hook_harness(tmp_path / "state") as harness:
        harness.run(program("print(1)", name))
        harness.results()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    (kept,) = (tmp_path / "state" / "output").iterdir()
    assert kept.read_text("utf-8").endswith("\n1\n")


def test_output_that_cannot_be_kept_fails_no_hook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full, or the folder is not a folder."""
    (tmp_path / "output").write_text("", "utf-8")
    with hook_harness(tmp_path) as harness:
        harness.run(program("print(1)"))
        assert harness.failure() == ""
    assert "cannot keep the output of hook main in" in caplog.text

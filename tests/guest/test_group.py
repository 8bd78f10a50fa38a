"""Exchange of liveness and readiness through a folder."""

import os
import threading
import time
from pathlib import Path

import pytest

from fairwarning.guest.agent import group as module
from fairwarning.guest.agent.group import SharedFolder
from fairwarning.guest.events import Event
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.guest.notices import event, members

pytestmark = pytest.mark.spec("G5")

NAMES = ("vm-1", "vm-2", "vm-3")
SHARED = event("A", "VM-1", "_vm-2", "vm-3")


class FixedClock:
    """The monotonic clock of the code under test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FixedClock:
    """Return a clock that only the test advances; nothing else has a limit that matters."""
    monkeypatch.setattr(module, "_FOLDER_SECONDS", LIMIT_SECONDS)
    return FixedClock(monkeypatch)


def folders(place: Path) -> list[SharedFolder]:
    """Create three machines, each of which has written its heartbeat once."""
    folders = [SharedFolder(place, name) for name in NAMES]
    for folder in folders:
        folder.heartbeat()
    return folders


def files_in(place: Path) -> set[str]:
    """Return the files and folders below a folder."""
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


def signal_ready(folder: SharedFolder, shared: Event = SHARED) -> None:
    """Signal readiness, and write it as the next heartbeat does."""
    folder.signal(shared, ready=True)
    folder.heartbeat()


def renew_heartbeat(place: Path, name: str) -> None:
    """Change the time of a heartbeat file, as its machine does every second."""
    path = place / "alive" / name
    when = path.stat().st_mtime + 1
    os.utime(path, (when, when))


def test_alive_and_ready(tmp_path: Path) -> None:
    """Names are normalized, whatever the event's spelling."""
    first, second, third = folders(tmp_path)
    assert first.members(SHARED) == members(*NAMES)
    signal_ready(second)
    signal_ready(third)
    signal_ready(second)
    assert first.members(SHARED) == members(*NAMES, ready=("vm-2", "vm-3"))
    assert third.members(event("B", *NAMES)) == members(*NAMES)


def test_a_machine_without_heartbeats_is_not_alive(tmp_path: Path, clock: FixedClock) -> None:
    """Its file has not changed for ten seconds, by the clock of the machine that looks."""
    first, second, _ = folders(tmp_path)
    signal_ready(second)
    assert first.members(SHARED).alive == set(NAMES)
    clock.now += module.ALIVE_SECONDS - 1
    renew_heartbeat(tmp_path, "vm-3")
    assert first.members(SHARED) == members(*NAMES, ready=("vm-2",))
    clock.now += 1
    assert first.members(SHARED) == members("vm-1", "vm-3", ready=("vm-2",))
    renew_heartbeat(tmp_path, "vm-2")
    assert first.members(SHARED).alive == set(NAMES)


def test_a_machine_that_never_started_is_not_alive(tmp_path: Path, clock: FixedClock) -> None:
    """It may be about to start, so it counts for ten seconds. The folder need not exist."""
    folder = SharedFolder(tmp_path / "new", "vm-2")
    assert folder.members(SHARED).alive == set(NAMES)
    clock.now += module.ALIVE_SECONDS
    assert folder.members(SHARED) == members("vm-2")


def test_events_at_the_same_time_hear_the_same_heartbeats(
    tmp_path: Path, clock: FixedClock
) -> None:
    """A heartbeat counts for each event that is looked at."""
    first, *_ = folders(tmp_path)
    other = event("B", *NAMES)
    for _ in range(4):
        assert first.members(SHARED).alive == set(NAMES)
        assert first.members(other).alive == set(NAMES)
        clock.now += module.ALIVE_SECONDS - 1
        for name in NAMES[1:]:
            renew_heartbeat(tmp_path, name)


def test_a_pause_between_queries_is_not_silence(tmp_path: Path, clock: FixedClock) -> None:
    """A machine that was frozen does not take the others for dead."""
    first, *_ = folders(tmp_path)
    first.members(SHARED)
    clock.now += 3600
    assert first.members(SHARED).alive == set(NAMES)


def test_silence_does_not_count_while_the_folder_fails(tmp_path: Path, clock: FixedClock) -> None:
    """The other machines could not write their heartbeats either."""
    place = tmp_path / "shared"
    first, *_ = folders(place)
    first.members(SHARED)
    clock.now += module.ALIVE_SECONDS - 1
    place.rename(tmp_path / "away")
    place.write_text("", "utf-8")
    with pytest.raises(OSError, match="shared"):
        first.members(SHARED)
    place.unlink()
    (tmp_path / "away").rename(place)
    clock.now += module.ALIVE_SECONDS - 1
    assert first.members(SHARED).alive == set(NAMES)


def test_a_folder_that_fails_keeps_the_wishes(tmp_path: Path) -> None:
    """Readiness is written as soon as the folder works again."""
    place = tmp_path / "shared"
    place.write_text("", "utf-8")
    first, second = SharedFolder(place, "vm-1"), SharedFolder(place, "vm-2")
    first.signal(SHARED, ready=True)
    first.forget("B")
    with pytest.raises(OSError, match="shared"):
        first.heartbeat()
    place.unlink()
    first.heartbeat()
    assert second.members(SHARED).ready == {"vm-1"}


def test_an_error_about_one_event_concerns_no_other(tmp_path: Path) -> None:
    """IB1: something is in the way of its folder."""
    first, second, _ = folders(tmp_path)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "B").write_text("", "utf-8")
    for name in ("B", "C"):
        second.signal(event(name, *NAMES), ready=True)
    with pytest.raises(OSError, match="B"):
        second.heartbeat()
    assert first.members(event("C", *NAMES)).ready == {"vm-2"}


def test_a_folder_that_hangs_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wishes are stored at once; queries fail after a time, in a single waiting thread."""
    monkeypatch.setattr(module, "_FOLDER_SECONDS", 0.05)
    touch, released = Path.touch, threading.Event()

    def hang(path: Path) -> None:
        assert released.wait(LIMIT_SECONDS)
        touch(path)

    monkeypatch.setattr(Path, "touch", hang)
    folder = SharedFolder(tmp_path, "vm-1")
    for _ in range(3):
        with pytest.raises(TimeoutError, match="does not respond"):
            folder.heartbeat()
        with pytest.raises(TimeoutError, match="does not respond"):
            folder.members(SHARED)
        folder.signal(SHARED, ready=True)
        folder.forget("B")
    working = [thread for thread in threading.enumerate() if thread.name == "shared folder"]
    assert len(working) == 1
    released.set()
    working[0].join(LIMIT_SECONDS)
    monkeypatch.setattr(module, "_FOLDER_SECONDS", LIMIT_SECONDS)
    folder.heartbeat()
    assert folder.members(SHARED).ready == {"vm-1"}


def test_finished_events_are_removed(tmp_path: Path) -> None:
    """Each machine deletes its own file, the last one the event's folder."""
    first, second, _ = folders(tmp_path)
    signal_ready(first)
    signal_ready(second)
    first.forget("A")
    first.heartbeat()
    assert second.members(SHARED).ready == {"vm-2"}
    second.forget("a")
    second.forget("A")
    second.heartbeat()
    assert files_in(tmp_path) == {"alive", *(f"alive/{name}" for name in NAMES), "events"}


def test_the_files_of_a_deleted_machine_are_removed(tmp_path: Path) -> None:
    """It is silent for a week, by the clock of the folder."""
    first, second, third = folders(tmp_path)
    for folder in (first, second, third):
        folder.signal(SHARED, ready=True)
        folder.heartbeat()
    second.signal(event("B", "vm-2"), ready=False)
    second.heartbeat()
    long_ago = time.time() - 8 * 24 * 3600
    for path in (tmp_path / "alive" / "vm-2", tmp_path / "events" / "A" / "vm-3"):
        os.utime(path, (long_ago, long_ago))
    SharedFolder(tmp_path, "vm-1").heartbeat()
    assert files_in(tmp_path) == {
        *("alive", "alive/vm-1", "alive/vm-3"),
        *("events", "events/A", "events/A/vm-1", "events/A/vm-3"),
    }


def test_what_others_keep_in_the_folder_is_never_removed(tmp_path: Path) -> None:
    """Not even a file with the name of a deleted machine, nor an empty folder."""
    folders(tmp_path)
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(tmp_path / "alive" / "vm-2", (long_ago, long_ago))
    for path in (tmp_path / "backups" / "vm-2", tmp_path / "backups" / "vm-2.failed"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "logs").mkdir()
    before = files_in(tmp_path)
    SharedFolder(tmp_path, "vm-1").heartbeat()
    assert before - files_in(tmp_path) == {"alive/vm-2"}


def test_a_machine_that_failed(tmp_path: Path) -> None:
    """The others see it until the machine is ready after all, or the event is over."""
    first, second, third = folders(tmp_path)
    second.signal(SHARED, ready=False)
    third.signal(SHARED, ready=False)
    second.heartbeat()
    third.heartbeat()
    assert first.members(SHARED) == members(*NAMES, failed=("vm-2", "vm-3"))
    signal_ready(second)
    third.forget("A")
    third.heartbeat()
    assert first.members(SHARED) == members(*NAMES, ready=("vm-2",))


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", ".", "alive", "x" * 200, "\u00fc \0"])
def test_no_id_and_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Ids and names are untrusted; they may even equal the name of our own folder."""
    place = tmp_path / "shared"
    odd = event(name, name, "vm-2")
    folder = SharedFolder(place, name)
    signal_ready(folder, odd)
    assert name.lower() in folder.members(odd).ready
    folder.forget(name)
    folder.heartbeat()
    assert folder.members(odd).ready == set()
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]

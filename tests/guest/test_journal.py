"""The agent's journal on real files, with and without failures."""

import errno
import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import journal as module
from fairwarning.guest.agent import reserve as reserve_module
from fairwarning.guest.agent.actions import AgentJournalEntry
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.agent.reserve import RESERVE_BYTES
from fairwarning.guest.events import Phase
from tests.guest.notices import ME, NOW, document, event, hook

pytestmark = pytest.mark.spec("G6")

SEEN = AgentJournalEntry("seen", "A", seen=event())
BEGUN = AgentJournalEntry("begun", "A", Phase.SCHEDULED, "drain")
FAILED = AgentJournalEntry("done", "A", Phase.SCHEDULED, "drain", "exit code 1: \u00fc\n\u2028")
ALL_STEPS = (
    SEEN,
    BEGUN,
    FAILED,
    AgentJournalEntry("approving", "A"),
    AgentJournalEntry("approved", "A"),
    AgentJournalEntry("over", "A", cancelled=True),
)
RETYPED = AgentJournalEntry(
    "seen", "B", seen=event("B"), kinds=frozenset({("Freeze", "User"), ("", "")})
)
FORGOTTEN = AgentJournalEntry("forgotten", "A")


@contextmanager
def opened(folder: Path) -> Iterator[tuple[AgentJournal, list[AgentJournalEntry]]]:
    """Open a journal; yield it and its entries."""
    journal = AgentJournal(folder)
    try:
        yield journal, journal.open()
    finally:
        journal.close()


def stored_entries(folder: Path) -> list[AgentJournalEntry]:
    """Return the entries that the next agent finds."""
    with opened(folder) as (_, entries):
        return entries


def test_entries_round_trip(tmp_path: Path) -> None:
    """Every field is kept; the folder is created."""
    folder = tmp_path / "a" / "b"
    with opened(folder) as (journal, entries):
        assert entries == []
        for entry in (*ALL_STEPS, RETYPED):
            journal.write(entry)
    assert stored_entries(folder) == [*ALL_STEPS, RETYPED]
    assert stored_entries(folder) == [*ALL_STEPS, RETYPED]
    assert (folder / "journal").stat().st_mode & 0o077 == 0


def test_every_line_is_durable_when_written(tmp_path: Path) -> None:
    """It survives a kill right after the write, and is synced."""
    synced: list[int] = []
    with opened(tmp_path) as (journal, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", synced.append)
        for count, entry in enumerate(ALL_STEPS, 1):
            journal.write(entry)
            assert len((tmp_path / "journal").read_bytes().splitlines()) == count
            assert len(synced) == count


def test_a_forgotten_event_may_reappear(tmp_path: Path) -> None:
    """Only entries after the last `forgotten` count."""
    other = AgentJournalEntry("seen", "B", seen=event("B"))
    with opened(tmp_path) as (journal, _):
        for entry in (*ALL_STEPS, other, FORGOTTEN, SEEN):
            journal.write(entry)
    assert stored_entries(tmp_path) == [other, SEEN]


@pytest.mark.parametrize("cut", [1, 2, 10, 60])
def test_an_incomplete_last_line_is_ignored(tmp_path: Path, cut: int) -> None:
    """Later lines are not corrupted by it."""
    with opened(tmp_path) as (journal, _):
        for entry in (SEEN, BEGUN, FAILED):
            journal.write(entry)
    path = tmp_path / "journal"
    path.write_bytes(path.read_bytes()[:-cut])
    with opened(tmp_path) as (journal, entries):
        assert entries == [SEEN, BEGUN]
        journal.write(FAILED)
    assert stored_entries(tmp_path) == [SEEN, BEGUN, FAILED]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\0" * 512,
        b"\xff\xfe",
        b"[]",
        b"3",
        b"{}",
        b'{"step":"seen"}',
        b'{"step":"seen","event":"A","seen":{"EventId":"A"}}',
        b'{"step":"seen","event":"A","seen":[1]}',
        b'{"step":"seen","event":"A","kinds":["x"]}',
        b'{"step":"begun","event":"A","phase":"schedulex","hook":"drain"}',
        b'{"step":"begun","event":"A","phase":"changed","hook":"drain"}',
        b'{"step":"begun","event":"A","hook":"drain"}',
        b'{"step":"begun","event":"A","phase":"scheduled","hook":["drain"]}',
        b'{"step":"over","event":{"A":1}}',
        b'{"step":"over","event":"a"}',
        b'{"step":"over","event":"A","cancelled":1e999,"failed":1}',
        module._line(AgentJournalEntry("seen", "B", seen=event("C"))).strip(),
        b"[" * 100_000,
        b'{"step":"over","event":"A","phase":' + b"9" * 10_000 + b"}",
        b'{"step":"over","event":"A","hook":"' + b"x" * module._LINE_BYTES + b'"}',
    ],
)
def test_a_damaged_line_is_reported_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    """The agent starts with the other lines, whatever the disk did to this one."""
    with opened(tmp_path) as (journal, _):
        for entry in (SEEN, BEGUN):
            journal.write(entry)
    path = tmp_path / "journal"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + second)
    entries = stored_entries(tmp_path)
    assert entries == [SEEN, BEGUN]
    reports = [text for text in caplog.messages if "is damaged and skipped" in text]
    assert len(reports) == bool(line)
    assert all(text.startswith(f"line 2 of {path} ") for text in reports)
    plan = AgentPlan(AgentConfig(hooks=(hook(),)), ME)
    plan.restore(entries)
    assert plan.resume(document(event()), NOW)


def test_many_damaged_lines_are_reported_briefly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first ones, and their number."""
    (tmp_path / "journal").write_bytes(b"?\n" * 500)
    assert stored_entries(tmp_path) == []
    assert len(caplog.messages) == 11
    assert caplog.messages[-1].startswith("500 lines of ")


def test_an_interrupted_hook_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It runs a second time, which the administrator can see."""
    with opened(tmp_path) as (journal, _):
        for entry in (SEEN, BEGUN, replace(BEGUN, hook="note"), FAILED):
            journal.write(entry)
    stored_entries(tmp_path)
    (report,) = caplog.messages
    assert report.startswith("hook note (event A, scheduled) was interrupted")


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_byte_may_be_corrupt(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    """The agent starts with the other entries."""
    folder = tmp_path_factory.mktemp("journal")
    text = bytearray(
        b"".join(map(module._line, (SEEN, BEGUN, AgentJournalEntry("seen", "B", seen=event("B")))))
    )
    text[at % len(text)] = byte
    (folder / "journal").write_bytes(text)
    plan = AgentPlan(AgentConfig(hooks=(hook(),)), ME)
    plan.restore(stored_entries(folder))
    plan.resume(document(event()), NOW)
    assert "A" in plan.known


def test_lines_of_a_newer_agent_are_read(tmp_path: Path) -> None:
    """Unknown members are ignored."""
    line = {"step": "begun", "event": "A", "phase": "scheduled", "hook": "drain", "new": [1]}
    (tmp_path / "journal").write_text(json.dumps(line) + "\n", "utf-8")
    assert stored_entries(tmp_path) == [BEGUN]


@pytest.mark.parametrize(
    ("repeated", "left"),
    [
        ((*ALL_STEPS, FORGOTTEN), []),
        ((SEEN, BEGUN, FAILED), [SEEN, BEGUN, FAILED]),  # as of a NotBefore that moves at each poll
    ],
)
def test_the_journal_is_compacted(
    tmp_path: Path, repeated: tuple[AgentJournalEntry, ...], left: list[AgentJournalEntry]
) -> None:
    """Forgotten events and repeated steps are removed; the others stay."""
    other = AgentJournalEntry("seen", "B", seen=event("B"))
    largest = 0
    with opened(tmp_path) as (journal, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        journal.write(other)
        for _ in range(400):
            for entry in repeated:
                journal.write(entry)
            largest = max(largest, len((tmp_path / "journal").read_bytes().splitlines()))
    assert largest <= 1001
    assert stored_entries(tmp_path) == [other, *left]


def test_a_partial_new_file_is_ignored(tmp_path: Path) -> None:
    """The agent was killed during compaction."""
    with opened(tmp_path) as (journal, _):
        journal.write(SEEN)
    (tmp_path / "journal.new").write_bytes(b'{"step":"over","event":"A"}\n{"st')
    assert stored_entries(tmp_path) == [SEEN]


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    """The same."""
    (tmp_path / "state").write_text("", "utf-8")
    with pytest.raises(Unavailable) as refused:
        AgentJournal(tmp_path / "state").open()
    assert refused.value.code == "NoJournal"


def test_a_deleted_folder_is_locked_again(tmp_path: Path) -> None:
    """A second agent does not start; if it was faster, the first one ends."""
    first, second = AgentJournal(tmp_path / "state"), AgentJournal(tmp_path / "state")
    first.open()
    shutil.rmtree(tmp_path / "state")
    first.flush()
    with pytest.raises(Unavailable, match="another agent uses the journal"):
        second.open()
    shutil.rmtree(tmp_path / "state")
    second.open()
    with pytest.raises(Unavailable, match="another agent uses the journal"):
        first.flush()
    first.close()
    second.close()


def test_a_deleted_folder_is_restored(tmp_path: Path) -> None:
    """The journal is complete again with the next line."""
    folder = tmp_path / "state"
    with opened(folder) as (journal, _):
        journal.write(SEEN)
        shutil.rmtree(folder)
        journal.write(BEGUN)
        assert not journal.failing
    assert stored_entries(folder) == [SEEN, BEGUN]


# --- A full disk ----------------------------------------------------------------------------------


def is_failing(journal: AgentJournal) -> bool:
    """Whether the journal fails now."""
    return journal.failing


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Limit the size of files, as a full disk does."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_lines_that_a_full_disk_refused_are_written_later(tmp_path: Path) -> None:
    """The agent continues. No part of a line is ever in the file."""
    with opened(tmp_path) as (journal, _):
        journal.write(ALL_STEPS[0])
        size = (tmp_path / "journal").stat().st_size
        for more, entry in enumerate(ALL_STEPS[1:], 1):
            with file_size_limit(size + 10 * more):
                journal.write(entry)
            assert is_failing(journal)
            assert (tmp_path / "journal").stat().st_size == size
        journal.flush()
        assert not is_failing(journal)
    assert stored_entries(tmp_path) == list(ALL_STEPS)


@pytest.mark.parametrize("more", [(), (replace(BEGUN, phase=Phase.OVER),)])
def test_a_start_on_a_full_disk_loses_nothing(
    tmp_path: Path, more: tuple[AgentJournalEntry, ...]
) -> None:
    """The old file stays until a new one is complete, also if there is nothing to write."""
    with opened(tmp_path) as (journal, _):
        for entry in ALL_STEPS:
            journal.write(entry)
    path = tmp_path / "journal"
    path.write_bytes(path.read_bytes() + b'{"step":"ov')
    with file_size_limit(100), opened(tmp_path) as (journal, entries):
        assert entries == list(ALL_STEPS)
        assert is_failing(journal)
        for entry in more:
            journal.write(entry)
        assert not (tmp_path / "journal.new").exists()
        assert not (tmp_path / "reserve").exists()
        resource.setrlimit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)[1:] * 2)
        journal.flush()
        assert not is_failing(journal)
    assert stored_entries(tmp_path) == [*ALL_STEPS, *more]


def test_events_during_a_long_failure_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what the next agent needs is kept."""
    monkeypatch.setattr(module, "_COMPACT_LINES", 100)
    other = AgentJournalEntry("seen", "B", seen=event("B"))
    with opened(tmp_path) as (journal, _):
        with file_size_limit(10):
            for _ in range(40):
                for entry in (*ALL_STEPS, FORGOTTEN):
                    journal.write(entry)
                assert len(journal._missing) <= 110
            journal.write(other)
        journal.flush()
    assert stored_entries(tmp_path) == [other]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_the_reserve_is_used_when_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """The line is durable; the space is reserved again when there is some."""
    reserve, write = tmp_path / "reserve", os.write

    def refuse(file: int, content: bytes) -> int:
        if reserve.exists():
            raise OSError(code, "no space")
        return write(file, content)

    with opened(tmp_path) as (journal, _), pytest.MonkeyPatch.context() as patch:
        assert reserve.stat().st_size == RESERVE_BYTES
        assert reserve.stat().st_mode & 0o077 == 0
        patch.setattr(os, "write", refuse)
        journal.write(SEEN)
        assert not is_failing(journal)
        assert not reserve.exists()
        assert "the journal uses its reserve" in caplog.text
        patch.undo()
        patch.setattr(reserve_module, "_RENEW_SECONDS", 0.0)
        journal.flush()
        assert reserve.stat().st_size == RESERVE_BYTES
    assert stored_entries(tmp_path) == [SEEN]

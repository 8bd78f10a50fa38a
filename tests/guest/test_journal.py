"""The agent's journal on real files, with and without failures."""

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import journal as module
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.guest.agent.plan import AgentJournalEntry, AgentPlan
from fairwarning.guest.watch import Phase
from tests.fixtures.programs import ROOT, run_python
from tests.fixtures.requirements import needs_ordinary_user
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
        for entry in ALL_STEPS:
            journal.write(entry)
    assert stored_entries(folder) == list(ALL_STEPS)
    assert stored_entries(folder) == list(ALL_STEPS)
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
        b'{"step":"begun","event":"A","phase":"schedulex","hook":"drain"}',
        b"[" * 100_000,
    ],
)
def test_a_corrupt_line_is_skipped(tmp_path: Path, line: bytes) -> None:
    """The agent starts, whatever the disk did to the line."""
    with opened(tmp_path) as (journal, _):
        for entry in (SEEN, BEGUN):
            journal.write(entry)
    path = tmp_path / "journal"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + second)
    entries = stored_entries(tmp_path)
    assert [entries[0], entries[-1]] == [SEEN, BEGUN]
    plan = AgentPlan(AgentConfig(hooks=(hook(),)), ME)
    plan.restore(entries)
    assert plan.resume(document(event()), NOW)


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


def test_the_journal_is_compacted(tmp_path: Path) -> None:
    """Forgotten events are removed; the others stay."""
    other = AgentJournalEntry("seen", "B", seen=event("B"))
    largest = 0
    with opened(tmp_path) as (journal, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        journal.write(other)
        for _ in range(400):
            for entry in (*ALL_STEPS, FORGOTTEN):
                journal.write(entry)
            largest = max(largest, (tmp_path / "journal").stat().st_size)
    event_size = sum(len(module._line(entry)) for entry in (*ALL_STEPS, FORGOTTEN))
    assert largest < 160 * event_size
    assert stored_entries(tmp_path) == [other]


def test_a_partial_new_file_is_ignored(tmp_path: Path) -> None:
    """The agent was killed during compaction."""
    with opened(tmp_path) as (journal, _):
        journal.write(SEEN)
    (tmp_path / "journal.new").write_bytes(b'{"step":"over","event":"A"}\n{"st')
    assert stored_entries(tmp_path) == [SEEN]


def test_two_agents_do_not_share_a_journal(tmp_path: Path) -> None:
    """The second is refused; the first is not affected."""
    with opened(tmp_path) as (journal, _):
        with pytest.raises(Unavailable) as refused:
            AgentJournal(tmp_path).open()
        assert refused.value.code == "AlreadyRuns"
        journal.write(SEEN)
    assert stored_entries(tmp_path) == [SEEN]


@needs_ordinary_user
def test_an_unwritable_folder(tmp_path: Path) -> None:
    """The agent reports it before any hook runs."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(Unavailable, match="cannot open its journal"):
            AgentJournal(tmp_path / "state").open()
    finally:
        tmp_path.chmod(0o700)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    """The same."""
    (tmp_path / "state").write_text("", "utf-8")
    with pytest.raises(Unavailable) as refused:
        AgentJournal(tmp_path / "state").open()
    assert refused.value.code == "NoJournal"


# --- A full disk ----------------------------------------------------------------------------------

ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent.journal import AgentJournal
from tests.guest.test_journal import SEEN, BEGUN, FAILED, stored_entries
folder = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = AgentJournal(folder)
journal.open()
journal.write(SEEN)
size = (folder / "journal").stat().st_size
for more in range(1, 40):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, resource.RLIM_INFINITY))
    try:
        journal.write(BEGUN)
        raise SystemExit("the entry was not refused")
    except Unavailable as error:
        assert error.code == "NoJournal", error.code
    assert (folder / "journal").stat().st_size == size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
journal.write(FAILED)
journal.close()
assert stored_entries(folder) == [SEEN, FAILED]
"""


def test_a_full_disk_leaves_no_partial_line(tmp_path: Path) -> None:
    """A refused entry is absent; writing works again once there is space."""
    done = run_python(ON_A_FULL_DISK, tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_start_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The old file stays until the new one is complete."""
    with opened(tmp_path) as (journal, _):
        for entry in ALL_STEPS:
            journal.write(entry)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    journal = AgentJournal(tmp_path)
    try:
        with pytest.raises(Unavailable):
            journal.open()
    finally:
        journal.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert stored_entries(tmp_path) == list(ALL_STEPS)

"""The agent's journal on real files, on good days and on bad ones."""

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
from fairwarning.guest.watch import EventPhase
from tests.fixtures.programs import ROOT, run_python
from tests.fixtures.requirements import needs_ordinary_user
from tests.guest.notices import ME, NOW, document, event, hook

pytestmark = pytest.mark.spec("G6")

SEEN = AgentJournalEntry("seen", "A", seen=event())
BEGUN = AgentJournalEntry("begun", "A", EventPhase.SCHEDULED, "drain")
FAILED = AgentJournalEntry(
    "done", "A", EventPhase.SCHEDULED, "drain", "exit code 1: \u00fc\n\u2028"
)
LIFE = (
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
    """A journal and what it held; closed at the end."""
    it = AgentJournal(folder)
    try:
        yield it, it.open()
    finally:
        it.close()


def held(folder: Path) -> list[AgentJournalEntry]:
    """What the next agent finds."""
    with opened(folder) as (_, entries):
        return entries


def test_what_was_written_is_found(tmp_path: Path) -> None:
    """Every field of it; the folder is made."""
    folder = tmp_path / "a" / "b"
    with opened(folder) as (it, entries):
        assert entries == []
        for entry in LIFE:
            it.write(entry)
    assert held(folder) == list(LIFE)
    assert held(folder) == list(LIFE)
    assert (folder / "journal").stat().st_mode & 0o077 == 0


def test_every_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    """Whoever is killed right after it leaves it behind; it is synced, too."""
    synced: list[int] = []
    with opened(tmp_path) as (it, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", synced.append)
        for count, entry in enumerate(LIFE, 1):
            it.write(entry)
            assert len((tmp_path / "journal").read_bytes().splitlines()) == count
            assert len(synced) == count


def test_a_life_that_is_over_is_gone_and_an_id_may_live_again(tmp_path: Path) -> None:
    """Only what follows the last `forgotten` counts."""
    other = AgentJournalEntry("seen", "B", seen=event("B"))
    with opened(tmp_path) as (it, _):
        for entry in (*LIFE, other, FORGOTTEN, SEEN):
            it.write(entry)
    assert held(tmp_path) == [other, SEEN]


@pytest.mark.parametrize("cut", [1, 2, 10, 60])
def test_a_torn_last_line_was_never_written(tmp_path: Path, cut: int) -> None:
    """And what is written after it is not spoilt by it."""
    with opened(tmp_path) as (it, _):
        for entry in (SEEN, BEGUN, FAILED):
            it.write(entry)
    path = tmp_path / "journal"
    path.write_bytes(path.read_bytes()[:-cut])
    with opened(tmp_path) as (it, entries):
        assert entries == [SEEN, BEGUN]
        it.write(FAILED)
    assert held(tmp_path) == [SEEN, BEGUN, FAILED]


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
def test_a_spoilt_line_spoils_no_other(tmp_path: Path, line: bytes) -> None:
    """The agent starts, whatever a broken disk made of it."""
    with opened(tmp_path) as (it, _):
        for entry in (SEEN, BEGUN):
            it.write(entry)
    path = tmp_path / "journal"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + second)
    entries = held(tmp_path)
    assert [entries[0], entries[-1]] == [SEEN, BEGUN]
    plan = AgentPlan(AgentConfig(hooks=(hook(),)), ME)
    plan.restore(entries)
    assert plan.resume(document(event()), NOW)


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_byte_may_be_another(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    """The agent starts and knows the rest."""
    folder = tmp_path_factory.mktemp("journal")
    text = bytearray(
        b"".join(map(module._line, (SEEN, BEGUN, AgentJournalEntry("seen", "B", seen=event("B")))))
    )
    text[at % len(text)] = byte
    (folder / "journal").write_bytes(text)
    plan = AgentPlan(AgentConfig(hooks=(hook(),)), ME)
    plan.restore(held(folder))
    plan.resume(document(event()), NOW)
    assert "A" in plan.known


def test_lines_of_a_newer_agent_are_read(tmp_path: Path) -> None:
    """Members that are not known are passed over."""
    line = {"step": "begun", "event": "A", "phase": "scheduled", "hook": "drain", "new": [1]}
    (tmp_path / "journal").write_text(json.dumps(line) + "\n", "utf-8")
    assert held(tmp_path) == [BEGUN]


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    """What is forgotten is taken out, while what lives stays."""
    other = AgentJournalEntry("seen", "B", seen=event("B"))
    most = 0
    with opened(tmp_path) as (it, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        it.write(other)
        for _ in range(400):
            for entry in (*LIFE, FORGOTTEN):
                it.write(entry)
            most = max(most, (tmp_path / "journal").stat().st_size)
    size_of_a_life = sum(len(module._line(entry)) for entry in (*LIFE, FORGOTTEN))
    assert most < 160 * size_of_a_life
    assert held(tmp_path) == [other]


def test_what_a_killed_agent_left_of_a_new_file_does_no_harm(tmp_path: Path) -> None:
    """It died while it took out what is forgotten."""
    with opened(tmp_path) as (it, _):
        it.write(SEEN)
    (tmp_path / "journal.new").write_bytes(b'{"step":"over","event":"A"}\n{"st')
    assert held(tmp_path) == [SEEN]


def test_two_agents_do_not_share_a_journal(tmp_path: Path) -> None:
    """The second is refused, the first not disturbed."""
    with opened(tmp_path) as (it, _):
        with pytest.raises(Unavailable) as refused:
            AgentJournal(tmp_path).open()
        assert refused.value.code == "AlreadyRuns"
        it.write(SEEN)
    assert held(tmp_path) == [SEEN]


@needs_ordinary_user
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The agent says so before anything runs."""
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
from tests.guest.test_journal import SEEN, BEGUN, FAILED, held
folder = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
it = AgentJournal(folder)
it.open()
it.write(SEEN)
size = (folder / "journal").stat().st_size
for more in range(1, 40):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, resource.RLIM_INFINITY))
    try:
        it.write(BEGUN)
        raise SystemExit("it was not refused")
    except Unavailable as error:
        assert error.code == "NoJournal", error.code
    assert (folder / "journal").stat().st_size == size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
it.write(FAILED)
it.close()
assert held(folder) == [SEEN, FAILED]
"""


def test_a_full_disk_leaves_nothing_by_halves(tmp_path: Path) -> None:
    """What is refused is not there; once there is room, it goes on."""
    done = run_python(ON_A_FULL_DISK, tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_start_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The old file stays until the new one is whole."""
    with opened(tmp_path) as (it, _):
        for entry in LIFE:
            it.write(entry)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    it = AgentJournal(tmp_path)
    try:
        with pytest.raises(Unavailable):
            it.open()
    finally:
        it.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert held(tmp_path) == list(LIFE)

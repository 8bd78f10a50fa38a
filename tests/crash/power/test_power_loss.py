"""P5: the power fails at every write and every sync."""

import shutil
from pathlib import Path

import pytest

from fairwarning.core.errors import StoreDamaged
from fairwarning.store import sqlite
from tests.campaigns import split
from tests.crash.power.images import check_all
from tests.crash.power.recording import RecordingVFS
from tests.crash.power.workload import SHORT_LOG, Workload, number_of, small_store


@pytest.mark.spec("E9")
@pytest.mark.parametrize(("batches", "images"), split([(6, 200), (45, 1800)], 1))
def test_power_fails_at_every_write_and_sync(
    batches: int, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IL9, ID2: every image opens, is consistent, and has every acknowledged batch."""
    monkeypatch.setattr(sqlite, "_LOG_PAGES", SHORT_LOG)
    counts = check_all(seed=1, batches=batches)
    print(counts)
    assert counts["images"] > images


@pytest.mark.parametrize("setting", ["PRAGMA synchronous = NORMAL", "PRAGMA synchronous = OFF"])
def test_a_store_that_does_not_sync_is_detected(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """Shows that the images are meaningful: without syncs, a batch is missing in one."""
    monkeypatch.setattr(sqlite, "_LOG_PAGES", SHORT_LOG)
    monkeypatch.setattr(sqlite, "_SETTINGS", (*sqlite._SETTINGS, setting))
    with pytest.raises((AssertionError, StoreDamaged)):
        check_all(seed=1, batches=4)


async def test_what_a_killed_process_has_written_is_synced_before_it_is_read(
    tmp_path: Path,
) -> None:
    """ID2: it may be in the log and not on the disk; once shown, no power failure takes it back."""
    store, workload = small_store(tmp_path / "fleet.db"), Workload(1)
    await store.open()
    await store.commit(workload.batch(3))
    shutil.copytree(tmp_path, tmp_path / "left")
    await store.close()
    vfs = RecordingVFS("left")
    left = small_store(tmp_path / "left" / "fleet.db", vfs.name)
    await left.open()
    synced = {step.name for step in vfs.steps if step.what == "sync"}
    assert await number_of(left) == workload.number
    await left.close()
    vfs.unregister()
    assert synced == {"fleet.db", "fleet.db-wal"}

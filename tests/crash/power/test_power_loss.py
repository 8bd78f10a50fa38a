"""P5: the power fails at every write and every sync."""

import pytest

from fairwarning.core.errors import StoreDamaged
from fairwarning.store import sqlite
from tests.campaigns import split
from tests.crash.power.images import check_all
from tests.crash.power.workload import SHORT_LOG


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

"""deploy/systemd: units that systemd accepts and that confine the service well."""

import shutil
import sys
from pathlib import Path

import pytest

from fairwarning.server.progress import PERIOD_SECONDS
from fairwarning.server.worker import STOP_SECONDS
from tests.fixtures.requirements import needs_systemd
from tests.fixtures.systemd import assert_accepted, assert_confined
from tests.release.deploy.files import CLUSTER, PROGRAM, UNIT, settings, started

ALONE, TOGETHER = (), (CLUSTER,)


def installed(folder: Path, *drop_ins: Path) -> Path:
    """Install the unit with its drop-ins; this Python replaces the program."""
    unit = folder / UNIT.name
    beside = folder / f"{UNIT.name}.d"
    beside.mkdir()
    for source, target in ((UNIT, unit), *((path, beside / path.name) for path in drop_ins)):
        shutil.copy(source, target)
        target.write_text(target.read_text().replace(PROGRAM, sys.executable))
    return unit


@needs_systemd
@pytest.mark.parametrize("drop_ins", [ALONE, TOGETHER], ids=["alone", "in a cluster"])
def test_systemd_accepts_the_unit(drop_ins: tuple[Path, ...], tmp_path: Path) -> None:
    """Without errors or warnings; its exposure level is below 2 of 10."""
    unit = installed(tmp_path, *drop_ins)
    assert_accepted(unit, str(tmp_path))
    assert_confined(unit)


def test_it_uses_its_state_directory() -> None:
    """For its data; in a cluster, for the files that belong to the host."""
    folder = f"/var/lib/{settings(UNIT)['StateDirectory'][0]}"
    assert started(UNIT).option("--data") == started(CLUSTER).option("--run") == folder
    assert settings(UNIT)["StateDirectoryMode"] == ["0700"]


def test_a_cluster_changes_only_the_data_options_of_the_command() -> None:
    """The drop-in clears the command first; fleet file and addresses are those of the unit."""
    first, second = settings(CLUSTER)["ExecStart"]
    assert (first, bool(second)) == ("", True)
    alone, together = started(UNIT), started(CLUSTER)
    assert together.words[:2] == alone.words[:2]
    for name in ("--metadata", "--console", "--arm"):
        assert together.option(name) == alone.option(name)


@pytest.mark.spec("E11")
def test_it_starts_with_the_right_time() -> None:
    """It waits for the time to be synchronized, and knows whether the host has rebooted."""
    assert "time-sync.target" in settings(UNIT)["Wants"][0].split()
    assert "time-sync.target" in settings(UNIT)["After"][0].split()
    assert "FAIRWARNING_BOOT_ID=%b" in settings(UNIT)["Environment"]


def test_no_token_gets_into_the_journal() -> None:
    """The stdout of `up` contains one, so it is discarded (IS3). Stderr goes to the journal."""
    assert settings(UNIT)["StandardOutput"] == ["null"]
    assert settings(UNIT)["StandardError"] == ["journal"]
    assert not any(key.startswith("Standard") for key in settings(CLUSTER))


def test_a_service_that_hangs_is_restarted() -> None:
    """IB6: it reports to systemd, also in a cluster, and often enough for the watchdog."""
    unit = settings(UNIT)
    assert (unit["Type"], unit["Restart"]) == (["notify"], ["always"])
    assert 2 * PERIOD_SECONDS < float(unit["WatchdogSec"][0])
    assert STOP_SECONDS < float(unit["TimeoutStopSec"][0])
    assert not {"Type", "WatchdogSec", "Restart", "TimeoutStopSec"} & settings(CLUSTER).keys()

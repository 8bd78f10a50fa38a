"""deploy/systemd: units that systemd takes, and that lock the service up well."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.files import CLUSTER, PROGRAM, UNIT, settings, started
from tests.fixtures.requirements import needs_systemd

ALONE, TOGETHER = (), (CLUSTER,)


def installed(folder: Path, *more: Path) -> Path:
    """The unit with its drop-ins, as a host has them; this Python is in the program's place."""
    unit = folder / UNIT.name
    beside = folder / f"{UNIT.name}.d"
    beside.mkdir()
    for source, target in ((UNIT, unit), *((one, beside / one.name) for one in more)):
        shutil.copy(source, target)
        target.write_text(target.read_text().replace(PROGRAM, sys.executable))
    return unit


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit."""
    command = ["systemd-analyze", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@needs_systemd
@pytest.mark.parametrize("more", [ALONE, TOGETHER], ids=["alone", "in a cluster"])
def test_systemd_takes_it(more: tuple[Path, ...], tmp_path: Path) -> None:
    """No line that it does not know, none that it complains about."""
    unit = installed(tmp_path, *more)
    done = analyze("verify", "--man=no", str(unit))
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert (done.returncode, complaints) == (0, [])


@needs_systemd
@pytest.mark.parametrize("more", [ALONE, TOGETHER], ids=["alone", "in a cluster"])
def test_it_is_locked_up_well(more: tuple[Path, ...], tmp_path: Path) -> None:
    """Systemd's own figure for what is left open: below 2 of 10."""
    unit = installed(tmp_path, *more)
    done = analyze("security", "--offline=true", "--threshold=20", str(unit))
    if "nrecognized option" in done.stderr or "nknown option" in done.stderr:
        pytest.skip("this systemd is too old to look at a unit that is not loaded")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_writes_where_it_may() -> None:
    """Its data is systemd's folder for it; in a cluster what belongs to the host is there."""
    folder = f"/var/lib/{settings(UNIT)['StateDirectory'][0]}"
    assert started(UNIT).option("--data") == started(CLUSTER).option("--run") == folder
    assert settings(UNIT)["StateDirectoryMode"] == ["0700"]


def test_a_cluster_changes_the_command_and_nothing_else_of_it() -> None:
    """The drop-in takes the old one away first; fleet file and addresses are the unit's."""
    first, second = settings(CLUSTER)["ExecStart"]
    assert (first, bool(second)) == ("", True)
    alone, together = started(UNIT), started(CLUSTER)
    assert together.words[:2] == alone.words[:2]
    for name in ("--metadata", "--console", "--arm"):
        assert together.option(name) == alone.option(name)


def test_no_token_gets_into_the_journal() -> None:
    """What `up` says on stdout has one in it (IS3). Logs do get there: alone, stderr follows it."""
    assert settings(UNIT)["StandardOutput"] == ["null"]
    assert settings(UNIT)["StandardError"] == ["journal"]
    assert not any(key.startswith("Standard") for key in settings(CLUSTER))

"""deploy/systemd: units that systemd takes, and that lock the service up well."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.deploy.files import CLUSTER, PROGRAM, UNIT, settings, started
from tests.fixtures.requirements import needs_systemd
from tests.fixtures.systemd import assert_accepted, assert_confined

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


@needs_systemd
@pytest.mark.parametrize("more", [ALONE, TOGETHER], ids=["alone", "in a cluster"])
def test_systemd_takes_it(more: tuple[Path, ...], tmp_path: Path) -> None:
    """No line that it does not know, none that it complains about."""
    assert_accepted(installed(tmp_path, *more), str(tmp_path))


@needs_systemd
@pytest.mark.parametrize("more", [ALONE, TOGETHER], ids=["alone", "in a cluster"])
def test_it_is_locked_up_well(more: tuple[Path, ...], tmp_path: Path) -> None:
    """Systemd's own figure for what is left open: below 2 of 10."""
    assert_confined(installed(tmp_path, *more))


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

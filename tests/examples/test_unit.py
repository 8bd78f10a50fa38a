"""examples/systemd: the unit is one that systemd takes, and it locks the agent up well."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairwarning.guest.agent import config, system
from tests.examples.stage import EXAMPLES, copy
from tests.fixtures.requirements import needs_systemd

CONFIGURATIONS = sorted(EXAMPLES.glob("*/agent.toml"))
UNIT = "fairwarning-agent.service"


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit."""
    command = ["systemd-analyze", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@needs_systemd
def test_systemd_takes_it(tmp_path: Path) -> None:
    """No line that it does not know, none that it complains about."""
    unit = copy("systemd", tmp_path) / UNIT
    here = unit.read_text().replace("/opt/fairwarning/bin/fairwarning", sys.executable)
    unit.write_text(here)
    done = analyze("verify", "--man=no", str(unit))
    complaints = [line for line in done.stderr.splitlines() if UNIT in line]
    assert (done.returncode, complaints) == (0, [])


@needs_systemd
def test_it_is_locked_up_well(tmp_path: Path) -> None:
    """Systemd's own figure for what is left open: below 2 of 10."""
    unit = copy("systemd", tmp_path) / UNIT
    done = analyze("security", "--offline=true", "--threshold=20", str(unit))
    if "nrecognized option" in done.stderr or "nknown option" in done.stderr:
        pytest.skip("this systemd is too old to look at a unit that is not loaded")
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_places_are_the_agents_own() -> None:
    """What may be written is where the journal goes; what is read is the usual configuration."""
    unit = (EXAMPLES / "systemd" / UNIT).read_text()
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
    if sys.platform == "linux":
        assert f"/var/lib/{settings['StateDirectory']}" == str(system.state_folder())
        assert settings["ExecStart"].endswith(f"agent run --config {system.config_file()}")
    assert settings["ProtectSystem"] == "strict"
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["CapabilityBoundingSet"] == ""


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.parent.name)
def test_every_configuration_is_right(path: Path) -> None:
    """The agent reads it as it stands."""
    assert config.read(path).hooks

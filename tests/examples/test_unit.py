"""examples/systemd: the unit is one that systemd takes, and it locks the agent up well."""

import re
import sys
from pathlib import Path

import pytest

from fairwarning.guest.agent import config, system
from tests.examples.copies import EXAMPLES, copy
from tests.fixtures.requirements import needs_systemd
from tests.fixtures.systemd import assert_accepted, assert_confined

CONFIGURATIONS = sorted(EXAMPLES.glob("*/agent.toml"))
UNIT = "fairwarning-agent.service"


@needs_systemd
def test_systemd_takes_it(tmp_path: Path) -> None:
    """No line that it does not know, none that it complains about."""
    unit = copy("systemd", tmp_path) / UNIT
    here = unit.read_text().replace("/opt/fairwarning/bin/fairwarning", sys.executable)
    unit.write_text(here)
    assert_accepted(unit, UNIT)


@needs_systemd
def test_it_is_locked_up_well(tmp_path: Path) -> None:
    """Systemd's own figure for what is left open: below 2 of 10."""
    assert_confined(copy("systemd", tmp_path) / UNIT)


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

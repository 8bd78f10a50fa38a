"""examples/systemd: the unit is valid and sandboxes the agent."""

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
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """It reports no unknown line and no warning."""
    unit = copy("systemd", tmp_path) / UNIT
    text = unit.read_text().replace("/opt/fairwarning/bin/fairwarning", sys.executable)
    unit.write_text(text)
    assert_accepted(unit, UNIT)


@needs_systemd
def test_the_unit_is_sandboxed(tmp_path: Path) -> None:
    """The exposure level that systemd computes is below 2 of 10."""
    assert_confined(copy("systemd", tmp_path) / UNIT)


def test_the_paths_are_those_of_the_agent() -> None:
    """The unit uses the agent's default journal folder and configuration file."""
    unit = (EXAMPLES / "systemd" / UNIT).read_text()
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
    if sys.platform == "linux":
        assert f"/var/lib/{settings['StateDirectory']}" == str(system.state_folder())
        assert settings["ExecStart"].endswith(f"agent run --config {system.config_file()}")
    assert settings["ProtectSystem"] == "strict"
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["CapabilityBoundingSet"] == ""


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.parent.name)
def test_every_configuration_is_valid(path: Path) -> None:
    """The agent accepts it."""
    assert config.read(path).hooks

"""examples/systemd: the unit is valid, sandboxes the agent, and runs under a real systemd."""

import re
import sys
from pathlib import Path

import pytest

from fairwarning.guest.agent import config, system
from tests.examples.copies import EXAMPLES, copy
from tests.fixtures.programs import ROOT
from tests.fixtures.requirements import needs_systemd
from tests.fixtures.systemd import assert_accepted, assert_confined, booted_systemd
from tests.fixtures.waiting import wait_until
from tests.guest.agents import one_machine

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
    assert settings["Environment"] == "FAIRWARNING_BOOT_ID=%b"  # which ProcSubset hides
    assert settings["ProtectSystem"] == "strict"
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["CapabilityBoundingSet"] == ""


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.parent.name)
def test_every_configuration_is_valid(path: Path) -> None:
    """The agent accepts it."""
    assert config.read(path).hooks


# --- Under a real systemd ------------------------------------------------------------------------

UNITS = (ROOT / "deploy" / "agent" / "debian" / UNIT, EXAMPLES / "systemd" / UNIT)
SERVICE = "sleep 86399"
"""What a hook starts, and nothing else."""
WITHOUT_SANDBOX = """
[Unit]
DefaultDependencies=no
[Service]
DynamicUser=no
ProtectSystem=no
ProtectHome=no
PrivateTmp=no
CapabilityBoundingSet=~
SystemCallFilter=
"""
"""The files of a test are in folders that the sandbox hides."""


@pytest.mark.parametrize("unit", UNITS, ids=["package", "example"])
def test_processes_of_hooks_outlive_the_agent(unit: Path, tmp_path: Path) -> None:
    """A server that a hook has started runs on when the agent is restarted, as by an upgrade."""
    (tmp_path / "units").mkdir()
    with one_machine(tmp_path) as (endpoint, home):
        up = tmp_path / "up"  # the shell does not end before its child has left its process group
        serve = f"setsid sh -c 'touch {up}; exec {SERVICE}' > /dev/null 2>&1"
        home.hook("serve", "scheduled", f"{{ {serve} & }}; until [ -e {up} ]; do sleep 0.02; done")
        home.hook("hang", "scheduled", home.wait_script())
        command = f"ExecStart={sys.executable} -m fairwarning agent run --config {home.config()}"
        text = re.sub(r"(?m)^ExecStart=.*$", command, unit.read_text())
        (tmp_path / "units" / unit.name).write_text(text + WITHOUT_SANDBOX)
        with booted_systemd(tmp_path) as system:
            system.run("systemctl", "start", unit.name)
            endpoint.restart("db_0")
            wait_until(lambda: (home.ran(), len(home.ran("+"))) == (["serve"], 2), "serve, hang")
            server = system.processes(SERVICE)
            system.run("systemctl", "restart", unit.name)
            wait_until(lambda: home.ran("+").count("hang") == 2, "hang")  # stopped with the agent
            assert len(server) == 1
            assert system.processes(SERVICE) == server
            home.release_hooks()
            wait_until(lambda: endpoint.approvals, "the event is approved")
            system.run("systemctl", "stop", unit.name)
            assert system.processes(SERVICE) == server

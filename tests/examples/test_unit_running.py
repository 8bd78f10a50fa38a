"""The agent's units under a real systemd."""

import re
import sys
from pathlib import Path

import pytest

from tests.examples.copies import EXAMPLES
from tests.fixtures.programs import ROOT
from tests.fixtures.systemd import booted_systemd
from tests.fixtures.waiting import wait_until
from tests.guest.agents import one_machine

UNITS = (
    ROOT / "deploy" / "agent" / "debian" / "fairwarning-agent.service",
    EXAMPLES / "systemd" / "fairwarning-agent.service",
)
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

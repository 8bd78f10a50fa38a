"""Apache Libcloud's driver for Azure, in a program of ours (tests/real/tools)."""

import json
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import ROOT, run_program
from tests.fixtures.requirements import tool_python
from tests.real.tool_service import GROUP, ToolService

HTTPS = "127.0.0.1:443"  # Libcloud ignores ports; free in a private network
PROGRAM = ROOT / "tests" / "real" / "tools" / "libcloud_nodes.py"
SUBNET = ip_network("10.0.0.0/24")
NETWORK = {
    "location": "westus",
    "properties": {
        "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
        "subnets": [{"name": "default", "properties": {"addressPrefix": str(SUBNET)}}],
    },
}


@pytest.mark.campaign
@pytest.mark.spec("C2", "C6")
def test_libcloud(tmp_path: Path) -> None:
    """It creates a node, shows its addresses, reboots it with notice, and destroys it."""
    python = tool_python("libcloud")
    with ToolService(tmp_path / "data", arm=HTTPS) as service:
        env = service.login_environment()

        def run(step: str) -> Any:  # noqa: ANN401  (its JSON)
            done = run_program(python, PROGRAM, step, env=env)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        service.create_group()
        service.arm(
            "PUT",
            f"resourceGroups/{GROUP}/providers/Microsoft.Network/virtualNetworks/net",
            NETWORK,
        )
        run("create")
        (node,) = run("list")
        (private,) = node.pop("private")
        assert ip_address(private) in SUBNET
        assert len(node.pop("public")) == 1
        assert node == {"name": "vm", "state": "running", "tags": {"tier": "front"}}
        assert service.events("vm") == []
        assert run("reboot") is True
        event = service.wait_for_event("vm", "Reboot")
        service.approve("vm", event["EventId"])
        with service.time_running():
            service.wait_until_idle("vm")
            run("stop")
            assert run("list")[0]["state"] == "stopped"
            run("start")
            assert run("list")[0]["state"] == "running"
            assert run("destroy") is True
        assert service.machines() == {}

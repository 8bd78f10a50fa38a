"""Cloud Custodian, unchanged, with the policies in tests/real/tools.

It knows only Azure's own clouds. So the names of Azure's servers resolve to the service here, in a
mount namespace with its own /etc/hosts, and the service has a certificate for them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import ROOT, run_program
from tests.fixtures.requirements import needs_mounts, needs_unshare, tool_python
from tests.fixtures.waiting import wait_until
from tests.real.tool_service import GROUP, ToolService

HTTPS = "127.0.0.1:443"  # Azure's servers listen there; free in a private network
SERVERS = ("management.azure.com", "login.microsoftonline.com")
POLICIES = ROOT / "tests" / "real" / "tools" / "custodian.yml"
FLEET = f"""
[cloud]
group = "{GROUP}"

[arm]
hosts = {json.dumps(SERVERS)}
"""
WITH_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'


def vm_path(name: str) -> str:
    """Return the path of a machine below the subscription."""
    return f"resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachines/{name}"


def machine(tier: str) -> dict[str, Any]:
    """Return the body of a machine with a tag."""
    size = {"hardwareProfile": {"vmSize": "Standard_B1s"}}
    return {"location": "westus", "tags": {"tier": tier}, "properties": size}


@pytest.mark.campaign
@needs_mounts
@needs_unshare
@pytest.mark.spec("C2", "C6")
def test_custodian(tmp_path: Path) -> None:
    """Its policies find machines by tag and state; tag, restart with notice and stop them."""
    custodian = tool_python("custodian").parent / "custodian"
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *SERVERS)))
    with ToolService(tmp_path / "data", fleet=FLEET, arm=HTTPS) as service:
        for name, tier in {"web": "front", "db": "back"}.items():
            service.arm("PUT", vm_path(name), machine(tier))
            assert service.events(name) == []
        namespaces = ("unshare", "--user", "--map-root-user", "--mount")
        words = ("run", "--output-dir", str(tmp_path / "output"), str(POLICIES))
        command = (*namespaces, "sh", "-c", WITH_HOSTS, str(hosts), str(custodian), *words)
        done = run_program(*command, env=service.login_environment(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        event = service.wait_for_event("web", "Reboot")
        service.approve("web", event["EventId"])
        with service.time_running():
            service.wait_until_idle("web")
            wait_until(lambda: service.machines()["db"]["power"] == "deallocated", "db stops")
        assert service.machines()["web"]["power"] == "running"
        assert "ERROR" not in done.stderr, done.stderr
        tags = service.arm("GET", vm_path("web"))["tags"]
        assert tags == {"tier": "front", "seen": "by-custodian"}

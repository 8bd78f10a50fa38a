"""Azure's SDK for Go, as Debian packages it, in a program of ours (tests/real/tools/go)."""

import json
import os
import shutil
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import ROOT, run_program, start_program
from tests.real.tool_service import GROUP, ToolService

GOPATH = Path("/usr/share/gocode")  # where Debian installs the sources of Go packages
SDK = GOPATH / "src/github.com/Azure/azure-sdk-for-go/services"
SUBNET = ip_network("10.0.0.0/24")
BUILD_SECONDS = 900  # for the SDK on a busy machine; a second build takes seconds

LOOSE_SET = {
    "location": "westus",
    "sku": {"name": "Standard_B1s", "capacity": "0"},
    "properties": {
        "overprovision": "true",
        "singlePlacementGroup": "True",
        "upgradePolicy": {"mode": "manual"},
        "virtualMachineProfile": {"storageProfile": {"osDisk": {"diskSizeGB": "30"}}},
    },
}
"""A scale set as templates of the Azure CLI send it: numbers and booleans as strings."""


def build(folder: Path) -> str:
    """Build our program from the installed sources; skip the test without them."""
    go = shutil.which("go")
    if go is None or not SDK.is_dir():
        package = "golang-github-azure-azure-sdk-for-go-dev"
        pytest.skip(f"needs Azure's SDK for Go: apt-get install golang-go {package}")
    program = str(folder / "story")
    settings = {
        "GO111MODULE": "off",
        "GOPATH": str(GOPATH),
        "GOCACHE": str(ROOT / ".local" / "go-build"),
    }
    words = (go, "build", "-o", program, "./tests/real/tools/go")
    done = run_program(*words, cwd=ROOT, env=os.environ | settings, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.campaign  # the first build takes minutes
@pytest.mark.spec("C2", "C6")
def test_the_sdk_for_go(tmp_path: Path) -> None:
    """It creates, restarts, scales in with notice, reads everything back typed, and deletes."""
    program = build(tmp_path)
    with ToolService(tmp_path / "data") as service:
        env = service.login_environment()

        def run(step: str) -> Any:  # noqa: ANN401  (its JSON)
            done = run_program(program, step, env=env)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        run("create")
        assert set(service.machines()) == {"vm", "web_0", "web_1"}
        assert service.events("vm") == service.events("web_0") == []
        with start_program(program, "restart", folder=tmp_path, env=env) as restart:
            service.run_with_notice(restart, "vm", "Reboot")
        with start_program(program, "scale-in", folder=tmp_path, env=env) as scale_in:
            service.run_with_notice(scale_in, "web_0", "Terminate")
        assert set(service.machines()) == {"vm", "web_0"}
        sets = f"resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets"
        service.arm("PUT", f"{sets}/loose", LOOSE_SET)
        check_list(run)
        with service.time_running():
            run("delete")
        assert service.machines() == {}


def check_list(run: Callable[[str], Any]) -> None:
    """Check what the SDK's types show of the machine, its network interface and the set."""
    listed = run("list")
    owner = listed.pop("nic of")
    assert owner.endswith(f"/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachines/vm")
    assert ip_address(listed.pop("address")) in SUBNET
    assert listed == {"vm": "Succeeded", "web": 1, "loose": 0}

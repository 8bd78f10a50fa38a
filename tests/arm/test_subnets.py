"""In a host run, machines created through the control plane have addresses of their subnets."""

from typing import Any

import pytest

from fairwarning.service.config.settings import ArmSettings
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"
COMPUTE = "/resourceGroups/rg/providers/Microsoft.Compute"
SUBNET = {"id": f"{SUBSCRIPTION}{NETWORK}/virtualNetworks/net/subnets/front"}


def prepare(arm: ArmHarness, prefix: str = "10.3.0.0/24") -> None:
    """Create a group and a network with the subnet `front`."""
    arm.put("/resourceGroups/rg", {"location": "local"})
    subnet = {"name": "front", "properties": {"addressPrefix": prefix}}
    network = {"addressSpace": {"addressPrefixes": [prefix]}, "subnets": [subnet]}
    arm.put(f"{NETWORK}/virtualNetworks/net", {"location": "local", "properties": network})


def create_machine(arm: ArmHarness, name: str, **configuration: object) -> None:
    """Create a machine with its network interface."""
    inner = {"subnet": SUBNET, **configuration}
    nic = {"ipConfigurations": [{"name": "ip", "properties": inner}]}
    path = f"{NETWORK}/networkInterfaces/{name}"
    assert arm.put(path, {"location": "local", "properties": nic}).status in {200, 201}
    profile = {"networkInterfaces": [{"id": f"{SUBSCRIPTION}{path}"}]}
    body = {"location": "local", "properties": {"networkProfile": profile}}
    reply = arm.put(f"{COMPUTE}/virtualMachines/{name}", body)
    assert reply.status == 201, reply.body


def scale_set_body() -> dict[str, Any]:
    """The body of a scale set of two instances in the subnet."""
    configuration = {"name": "ip", "properties": {"subnet": SUBNET}}
    interface = {"name": "nic", "properties": {"ipConfigurations": [configuration]}}
    profile = {"networkProfile": {"networkInterfaceConfigurations": [interface]}}
    return {
        "location": "local",
        "sku": {"name": "Standard_B1s", "capacity": 2},
        "properties": {"virtualMachineProfile": profile},
    }


@pytest.mark.spec("M22")
def test_addresses_of_machines_and_instances() -> None:
    """Static addresses are kept; others come from the subnet, and none is given twice."""
    with ArmHarness(ArmSettings(by_address=True)) as arm:
        prepare(arm)
        create_machine(
            arm, "fixed", privateIPAllocationMethod="Static", privateIPAddress="10.3.0.5"
        )
        create_machine(arm, "any")
        reply = arm.put(f"{COMPUTE}/virtualMachineScaleSets/web", scale_set_body())
        assert reply.status == 201, reply.body
        assert arm.machines("rg:fixed")["fixed"].address == "10.3.0.5"
        assert arm.machines("rg:any")["any"].address == "10.3.0.4"
        web = arm.machines("rg:web/0").values()
        assert [machine.address for machine in web] == ["10.3.0.6", "10.3.0.7"]


def test_a_large_subnet_is_used_in_part() -> None:
    """Its first /16."""
    with ArmHarness(ArmSettings(by_address=True)) as arm:
        prepare(arm, "10.0.0.0/8")
        create_machine(arm, "vm")
        assert arm.machines("rg:vm")["vm"].subnet == "10.0.0.0/16"


def test_a_local_run_has_no_use_for_addresses() -> None:
    """There, networks of different groups may have the same addresses, as on Azure."""
    with ArmHarness() as arm:
        prepare(arm)
        create_machine(arm, "vm")
        assert arm.machines("rg:vm")["vm"].address == ""

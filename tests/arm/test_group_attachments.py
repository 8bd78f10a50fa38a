"""A group is deleted with machines, interfaces, addresses and disks that use each other."""

import pytest

from fairwarning.core.model import Resource
from tests.arm.attached import (
    DISK,
    LB,
    NIC,
    NSG,
    PIP,
    VNET,
    data_disk,
    link,
    network,
    nic,
    put,
    storage,
    vm,
)
from tests.arm.bodies import COMPUTE, VM, VM_SCOPE, notice, refused, scale_set
from tests.fixtures.arm import ArmHarness
from tests.fixtures.fleet import all_entities

pytestmark = pytest.mark.spec("C1", "C6")

RG = "/resourceGroups/rg"
LB_ADDRESS = PIP.replace("/pip", "/front")


def fill(arm: ArmHarness) -> None:
    """Create a machine with notice of its deletion, and all that it needs."""
    network(arm)
    put(arm, NSG)
    put(arm, PIP)
    put(arm, LB_ADDRESS)
    front = {"name": "front", "properties": {"publicIPAddress": link(LB_ADDRESS)}}
    put(arm, LB, frontendIPConfigurations=[front], backendAddressPools=[{"name": "pool"}])
    pool = link(f"{LB}/backendAddressPools/pool")
    nic(arm, publicIPAddress=link(PIP), loadBalancerBackendAddressPools=[pool])
    nic(arm, NIC.replace("/nic", "/spare"))
    put(arm, DISK, diskSizeGB=4)
    attach = {"lun": 1, "createOption": "Attach", "managedDisk": link(DISK)}
    profile = storage(data_disk(0, deleteOption="Delete"), attach)
    vm(arm, VM, NIC, **profile, **notice())
    vm(arm, f"{COMPUTE}/virtualMachines/other")
    scale_set(arm, capacity=1)


def rest(arm: ArmHarness) -> list[str]:
    """Return the ids of all resources in the store."""
    entities = arm.run(all_entities(arm.store))
    return [name for kind, name in entities if kind is Resource]


@pytest.mark.parametrize("restart", [False, True])
def test_one_operation_deletes_all(arm: ArmHarness, *, restart: bool) -> None:
    """Nothing is left of the group, also if the service restarts meanwhile."""
    fill(arm)
    arm.poll(VM_SCOPE)
    accepted = arm.delete(RG)
    assert accepted.status == 202
    arm.advance(60)
    assert arm.get(NIC).json["properties"]["virtualMachine"] == link(VM)
    assert refused(arm.delete(NIC)) == (400, "NicInUse")
    if restart:
        arm.restart()
    arm.advance(400)
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert arm.get(RG).status == 404
    assert rest(arm) == []


def test_a_deletion_that_fails(arm: ArmHarness) -> None:
    """The machine and what it uses stay as they were; a second deletion removes all."""
    fill(arm)
    arm.driver.failing["vm"] = "the host is gone"
    accepted = arm.delete(RG)
    arm.advance(120)
    ended = arm.ended(accepted)
    assert ended["status"] == "Failed"
    assert "the host is gone" in ended["error"]["message"]
    assert arm.get(RG).json["properties"]["provisioningState"] == "Succeeded"
    put(arm, PIP.replace("/pip", "/new"))
    assert arm.get(NIC).json["properties"]["virtualMachine"] == link(VM)
    assert arm.get(VM).status == arm.get(VNET).status == arm.get(DISK).status == 200
    arm.driver.failing.clear()
    accepted = arm.delete(RG)
    arm.advance(120)
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert rest(arm) == []

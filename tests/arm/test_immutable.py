"""What cannot change after the creation of a machine, an instance or a set (C1)."""

import pytest

from tests.arm.bodies import (
    AV,
    COMPUTE,
    VM,
    WEB,
    Json,
    created,
    machine,
    notice,
    policy,
    refused,
    scale_set,
)
from tests.arm.type_samples import without_etags
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1")

FLEXIBLE = f"{COMPUTE}/virtualMachines/web_0"
SPOT = {"priority": "Spot", "evictionPolicy": "Deallocate"}
FLEET = """
[[machine]]
name = "vm"
group = "rg"
zone = "2"

[[availability_set]]
name = "av"
group = "rg"
machines = 3
update_domains = 3

[[scale_set]]
name = "web"
group = "rg"
capacity = 2
terminate_notice = "PT5M"
"""


def model(**members: object) -> Json:
    """Return the change of a set's model."""
    return {"properties": {"virtualMachineProfile": members}}


def properties(**members: object) -> Json:
    """Return the change of a machine or a set."""
    return {"properties": members}


OF_MACHINES = [
    (properties(priority="Spot"), "priority"),
    ({"zones": ["1"]}, "zones"),
    ({"location": "elsewhere"}, "location"),
    (properties(osProfile={"computerName": "b"}), "computerName"),
    (properties(availabilitySet={"id": f"{SUBSCRIPTION}{AV}"}), "availabilitySet"),
]
OF_SETS = [
    (properties(orchestrationMode="Uniform"), "orchestrationMode"),
    (model(priority="Spot"), "priority"),
    ({"zones": ["1"]}, "zones"),
    ({"location": "elsewhere"}, "location"),
    (properties(platformFaultDomainCount=1), "platformFaultDomainCount"),
    (model(osProfile={"computerNamePrefix": "x"}), "computerNamePrefix"),
]
OF_AVAILABILITY = [
    ({"location": "elsewhere"}, "location"),
    (properties(platformUpdateDomainCount=4), "platformUpdateDomainCount"),
]
CASES = [
    *((path, *change) for path in (VM, FLEXIBLE) for change in OF_MACHINES),
    *((WEB, *change) for change in OF_SETS),
    *((AV, *change) for change in OF_AVAILABILITY),
    ("/resourceGroups/rg", {"location": "elsewhere"}, "location"),
]
OF_FILES = [case for case in CASES if case[0] != FLEXIBLE and case[2] != "orchestrationMode"]
"""Those that a fleet file can create, too: it has no Flexible sets."""


def create(arm: ArmHarness) -> None:
    """Create a machine, an availability set and a Flexible set."""
    machine(arm, osProfile={"computerName": "a"})
    created(arm.put(AV, {"location": "local"}))
    scale_set(arm, capacity=1, orchestrationMode="Flexible")


@pytest.mark.parametrize(
    ("from_file", "path", "change", "name"),
    [*((False, *case) for case in CASES), *((True, *case) for case in OF_FILES)],
)
def test_immutable_members(
    arm: ArmHarness, from_file: bool, path: str, change: Json, name: str
) -> None:
    """The error names the member, and nothing of the request is applied."""
    if from_file:
        arm.create_fleet(FLEET)
    else:
        create(arm)
    before = arm.get(path).json
    response = arm.patch(path, {**change, "tags": {"a": "b"}})
    assert arm.get(path).json == before
    codes = {"PropertyChangeNotAllowed", "InvalidResourceGroupLocation"}
    assert response.status == 409
    assert response.error_code in codes
    assert name in response.error_message


@pytest.mark.parametrize("path", [VM, WEB, FLEXIBLE])
def test_the_eviction_policy(arm: ArmHarness, path: str) -> None:
    """It cannot change, and the document still has the one that applies."""
    machine(arm, **SPOT)
    scale_set(arm, model=SPOT, orchestrationMode="Flexible")
    change = {"evictionPolicy": "Delete"}
    response = arm.patch(path, model(**change) if path == WEB else properties(**change))
    assert refused(response) == (409, "PropertyChangeNotAllowed")
    assert '"evictionPolicy":"Deallocate"' in arm.get(path).body.decode()


@pytest.mark.parametrize("path", [VM, WEB, AV, "/resourceGroups/rg"])
def test_the_same_location(arm: ArmHarness, path: str) -> None:
    """It may be spelled differently."""
    create(arm)
    assert arm.put(path, {"location": "Local"}).status == 200


@pytest.mark.parametrize("path", [VM, AV, WEB, f"{COMPUTE}/virtualMachines/av_1"])
def test_resources_of_a_fleet_file(arm: ArmHarness, path: str) -> None:
    """They can be read and changed, and writing them back changes nothing."""
    arm.create_fleet(FLEET)
    document = arm.get(path).json
    machines = {scope: arm.machines(scope) for scope in ("vm", "av", "web/0")}
    response = arm.put(path, document)
    assert response.status == 200, response.body
    assert without_etags(arm.get(path).json) == without_etags(document)
    for scope, before in machines.items():
        for name, each in arm.machines(scope).items():
            kept = ("priority", "eviction", "size", "zone", "terminate_seconds", "model")
            assert [getattr(each, k) for k in kept] == [getattr(before[name], k) for k in kept]
    assert arm.patch(path, {"tags": {"a": "b"}}).json["tags"] == {"a": "b"}


@pytest.mark.spec("E8")
def test_a_machine_in_a_set_has_no_policy_of_its_own(arm: ArmHarness) -> None:
    """The availability set has the policy; one on the machine is refused."""
    owner = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
    created(arm.put(AV, {"location": "local"}))
    new = arm.put(VM, {"location": "local", **properties(**owner, **policy(reboot=True))})
    assert refused(new) == (409, "OperationNotAllowed")
    machine(arm, VM, **owner, **notice())
    later = arm.patch(VM, properties(**policy(reboot=True)))
    assert refused(later) == (409, "OperationNotAllowed")

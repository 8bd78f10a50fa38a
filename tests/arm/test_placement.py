"""Placement: placement groups, zones, availability sets and their domains, as Azure shows them."""

from collections import Counter
from typing import Any

import pytest

from tests.arm.bodies import (
    AV,
    AV_SCOPE,
    COMPUTE,
    VM,
    WEB,
    created,
    names,
    notice,
    refused,
    scale_set,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")


def single(arm: ArmHarness) -> bool:
    """Return whether the set has a single placement group."""
    value: bool = arm.get(WEB).json["properties"]["singlePlacementGroup"]
    return value


@pytest.mark.parametrize("value", [True, False])
def test_the_sent_value_is_shown(arm: ArmHarness, value: bool) -> None:
    """`singlePlacementGroup` reads back as it was sent, whatever the number of instances."""
    scale_set(arm, capacity=2, singlePlacementGroup=value)
    assert single(arm) is value
    created(arm.put(WEB, {"location": "local", "sku": {"capacity": 3}}))
    assert single(arm) is value


def test_without_a_value_it_follows_the_set(arm: ArmHarness) -> None:
    """A set has one placement group while it has at most 100 instances; a Flexible set is false."""
    scale_set(arm, capacity=100)
    assert single(arm) is True
    created(arm.put(WEB, {"location": "local", "sku": {"capacity": 101}}))
    assert single(arm) is False
    flexible = scale_set(arm, f"{WEB}-flexible", capacity=1, orchestrationMode="Flexible")
    assert arm.get(flexible).json["properties"]["singlePlacementGroup"] is False


def test_a_single_placement_group_holds_100_instances(arm: ArmHarness) -> None:
    """More are refused, at creation and later, and nothing changes."""
    body = {
        "location": "local",
        "sku": {"capacity": 101},
        "properties": {"singlePlacementGroup": True},
    }
    response = arm.put(WEB, body)
    assert refused(response) == (409, "OperationNotAllowed")
    assert "'100'" in response.error_message
    assert "singlePlacementGroup" in response.error_message
    assert arm.get(WEB).status == 404
    scale_set(arm, capacity=2, singlePlacementGroup=True)
    change = {"sku": {"capacity": 101}, "tags": {"a": "b"}}
    assert refused(arm.patch(WEB, change)) == (409, "OperationNotAllowed")
    document = arm.get(WEB).json
    assert (document["sku"]["capacity"], "tags" in document) == (2, False)


def test_a_single_placement_group_may_become_several(arm: ArmHarness) -> None:
    """True may become false, in the same request as a higher capacity; false stays false."""
    scale_set(arm, capacity=2, singlePlacementGroup=True)
    change = {"sku": {"capacity": 150}, "properties": {"singlePlacementGroup": False}}
    assert arm.patch(WEB, change).status == 200
    assert single(arm) is False
    response = arm.patch(WEB, {"properties": {"singlePlacementGroup": True}})
    assert refused(response) == (409, "PropertyChangeNotAllowed")
    assert "singlePlacementGroup" in response.error_message


def test_instances_are_spread_over_the_zones(arm: ArmHarness) -> None:
    """`--zones 1 2 3`: the set has all zones, and each instance has one of them."""
    body = {"location": "local", "zones": ["1", "2", "3"], "sku": {"capacity": 5}}
    created(arm.put(WEB, body))
    assert arm.get(WEB).json["zones"] == ["1", "2", "3"]
    instances = arm.get(f"{WEB}/virtualMachines").json["value"]
    assert [instance["zones"] for instance in instances] == [["1"], ["2"], ["3"], ["1"], ["2"]]
    arm.post(f"{WEB}/delete", {"instanceIds": ["0", "3"]})
    arm.advance(120)
    created(arm.put(WEB, {"location": "local", "sku": {"capacity": 5}}))
    instances = arm.get(f"{WEB}/virtualMachines").json["value"]
    assert [instance["zones"][0] for instance in instances] == ["2", "3", "2", "1", "1"]


@pytest.mark.parametrize("zones", [["1", "1"], [""], [{}], "1"])
def test_invalid_zones(arm: ArmHarness, zones: object) -> None:
    """The error names the member; nothing is created."""
    for path in (WEB, VM):
        response = arm.put(path, {"location": "local", "zones": zones})
        assert refused(response) == (400, "InvalidParameter")
        assert "zones" in response.error_message
        assert arm.get(path).status == 404


def test_a_machine_has_one_zone(arm: ArmHarness) -> None:
    """Several zones are for scale sets."""
    response = arm.put(VM, {"location": "local", "zones": ["1", "2"]})
    assert refused(response) == (400, "InvalidParameter")
    assert "one zone" in response.error_message


SETS = f"{COMPUTE}/availabilitySets"
MACHINES = f"{COMPUTE}/virtualMachines"
LOCATION = {"location": "local"}
IN_SET = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}


def with_machines(arm: ArmHarness, count: int, **properties: object) -> None:
    """Create an availability set with this many machines."""
    arm.group()
    created(arm.put(AV, {**LOCATION, "properties": properties}))
    for number in range(count):
        created(
            arm.put(f"{MACHINES}/m{number}", {**LOCATION, "properties": {**IN_SET, **notice()}})
        )


@pytest.mark.parametrize(
    "properties",
    [
        {"platformUpdateDomainCount": 0},
        {"platformUpdateDomainCount": 21},
        {"platformFaultDomainCount": 4},
        {"platformFaultDomainCount": "many"},
    ],
)
def test_invalid_domain_counts(arm: ArmHarness, properties: Any) -> None:  # noqa: ANN401  (any JSON)
    """Numbers outside Azure's ranges are refused with the range."""
    response = arm.put(AV, {**LOCATION, "properties": properties})
    assert refused(response) == (400, "InvalidParameter")
    assert next(iter(properties)) in response.error_message
    assert names(arm, SETS) == []


@pytest.mark.spec("E4")
def test_machines_are_spread(arm: ArmHarness) -> None:
    """Each machine gets the emptiest update and fault domain; the set lists the machines."""
    with_machines(arm, 6, platformUpdateDomainCount=3)
    machines = arm.machines(AV_SCOPE).values()
    assert Counter(machine.update_domain for machine in machines) == {0: 2, 1: 2, 2: 2}
    assert Counter(machine.fault_domain for machine in machines) == {0: 3, 1: 3}
    listed = [machine["id"] for machine in arm.get(AV).json["properties"]["virtualMachines"]]
    assert listed == [f"{SUBSCRIPTION}{MACHINES}/m{n}" for n in range(6)]
    document = arm.get(f"{MACHINES}/m0").json["properties"]
    assert document["availabilitySet"]["id"].lower() == f"{SUBSCRIPTION}{AV}".lower()
    view = arm.get(f"{MACHINES}/m4/instanceView").json
    assert view["platformUpdateDomain"] == 1


def test_the_set_of_a_machine(arm: ArmHarness) -> None:
    """A machine's set must exist in the same group; its id is case-insensitive."""
    arm.group("other")
    for path in (AV, AV.replace("/rg/", "/other/")):
        created(arm.put(path, LOCATION))
    elsewhere = f"{SUBSCRIPTION}{AV}".replace("/rg/", "/other/")
    body = {**LOCATION, "properties": {"availabilitySet": {"id": elsewhere}}}
    assert refused(arm.put(f"{MACHINES}/vm", body)) == (400, "InvalidParameter")
    owner = f"{SUBSCRIPTION}{AV}".upper().replace("SUBSCRIPTIONS", "subscriptions")
    body = {**LOCATION, "properties": {"availabilitySet": {"id": owner}}}
    created(arm.put(f"{MACHINES}/vm", body))
    assert list(arm.machines(AV_SCOPE)) == ["vm"]

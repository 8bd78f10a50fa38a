from collections import Counter
from typing import Any

import pytest

from tests.arm.bodies import AV, AV_SCOPE, COMPUTE, created, names, notice, refused
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

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
    for owner, expected in (
        (f"{SUBSCRIPTION}{AV}x", (400, "InvalidResourceReference")),
        (f"{SUBSCRIPTION}{AV}".replace("/rg/", "/other/"), (400, "InvalidParameter")),
        ("av", (400, "LinkedInvalidPropertyId")),
    ):
        body = {**LOCATION, "properties": {"availabilitySet": {"id": owner}}}
        assert refused(arm.put(f"{MACHINES}/vm", body)) == expected
    owner = f"{SUBSCRIPTION}{AV}".upper().replace("SUBSCRIPTIONS", "subscriptions")
    created(
        arm.put(f"{MACHINES}/vm", {**LOCATION, "properties": {"availabilitySet": {"id": owner}}})
    )
    assert list(arm.machines(AV_SCOPE)) == ["vm"]

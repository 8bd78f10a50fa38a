"""Deletions that wait for each other leave the control plane consistent."""

import pytest

from fairwarning.core.model import Scope
from tests.arm.everything import AVAILABILITY, MACHINE, SET, Json
from tests.fixtures.arm import ArmHarness
from tests.fixtures.fleet import all_entities
from tests.hostile.arm_consistency import Entities, assert_all_done, assert_consistent

DAYS, DAY_SECONDS = 30, 24 * 3600


def entities(arm: ArmHarness) -> Entities:
    """Return everything that is stored."""
    return arm.run(all_entities(arm.store))


@pytest.mark.spec("C1")
@pytest.mark.parametrize("error", ["", "the hardware is broken"], ids=["works", "fails"])
@pytest.mark.parametrize(
    ("thing", "body", "inside"),
    [
        ("virtualMachines/a", MACHINE, ""),
        ("virtualMachineScaleSets/a", SET, ""),
        ("virtualMachineScaleSets/a", SET, "/virtualMachines/0"),
        ("availabilitySets/a", AVAILABILITY, ""),
    ],
    ids=["machine", "set", "instance", "availability"],
)
def test_a_group_waits_for_deletions(thing: str, body: Json, inside: str, error: str) -> None:
    """A resource being deleted is gone before its group is, or both stay."""
    with ArmHarness() as arm:
        path = f"{arm.group()}/providers/Microsoft.Compute/{thing}"
        assert arm.put(path, body).status in {200, 201}
        for scope in arm.run(arm.store.list_ids(Scope, "", 10)):
            arm.poll(scope)
        arm.driver.fail = error
        assert arm.delete(path + inside).status in {200, 202}
        assert_consistent(entities(arm))
        assert arm.delete("/resourceGroups/rg").status in {202, 409}
        for _ in range(20):
            assert_consistent(entities(arm))
            arm.advance(60)
        arm.driver.fail = ""
        for _ in range(DAYS):
            arm.advance(DAY_SECONDS)
        assert_all_done(entities(arm))
        there = arm.get("/resourceGroups/rg").status == 200
        assert there or not arm.get("/resources").json["value"]

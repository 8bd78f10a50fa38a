"""Whatever is asked of the control plane in whatever order, what it holds stays sound."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.core.model import Scope
from tests.arm.everything import AVAILABILITY, MACHINE, SERVICE, SET, Json, state
from tests.fixtures.arm import ArmHarness
from tests.hostile.arm_requests import Choices
from tests.hostile.arm_steps import Life, assert_ends, assert_sound
from tests.hostile.test_arm_fuzz import DOCUMENTED

EXAMPLES = settings().max_examples * 2
STEP_BYTES = 16
STEPS = 40


@pytest.mark.spec("C1")
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.lists(st.binary(min_size=STEP_BYTES, max_size=STEP_BYTES), min_size=5, max_size=STEPS))
def test_no_sequence_does_harm(steps: list[bytes]) -> None:
    """Things and what is written about them come and go together; all that is begun ends."""
    with ArmHarness() as arm:
        Life(arm, Choices(b"")).begin()
        for data in steps:
            take(arm, data)
        assert_ends(arm)


def take(arm: ArmHarness, data: bytes) -> None:
    """One step, which is done, or refused and nothing has changed."""
    before = state(arm)
    life = Life(arm, Choices(data))
    life.step()
    for method, path, answer in life.asked:
        assert answer.status in DOCUMENTED[method], (path, answer)
    if life.asked and all(answer.status >= 400 for *_, answer in life.asked):
        assert state(arm) == before, life.asked
    assert_sound(arm)


@pytest.mark.spec("C1")
@pytest.mark.parametrize("error", ["", "it is broken"], ids=["works", "fails"])
@pytest.mark.parametrize(
    ("thing", "body", "inside"),
    [
        ("virtualMachines/a", MACHINE, ""),
        ("virtualMachineScaleSets/a", SET, ""),
        ("virtualMachineScaleSets/a", SET, "/virtualMachines/0"),
        ("cloudServices/a", SERVICE, ""),
        ("cloudServices/a", SERVICE, "/roleInstances/role_IN_0"),
        ("availabilitySets/a", AVAILABILITY, ""),
    ],
    ids=["machine", "set", "instance", "service", "role", "availability"],
)
def test_a_group_waits_for_what_leaves(thing: str, body: Json, inside: str, error: str) -> None:
    """What is being deleted when its group is deleted is gone before the group is, or both stay."""
    with ArmHarness() as arm:
        path = f"{arm.group()}/providers/Microsoft.Compute/{thing}"
        assert arm.put(path, body).status in {200, 201}
        for scope in arm._runner.run(arm.store.list_ids(Scope, "", 10)):
            arm.poll(scope)
        arm.driver.fail = error
        assert arm.delete(path + inside).status in {200, 202}
        assert_sound(arm)
        assert arm.delete("/resourceGroups/rg").status in {202, 409}
        for _ in range(20):
            assert_sound(arm)
            arm.advance(60)
        assert_ends(arm)
        there = arm.get("/resourceGroups/rg").status == 200
        assert there or not arm.get("/resources").json["value"]

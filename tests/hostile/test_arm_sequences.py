"""Any sequence of requests leaves the control plane consistent."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.core.model import Scope
from tests.arm.everything import AVAILABILITY, MACHINE, SET, Json, state
from tests.fixtures.arm import ArmHarness
from tests.hostile.arm_requests import Choices
from tests.hostile.arm_steps import RandomSteps, assert_all_done, assert_consistent
from tests.hostile.test_arm_fuzz import DOCUMENTED

EXAMPLES = settings().max_examples * 2
STEP_BYTES = 16
STEPS = 40


@pytest.mark.spec("C1")
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.lists(st.binary(min_size=STEP_BYTES, max_size=STEP_BYTES), min_size=5, max_size=STEPS))
def test_random_sequences(steps: list[bytes]) -> None:
    """Resources and entities stay consistent, and every operation ends."""
    with ArmHarness() as arm:
        RandomSteps(arm, Choices(b"")).begin()
        for data in steps:
            take_step(arm, data)
        assert_all_done(arm)


def take_step(arm: ArmHarness, data: bytes) -> None:
    """Take one step, which succeeds, or is refused without a change."""
    before = state(arm)
    steps = RandomSteps(arm, Choices(data))
    steps.step()
    for method, path, response in steps.asked:
        assert response.status in DOCUMENTED[method], (path, response)
    if steps.asked and all(response.status >= 400 for *_, response in steps.asked):
        assert state(arm) == before, steps.asked
    assert_consistent(arm)


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
        assert_consistent(arm)
        assert arm.delete("/resourceGroups/rg").status in {202, 409}
        for _ in range(20):
            assert_consistent(arm)
            arm.advance(60)
        assert_all_done(arm)
        there = arm.get("/resourceGroups/rg").status == 200
        assert there or not arm.get("/resources").json["value"]

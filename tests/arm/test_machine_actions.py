"""Actions that do nothing to a machine, and those that are refused by name (C1, C2)."""

import pytest

from tests.arm.bodies import VM, machine, refused
from tests.arm.everything import state
from tests.fixtures.arm import ArmHarness

pytestmark = pytest.mark.spec("C1")


def test_reapply() -> None:
    """`az vm reapply` is accepted and does nothing to the machine."""
    with ArmHarness() as arm:
        machine(arm)
        before = arm.scope("rg:vm")
        response = arm.post(f"{VM}/reapply")
        assert response.status == 202
        assert arm.ended(response)["status"] == "Succeeded"
        assert arm.scope("rg:vm").machines == before.machines
        assert arm.driver.impacts == []
        assert refused(arm.post(f"{VM}2/reapply")) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    "action",
    [
        "generalize",
        "capture",
        "assessPatches",
        "installPatches",
        "retrieveBootDiagnosticsData",
        "runCommand",
    ],
)
def test_refused_actions(action: str) -> None:
    """`az vm generalize`, `az vm assess-patches` and others are refused by name."""
    with ArmHarness() as arm:
        machine(arm)
        before = state(arm)
        response = arm.post(f"{VM}/{action}", {})
        assert refused(response) == (409, "OperationNotAllowed")
        assert f"'{action}' is not supported" in response.error_message
        assert state(arm) == before

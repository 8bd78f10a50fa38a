from typing import Any

import pytest

from fairwarning.core.commands import Maintain
from fairwarning.core.model import ImpactKind
from tests.arm.bodies import WEB, WEB_SCOPE, notice, refused, scale_set, told
from tests.fixtures.arm import ArmHarness


def told_of(arm: ArmHarness) -> list[tuple[str, str, list[str]]]:
    """What the set's first instances are told."""
    return told(arm, WEB_SCOPE)


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("action", "kind", "event"),
    [
        ("restart", ImpactKind.REBOOT, "Reboot"),
        ("redeploy", ImpactKind.REDEPLOY, "Redeploy"),
        ("reimage", ImpactKind.REIMAGE, ""),
        ("reimageall", ImpactKind.REIMAGE, ""),
        ("deallocate", ImpactKind.DEALLOCATE, ""),
        ("powerOff", ImpactKind.STOP, ""),
        ("start", ImpactKind.START, ""),
    ],
)
def test_actions(action: str, kind: ImpactKind, event: str) -> None:
    """For those that are named, by id or by name, or for all if none is or a star is."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        for body, expected in (
            ({"instanceIds": ["1"]}, {"web_1"}),
            ({"instanceIds": ["web_1", "2", "1"]}, {"web_1", "web_2"}),
            ({"instanceIds": ["*"]}, {"web_0", "web_1", "web_2"}),
            (None, {"web_0", "web_1", "web_2"}),
        ):
            arm.driver.given.clear()
            asked = arm.post(f"{WEB}/{action}", body)
            assert asked.status == 202
            assert {one[0] for one in told_of(arm)} == ({event} if event else set())
            arm.advance(1200)
            assert {(one.machine, one.kind) for one in arm.driver.given} == {
                (name, kind) for name in expected
            }
            assert arm.ended(asked)["status"] == "Succeeded"


@pytest.mark.parametrize("ids", [["7"], ["db_0"], ["x"], [0], [], "0", ["01"], ["1", "7"]])
@pytest.mark.parametrize("action", ["restart", "delete", "manualupgrade", "performMaintenance"])
def test_instances_that_are_none_of_its(action: str, ids: Any) -> None:  # noqa: ANN401
    """One that is wrong is refused, and nothing is done to the others."""
    with ArmHarness() as arm:
        scale_set(arm)
        answer = arm.post(f"{WEB}/{action}", {"instanceIds": ids})
        assert answer.status >= 400
        assert refused(answer) == (400, "InvalidParameter")
        assert arm.driver.given == []


@pytest.mark.parametrize("action", ["delete", "manualupgrade"])
def test_nobody_deletes_all_by_saying_nothing(action: str) -> None:
    """Ids are required there."""
    with ArmHarness() as arm:
        scale_set(arm)
        answer = arm.post(f"{WEB}/{action}")
        assert refused(answer) == (400, "InvalidParameter")
        assert "instanceIds" in answer.error_message


@pytest.mark.spec("T4", "T5")
def test_a_whole_set_goes() -> None:
    """Each instance with its notice; the set is there until the last has gone."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        asked = arm.delete(WEB)
        assert asked.status == 202
        assert sorted(told_of(arm)) == [("Terminate", "Scheduled", [f"web_{n}"]) for n in range(3)]
        assert arm.get(WEB).json["properties"]["provisioningState"] == "Deleting"
        assert refused(arm.patch(WEB, {"sku": {"capacity": 5}})) == (409, "Conflict")
        again = arm.delete(WEB)  # which is the same operation
        assert again.headers["azure-asyncoperation"] == asked.headers["azure-asyncoperation"]
        arm.advance(400)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert refused(arm.get(WEB)) == (404, "ResourceNotFound")
        assert arm.delete(WEB).status == 204


def test_announced_maintenance_may_begin_at_once() -> None:
    """For the instances that are named and have some; where there is none, 409."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.poll(WEB_SCOPE)
        assert refused(arm.post(f"{WEB}/performMaintenance")) == (409, "OperationNotAllowed")
        for number in (0, 1):
            machines = (f"web_{number}",)
            arm.do(Maintain(scope=WEB_SCOPE, operation=f"o{number}", machines=machines))
        asked = arm.post(f"{WEB}/performMaintenance", {"instanceIds": ["1"]})
        assert asked.status == 202
        assert sorted(told_of(arm)) == [
            ("Freeze", "Scheduled", ["web_0"]),
            ("Freeze", "Started", ["web_1"]),
        ]
        none = arm.post(f"{WEB}/performMaintenance", {"instanceIds": ["2"]})
        assert refused(none) == (409, "OperationNotAllowed")


def test_how_many_are_how() -> None:
    """The instance view of a set counts its instances by their states."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.post(f"{WEB}/deallocate", {"instanceIds": ["0"]})
        arm.advance(60)
        view = arm.get(f"{WEB}/instanceView").json["virtualMachine"]["statusesSummary"]
        assert {one["code"]: one["count"] for one in view} == {
            "PowerState/deallocated": 1,
            "PowerState/running": 2,
            "ProvisioningState/succeeded": 3,
        }

from typing import Any

import pytest

from fairwarning.core.model import ImpactKind
from tests.arm.bodies import (
    WEB,
    WEB_SCOPE,
    notice,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import ArmHarness


def web_events(arm: ArmHarness) -> list[tuple[str, str, list[str]]]:
    """Return the events that the first instances of the set see."""
    return visible_events(arm, WEB_SCOPE)


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("action", "kind", "event"),
    [
        ("restart", ImpactKind.REBOOT, "Reboot"),
        ("deallocate", ImpactKind.DEALLOCATE, ""),
        ("reimageall", ImpactKind.REIMAGE, ""),
    ],
)
def test_actions(action: str, kind: ImpactKind, event: str) -> None:
    """An action applies to the instances with these ids or names, or to all."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        for body, expected in (
            ({"instanceIds": ["1"]}, {"web_1"}),
            ({"instanceIds": ["web_1", "2", "1"]}, {"web_1", "web_2"}),
            ({"instanceIds": ["*"]}, {"web_0", "web_1", "web_2"}),
            (None, {"web_0", "web_1", "web_2"}),
        ):
            arm.driver.impacts.clear()
            accepted = arm.post(f"{WEB}/{action}", body)
            assert accepted.status == 202
            assert {event_[0] for event_ in web_events(arm)} == ({event} if event else set())
            arm.advance(1200)
            assert {(impact.machine, impact.kind) for impact in arm.driver.impacts} == {
                (name, kind) for name in expected
            }
            assert arm.ended(accepted)["status"] == "Succeeded"


@pytest.mark.parametrize("ids", [["7"], ["db_0"], ["x"], [0], [], "0", ["01"], ["1", "7"]])
@pytest.mark.parametrize("action", ["restart", "delete", "manualupgrade", "performMaintenance"])
def test_invalid_instance_ids(action: str, ids: Any) -> None:  # noqa: ANN401  (any JSON)
    """If any id is invalid, the request is refused and no action runs."""
    with ArmHarness() as arm:
        scale_set(arm)
        response = arm.post(f"{WEB}/{action}", {"instanceIds": ids})
        assert response.status >= 400
        assert refused(response) == (400, "InvalidParameter")
        assert arm.driver.impacts == []


@pytest.mark.parametrize("action", ["delete", "manualupgrade"])
def test_required_instance_ids(action: str) -> None:
    """A delete or an upgrade needs instance ids."""
    with ArmHarness() as arm:
        scale_set(arm)
        response = arm.post(f"{WEB}/{action}")
        assert refused(response) == (400, "InvalidParameter")
        assert "instanceIds" in response.error_message


@pytest.mark.spec("T4", "T5")
def test_a_set_is_deleted() -> None:
    """Each instance gets its notice; the set exists until the last one is deleted."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        accepted = arm.delete(WEB)
        assert accepted.status == 202
        assert sorted(web_events(arm)) == [
            ("Terminate", "Scheduled", [f"web_{n}"]) for n in range(3)
        ]
        assert arm.get(WEB).json["properties"]["provisioningState"] == "Deleting"
        assert refused(arm.patch(WEB, {"sku": {"capacity": 5}})) == (409, "Conflict")
        again = arm.delete(WEB)  # which is the same operation
        assert again.headers["azure-asyncoperation"] == accepted.headers["azure-asyncoperation"]
        arm.advance(400)
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert refused(arm.get(WEB)) == (404, "ResourceNotFound")
        assert arm.delete(WEB).status == 204


def test_the_instance_view_of_a_set() -> None:
    """It has the number of instances in each state."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.post(f"{WEB}/deallocate", {"instanceIds": ["0"]})
        arm.advance(60)
        view = arm.get(f"{WEB}/instanceView").json["virtualMachine"]["statusesSummary"]
        assert {status["code"]: status["count"] for status in view} == {
            "PowerState/deallocated": 1,
            "PowerState/running": 2,
            "ProvisioningState/succeeded": 3,
        }

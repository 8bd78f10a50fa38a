import pytest

from fairwarning.arm.resources import awaited
from fairwarning.service.clock import VirtualClock
from fairwarning.service.config.settings import ArmSettings
from tests.arm.bodies import (
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    machine,
    notice,
    scale_set,
)
from tests.fixtures.arm import ArmHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C1")

PAUSED = "the clock to move on: it is paused, and `fairwarning clock` moves it"


def waiting(arm: ArmHarness, accepted: Response) -> list[str]:
    """Return what the status document says that an operation waits for."""
    properties = arm.ended(accepted).get("properties", {})
    return [text for text in properties.get("waitingFor", "").split("; ") if text]


def test_an_approval() -> None:
    """While a restart is announced, the operation waits for approval or the end of the notice."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/restart")
        assert waiting(arm, accepted) == [PAUSED, "Reboot of vm: approval, or 12:15:00Z"]
        assert "properties" not in arm.follow(accepted.headers["azure-asyncoperation"]).headers
        arm.advance(2000)
        assert waiting(arm, accepted) == []
        assert "properties" not in arm.ended(accepted)


def test_an_impact_in_progress() -> None:
    """Once the event has started, the operation waits for the end of the impact."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/restart")
        arm.advance(15 * 60)
        (_, sentence) = waiting(arm, accepted)
        assert sentence == "the end of the reboot of vm, by 13:15:00Z at the latest"


def test_a_running_clock_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a paused clock is mentioned."""
    monkeypatch.setattr(VirtualClock, "rate", 1.0)
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/restart")
        assert waiting(arm, accepted) == ["Reboot of vm: approval, or 12:15:00Z"]


def test_instances_of_a_scale_set() -> None:
    """The sentence names the instances that the operation deletes."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice("PT10M"))
        arm.poll(WEB_SCOPE)
        for accepted in (
            arm.post(f"{WEB}/delete", {"instanceIds": ["1"]}),
            arm.delete(f"{WEB}/virtualMachines/2"),
            arm.put(WEB, {"sku": {"capacity": 0}}),
        ):
            (_, sentence) = waiting(arm, accepted)
            assert sentence.startswith("Terminate of web_")
            assert sentence.endswith(": approval, or 12:10:00Z")


def test_a_group_and_a_set_that_are_deleted() -> None:
    """The deletion of a set waits for its instances, and that of a group for all machines."""
    with ArmHarness() as arm:
        machine(arm, **notice("PT5M"))
        scale_set(arm, model=notice("PT5M"), capacity=1)
        for scope in (VM_SCOPE, WEB_SCOPE):
            arm.poll(scope)
        accepted = arm.delete("/resourceGroups/rg")
        assert waiting(arm, accepted) == [
            PAUSED,
            "Terminate of vm: approval, or 12:05:00Z",
            "Terminate of web_0: approval, or 12:05:00Z",
        ]


def test_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most ten sentences, and how many more there are."""
    monkeypatch.setattr(awaited, "_SENTENCES", 2)
    with ArmHarness() as arm:
        for number in range(4):
            path = VM.replace("/vm", f"/vm{number}")
            machine(arm, path, **notice("PT5M"))
            arm.poll(f"rg:vm{number}")
        accepted = arm.delete("/resourceGroups/rg")
        assert waiting(arm, accepted)[1:] == [
            "Terminate of vm0: approval, or 12:05:00Z",
            "Terminate of vm1: approval, or 12:05:00Z",
            "2 more events and impacts",
        ]


def test_operations_that_end_at_acceptance() -> None:
    """Nothing is awaited if operations end when they are accepted."""
    with ArmHarness(ArmSettings(ends_at_acceptance=True)) as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        assert "properties" not in arm.ended(arm.post(f"{VM}/restart"))

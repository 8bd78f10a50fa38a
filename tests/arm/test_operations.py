import pytest

from fairwarning.core.commands import Cancel
from fairwarning.service.config.settings import ArmSettings
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import VM, VM_SCOPE, WEB, WEB_SCOPE, machine, notice, scale_set, told
from tests.fixtures.arm import SUBSCRIPTION, VERSION, ArmHarness

ANN = Principal(name="ann", role=Role.TENANT, group="rg")
BOB = Principal(name="bob", role=Role.TENANT, group="other")
STATUS, MONITOR = "azure-asyncoperation", "location"


@pytest.mark.spec("C1")
def test_where_to_ask() -> None:
    """202, no body, two URLs as the caller can reach them, how long to wait, and the id."""
    with ArmHarness() as arm:
        machine(arm)
        asked = arm.post(f"{VM}/restart")
        assert (asked.status, asked.body) == (202, b"")
        operation = asked.headers["x-ms-request-id"]
        start = f"https://127.0.0.1:8171{SUBSCRIPTION}/providers/Microsoft.Compute/locations/local"
        assert asked.headers[STATUS] == f"{start}/operations/{operation}?api-version={VERSION}"
        assert asked.headers[MONITOR].startswith(f"{start}/operations/{operation}?")
        assert "monitor=true" in asked.headers[MONITOR]
        assert int(asked.headers["retry-after"]) > 0


@pytest.mark.spec("C1")
def test_it_ends_when_it_has_happened() -> None:
    """Not at acceptance, not when the event starts: when the machine has been restarted."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        asked = arm.post(f"{VM}/restart")
        for seconds in (0, 899, 30):
            arm.advance(seconds)
            status = arm.follow(asked.headers[STATUS])
            assert (status.status, status.json["status"]) == (200, "InProgress")
            assert "endTime" not in status.json
            assert int(status.headers["retry-after"]) > 0
            monitor = arm.follow(asked.headers[MONITOR])
            assert (monitor.status, monitor.body) == (202, b"")
            assert int(monitor.headers["retry-after"]) > 0
            assert arm.follow(monitor.headers[MONITOR]).status == 202
        arm.advance(60)
        status = arm.follow(asked.headers[STATUS])
        assert status.json == {
            "name": asked.headers["x-ms-request-id"],
            "startTime": "2026-01-09T12:00:00Z",
            "endTime": "2026-01-09T12:16:00Z",
            "status": "Succeeded",
        }
        assert "retry-after" not in status.headers
        assert arm.follow(asked.headers[MONITOR]).status == 200


def test_it_may_end_at_acceptance() -> None:
    """A setting, for those who do not want to wait: the event is there and happens all the same."""
    with ArmHarness(ArmSettings(ends_at_acceptance=True)) as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        asked = arm.post(f"{VM}/restart")
        ended = arm.ended(asked)
        assert ended["status"] == "Succeeded"
        assert ended["endTime"] == ended["startTime"]
        assert arm.follow(asked.headers[MONITOR]).status == 200
        assert told(arm, VM_SCOPE) == [("Reboot", "Scheduled", ["vm"])]


def test_a_failure_is_told_with_its_reason() -> None:
    """By the status, and by the other URL with an error; the machine is still there."""
    with ArmHarness() as arm:
        machine(arm)
        arm.driver.fail = "the disk is full"
        asked = arm.delete(VM)
        arm.advance(60)
        ended = arm.ended(asked)
        assert ended["status"] == "Failed"
        assert "the disk is full" in ended["error"]["message"]
        monitor = arm.follow(asked.headers[MONITOR])
        assert monitor.status == 409
        assert monitor.json["error"] == ended["error"]
        assert arm.get(VM).json["properties"]["provisioningState"] == "Succeeded"


@pytest.mark.spec("E5")
def test_a_delete_takes_the_place_of_a_restart() -> None:
    """The restart is told as Canceled."""
    with ArmHarness() as arm:
        machine(arm, **notice())
        arm.poll(VM_SCOPE)
        restart = arm.post(f"{VM}/restart")
        deleted = arm.delete(VM)
        ended = arm.ended(restart)
        assert ended["status"] == "Canceled"
        assert ended["error"]["code"] == "OperationPreempted"
        assert arm.follow(restart.headers[MONITOR]).status == 409
        assert arm.ended(deleted)["status"] == "InProgress"
        arm.advance(400)
        assert arm.ended(deleted)["status"] == "Succeeded"


def test_an_event_that_is_cancelled() -> None:
    """Whoever waits for its operation hears so, and a set that was to go may be deleted again."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1, model=notice())
        arm.poll(WEB_SCOPE)
        asked = arm.delete(WEB)
        (event,) = arm.events(WEB_SCOPE)
        arm.do(Cancel(scope=WEB_SCOPE, event=event.id))
        assert arm.ended(asked)["status"] in {"Canceled", "Failed"}
        assert arm.get(WEB).json["properties"]["provisioningState"] == "Succeeded"
        assert arm.delete(WEB).status == 202


@pytest.mark.spec("C1", "E9")
def test_they_outlive_the_service() -> None:
    """The same URLs answer after a restart of the service, while it lasts and when it is over."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        done = arm.post(f"{VM}/deallocate")
        arm.advance(60)
        arm.post(f"{VM}/start")
        arm.advance(60)
        asked = arm.post(f"{VM}/restart")
        arm.restart()
        assert arm.ended(done)["status"] == "Succeeded"
        assert arm.ended(asked)["status"] == "InProgress"
        arm.advance(2000)
        assert arm.ended(asked)["status"] == "Succeeded"


def test_a_change_of_a_set_is_an_operation_while_instances_leave() -> None:
    """A PUT answers 200 with the set, and says where to ask only if there is something to ask."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=3)
        grown = arm.put(WEB, {"sku": {"capacity": 4}})
        assert grown.status == 200
        assert STATUS not in grown.headers
        shrunk = arm.put(WEB, {"sku": {"capacity": 1}})
        assert (shrunk.status, arm.ended(shrunk)["status"]) == (200, "InProgress")
        arm.advance(60)
        assert arm.ended(shrunk)["status"] == "Succeeded"


def test_whose_they_are() -> None:
    """Who asked learns of it, and who may see everything; others do not."""
    with ArmHarness() as arm:
        machine(arm)
        asked = arm.post(f"{VM}/restart", principal=ANN)
        assert arm.ended(asked)["name"]
        path = f"/providers/Microsoft.Compute/locations/local/operations/{arm.ended(asked)['name']}"
        assert arm.get(path, principal=ANN).status == 200
        assert arm.get(path, principal=BOB).status == 404
        assert arm.get(f"{path}0").status == 404

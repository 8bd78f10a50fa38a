from urllib.parse import quote

import pytest

from fairwarning.service.config.settings import ArmSettings
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import ANN, VM, VM_SCOPE, machine, notice, refused, visible_events
from tests.fixtures.arm import SUBSCRIPTION, VERSION, ArmHarness
from tests.fixtures.tokens import sign_token

BOB = Principal(name="bob", role=Role.TENANT, group="other")
STATUS, MONITOR = "azure-asyncoperation", "location"


@pytest.mark.spec("C1")
def test_polling_urls(arm: ArmHarness) -> None:
    """A 202 has no body, two polling URLs on the client's host, Retry-After and the id."""
    machine(arm)
    accepted = arm.post(f"{VM}/restart")
    assert (accepted.status, accepted.body) == (202, b"")
    operation = accepted.headers["x-ms-request-id"]
    start = f"https://127.0.0.1:8171{SUBSCRIPTION}/providers/Microsoft.Compute/locations/local"
    assert accepted.headers[STATUS] == f"{start}/operations/{operation}?api-version={VERSION}"
    assert accepted.headers[MONITOR].startswith(f"{start}/operations/{operation}?")
    assert "monitor=true" in accepted.headers[MONITOR]
    assert int(accepted.headers["retry-after"]) > 0


def test_a_location_with_line_breaks(arm: ArmHarness) -> None:
    """The URLs in the headers are encoded, whatever the path of the request."""
    machine(arm)
    arm.poll(VM_SCOPE)
    accepted = arm.post(f"{VM}/restart")
    for region in ("x\r\nset-cookie: a=b", "\u4e00", "a b%"):
        path = f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{region}/operations/"
        query = f"monitor=true&api-version={VERSION}"
        token = {"authorization": f"Bearer {sign_token(arm.tokens, arm.principal)}"}
        path += accepted.headers["x-ms-request-id"]
        response = arm.send("GET", path, query, b"", token)
        assert response.status == 202
        assert quote(region, safe=":=") in response.headers[MONITOR]
        assert arm.follow(response.headers[MONITOR]).status == 202


@pytest.mark.spec("C1")
def test_an_operation_ends_after_the_impact(arm: ArmHarness) -> None:
    """The operation ends when the machine has restarted, and not before."""
    machine(arm)
    arm.poll(VM_SCOPE)
    accepted = arm.post(f"{VM}/restart")
    for seconds in (0, 899, 30):
        arm.advance(seconds)
        status = arm.follow(accepted.headers[STATUS])
        assert (status.status, status.json["status"]) == (200, "InProgress")
        assert "endTime" not in status.json
        assert int(status.headers["retry-after"]) > 0
        monitor = arm.follow(accepted.headers[MONITOR])
        assert (monitor.status, monitor.body) == (202, b"")
        assert int(monitor.headers["retry-after"]) > 0
        assert arm.follow(monitor.headers[MONITOR]).status == 202
    arm.advance(60)
    status = arm.follow(accepted.headers[STATUS])
    assert status.json == {
        "name": accepted.headers["x-ms-request-id"],
        "startTime": "2026-01-09T12:00:00Z",
        "endTime": "2026-01-09T12:16:00Z",
        "status": "Succeeded",
    }
    assert "retry-after" not in status.headers
    assert arm.follow(accepted.headers[MONITOR]).status == 200


def test_an_operation_can_end_at_acceptance() -> None:
    """With this setting the operation ends at once; the event still happens."""
    with ArmHarness(ArmSettings(ends_at_acceptance=True)) as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/restart")
        ended = arm.ended(accepted)
        assert ended["status"] == "Succeeded"
        assert ended["endTime"] == ended["startTime"]
        assert arm.follow(accepted.headers[MONITOR]).status == 200
        assert visible_events(arm, VM_SCOPE) == [("Reboot", "Scheduled", ["vm"])]


@pytest.mark.spec("E5")
def test_a_delete_replaces_a_restart(arm: ArmHarness) -> None:
    """The operation of the restart is Canceled."""
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


@pytest.mark.spec("C3")
def test_clients_of_other_groups(arm: ArmHarness) -> None:
    """An operation is read by clients of its group and by the operator, whatever their names."""
    namesake = Principal(name="ann", role=Role.TENANT, group="other")
    reader = Principal(name="eve", role=Role.READER, group="RG")
    arm.group("other")
    machine(arm)
    operation = arm.post(f"{VM}/restart", principal=ANN).headers["x-ms-request-id"]
    path = f"/providers/Microsoft.Compute/locations/local/operations/{operation}"
    for principal in (ANN, reader, arm.principal):
        assert arm.get(path, principal=principal).json["name"] == operation
    for principal in (BOB, namesake):
        for query in ({}, {"monitor": "true"}):
            response = arm.get(path, principal=principal, **query)
            assert refused(response) == (404, "NotFound")
    assert arm.get(f"{path}0").status == 404

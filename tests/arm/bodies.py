"""Machines and sets for tests of the control plane, with their paths and scopes."""

from typing import Any

from tests.fixtures.arm import ArmHarness
from tests.fixtures.http import Response

Json = dict[str, Any]

COMPUTE = "/resourceGroups/rg/providers/Microsoft.Compute"
VM = f"{COMPUTE}/virtualMachines/vm"
WEB = f"{COMPUTE}/virtualMachineScaleSets/web"
AV = f"{COMPUTE}/availabilitySets/av"
# The scopes that their machines poll.
VM_SCOPE, WEB_SCOPE, AV_SCOPE = "rg:vm", "rg:web/0", "as:rg:av"


def notice(duration: str = "PT5M") -> Json:
    """Return a profile with notice of deletes."""
    settings = {"enable": True, "notBeforeTimeout": duration}
    return {"scheduledEventsProfile": {"terminateNotificationProfile": settings}}


def policy(*, reboot: bool = False, redeploy: bool = False) -> Json:
    """Return a policy with automatic approvals of user-initiated events."""
    return {
        "scheduledEventsPolicy": {
            "userInitiatedReboot": {"automaticallyApprove": reboot},
            "userInitiatedRedeploy": {"automaticallyApprove": redeploy},
        }
    }


def created(response: Response) -> Json:
    """Return the document of a created resource. (For availability sets, Azure returns 200.)"""
    assert response.status in {200, 201}, response.body
    document: Json = response.json
    return document


def machine(arm: ArmHarness, path: str = VM, **properties: object) -> str:
    """Create a machine and its group, and return the machine's path."""
    arm.group(path.split("/")[2])
    created(arm.put(path, {"location": "local", "properties": properties}))
    return path


def scale_set(
    arm: ArmHarness,
    path: str = WEB,
    capacity: int = 3,
    model: Json | None = None,
    **properties: object,
) -> str:
    """Create a scale set and its group, and return the set's path."""
    arm.group(path.split("/")[2])
    body = {
        "location": "local",
        "sku": {"name": "Standard_B1s", "capacity": capacity},
        "properties": {"virtualMachineProfile": model or {}, **properties},
    }
    created(arm.put(path, body))
    return path


def names(arm: ArmHarness, path: str) -> list[str]:
    """Return the names in a listing."""
    return [item["name"] for item in arm.get(path).json["value"]]


def visible_events(arm: ArmHarness, scope: str) -> list[tuple[str, str, list[str]]]:
    """Return type, status and resources of the events that the machines of a scope see."""
    return [
        (event["EventType"], event["EventStatus"], event["Resources"])
        for event in arm.poll(scope)["Events"]
    ]


def actors(arm: ArmHarness, did: str) -> set[str]:
    """Return the actors of these facts in the journal."""
    return {entry.line.actor for entry in arm.journal() if entry.line.fact.type == did}


def refused(response: Response) -> tuple[int, str]:
    """Return the status and error code of a refused request."""
    assert response.status >= 400, response.body
    return response.status, response.error_code

"""What the tests of the control plane begin with: machines and sets, and where they are."""

from typing import Any

from fairwarning.core.model import ImpactKind
from tests.fixtures.arm import ArmHarness
from tests.fixtures.http import Response

INSTANCE_ACTIONS = [
    ("restart", ImpactKind.REBOOT, "Reboot"),
    ("redeploy", ImpactKind.REDEPLOY, "Redeploy"),
    ("reimage", ImpactKind.REIMAGE, ""),
    ("reimageall", ImpactKind.REIMAGE, ""),
    ("deallocate", ImpactKind.DEALLOCATE, ""),
    ("poweroff", ImpactKind.STOP, ""),
    ("start", ImpactKind.START, ""),
]
"""Each action on an instance, its impact, and the event that announces it."""

Json = dict[str, Any]

COMPUTE = "/resourceGroups/rg/providers/Microsoft.Compute"
VM = f"{COMPUTE}/virtualMachines/vm"
WEB = f"{COMPUTE}/virtualMachineScaleSets/web"
AV = f"{COMPUTE}/availabilitySets/av"
SERVICE = f"{COMPUTE}/cloudServices/shop"
# The scopes of those: what their machines poll.
VM_SCOPE, WEB_SCOPE, AV_SCOPE, SERVICE_SCOPE = "rg:vm", "rg:web/0", "as:rg:av", "cs:rg:shop"


def notice(duration: str = "PT5M") -> Json:
    """A profile that gives notice of a delete."""
    told = {"enable": True, "notBeforeTimeout": duration}
    return {"scheduledEventsProfile": {"terminateNotificationProfile": told}}


def policy(*, reboot: bool = False, redeploy: bool = False) -> Json:
    """A policy that approves what users want."""
    return {
        "scheduledEventsPolicy": {
            "userInitiatedReboot": {"automaticallyApprove": reboot},
            "userInitiatedRedeploy": {"automaticallyApprove": redeploy},
        }
    }


def created(answer: Response) -> Json:
    """The resource that was made just now. (Of availability sets, Azure says 200.)"""
    assert answer.status in {200, 201}, answer.body
    made: Json = answer.json
    return made


def machine(arm: ArmHarness, path: str = VM, **properties: object) -> str:
    """A machine, in a group that is made with it; its path."""
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
    """A scale set, in a group that is made with it; its path."""
    arm.group(path.split("/")[2])
    body = {
        "location": "local",
        "sku": {"name": "Standard_B1s", "capacity": capacity},
        "properties": {"virtualMachineProfile": model or {}, **properties},
    }
    created(arm.put(path, body))
    return path


def names(arm: ArmHarness, path: str) -> list[str]:
    """What a listing holds, by name."""
    return [one["name"] for one in arm.get(path).json["value"]]


def told(arm: ArmHarness, scope: str) -> list[tuple[str, str, list[str]]]:
    """What the machines of a scope are told: types, states and resources of its events."""
    return [
        (event["EventType"], event["EventStatus"], event["Resources"])
        for event in arm.poll(scope)["Events"]
    ]


def actors(arm: ArmHarness, did: str) -> set[str]:
    """Who the journal says did this."""
    return {entry.line.actor for entry in arm.journal() if entry.line.fact.type == did}


def refused(answer: Response) -> tuple[int, str]:
    """How something was refused."""
    assert answer.status >= 400, answer.body
    return answer.status, answer.error_code

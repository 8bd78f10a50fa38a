"""What the body of a virtual machine says, for the rules (C1)."""

from fairwarning.arm.compute import profile
from fairwarning.arm.compute.profile import MACHINE_PROFILE
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, writing
from fairwarning.arm.types.documents import choice, tags_of, typed_value
from fairwarning.core.model import EvictionPolicy, Machine, Priority

PRIORITIES = {"Regular": Priority.REGULAR, "Spot": Priority.SPOT, "Low": Priority.SPOT}
EVICTIONS = {policy.value: policy for policy in EvictionPolicy}


def parse_machine(name: str, body: Body) -> Machine:
    """Return the machine that a body describes."""
    priority = choice(body, "properties.priority", PRIORITIES, Priority.REGULAR)
    check_eviction(body, "properties", priority)
    zones = zones_of(body)
    if len(zones) > 1:
        raise documents.invalid_value("zones", list(zones), "a list of one zone")
    return Machine(
        name=name,
        host_name=typed_value(body, "properties.osProfile.computerName", str, ""),
        size=typed_value(body, "properties.hardwareProfile.vmSize", str, ""),
        priority=priority,
        eviction=choice(body, "properties.evictionPolicy", EVICTIONS, EvictionPolicy.DEALLOCATE),
        terminate_seconds=profile.terminate_seconds(body, MACHINE_PROFILE),
        zone="".join(zones),
        windows=os_type(body.get("properties", {})) == "Windows",
        tags=tags_of(body),
    )


def os_type(body: Body) -> str:
    """Return the operating system of a machine or a scale set's model."""
    sent: str | None = typed_value(body, "storageProfile.osDisk.osType", str)
    if sent:
        return sent
    publisher = typed_value(body, "storageProfile.imageReference.publisher", str, "")
    windows = typed_value(body, "osProfile.windowsConfiguration", dict) is not None
    return "Windows" if windows or "windows" in publisher.lower() else "Linux"


def check_eviction(body: Body, at: str, priority: Priority) -> None:
    """Refuse an eviction policy on a machine that is not a Spot machine."""
    if priority is not Priority.SPOT and typed_value(body, f"{at}.evictionPolicy", str):
        raise azure_error("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines")


def zones_of(body: Body) -> tuple[str, ...]:
    """Return the zones of a body."""
    zones = typed_value(body, "zones", list, [])
    if not all(isinstance(zone, str) and zone for zone in zones) or len(set(zones)) < len(zones):
        raise documents.invalid_value("zones", zones, "a list of different strings")
    return tuple(zones)


def check_immutable(before: Machine, after: Machine) -> None:
    """Refuse to change what cannot change after the creation of a machine."""
    writing.refuse_changes(
        {
            "priority": (before.priority, after.priority),
            "evictionPolicy": (before.eviction, after.eviction),
            "zones": (before.zone, after.zone),
            "osProfile.computerName": (before.host_name, after.host_name),
        }
    )

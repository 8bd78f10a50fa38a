"""The documents of a machine: of a virtual machine and of a scale-set instance."""

from fairwarning.arm.catalogue import document
from fairwarning.arm.compute.profile import events_profile
from fairwarning.arm.http.request import Body
from fairwarning.core.model import (
    Event,
    EventStatus,
    ImpactKind,
    Machine,
    Power,
    Priority,
    ScaleSet,
    Scope,
    Source,
)
from fairwarning.core.times import iso
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.resources import vm_id

_POWER = {
    Power.RUNNING: "VM running",
    Power.STOPPED: "VM stopped",
    Power.DEALLOCATED: "VM deallocated",
}


def provisioning_state(scope: Scope, machine: Machine) -> str:
    """Return Azure's provisioning state: whether an operation on the machine is running."""
    impact = scope.impacts.get(machine.name)
    if impact is None:
        return "Succeeded"
    return "Deleting" if impact.kind is ImpactKind.DELETE else "Updating"


def system_of(owner: Machine | ScaleSet) -> str:
    """Return Azure's name for the operating system of a machine or of a set's instances."""
    return "Windows" if owner.windows else "Linux"


def default_properties(cloud: CloudSettings, machine: Machine) -> Body:
    """Return the properties that a machine has unless a client wrote others."""
    properties: Body = {
        "hardwareProfile": {"vmSize": machine.size or cloud.size},
        "osProfile": {"computerName": machine.host_name or machine.name},
        "storageProfile": {
            "osDisk": {"osType": system_of(machine), "createOption": "FromImage"},
            "dataDisks": [],
        },
        "networkProfile": {"networkInterfaces": []},
        **events_profile(machine.terminate_seconds),
    }
    if machine.priority is Priority.SPOT:
        properties |= {"priority": "Spot", "evictionPolicy": machine.eviction.value}
    return properties


def read_only_properties(scope: Scope, machine: Machine) -> Body:
    """Return the properties that the service computes."""
    return {
        "vmId": vm_id(scope.id, machine),
        "provisioningState": provisioning_state(scope, machine),
        "timeCreated": iso(int(machine.created_at)),
    }


def instance_view(scope: Scope, machine: Machine, now: float) -> Body:
    """Return the instance view: the current state of a machine."""
    state = provisioning_state(scope, machine)
    time = iso(int(now))
    view: Body = {
        "computerName": machine.host_name or machine.name,
        "platformUpdateDomain": machine.update_domain,
        "platformFaultDomain": machine.fault_domain,
        "statuses": [
            status(f"ProvisioningState/{state.lower()}", f"Provisioning {state.lower()}", time),
            status(f"PowerState/{machine.power.value}", _POWER[machine.power], time),
        ],
    }
    if event := pending_maintenance(scope, machine):
        begins, ends = iso(int(event.created_at)), iso(event.not_before)
        view["maintenanceRedeployStatus"] = document("redeployStatus", begins=begins, ends=ends)
    return view


def status(code: str, text: str, time: str = "") -> Body:
    """Return a status entry of an instance view."""
    shown = {"code": code, "level": "Info", "displayStatus": text}
    return {**shown, "time": time} if time else shown


def pending_maintenance(scope: Scope, machine: Machine) -> Event | None:
    """Return the scheduled platform maintenance of a machine, which a user may start now."""
    for event in scope.events.values():
        if (
            event.source is Source.PLATFORM
            and event.status is EventStatus.SCHEDULED
            and event.impact in {ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY}
            and machine.name in event.resources
        ):
            return event
    return None

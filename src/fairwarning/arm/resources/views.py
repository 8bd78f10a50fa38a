"""A machine as Azure shows it, whether it stands alone or is an instance of a scale set."""

from typing import Any

from fairwarning.arm.resources.profile import events_profile
from fairwarning.core.model import (
    Event,
    EventStatus,
    ImpactKind,
    Machine,
    Power,
    Priority,
    Scope,
    Source,
)
from fairwarning.core.times import iso
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.resources import vm_id

View = dict[str, Any]

_POWER = {
    Power.RUNNING: "VM running",
    Power.STOPPED: "VM stopped",
    Power.DEALLOCATED: "VM deallocated",
}
_PROVISIONING = {ImpactKind.DELETE: "Deleting"}


def provisioning(scope: Scope, machine: Machine) -> str:
    """Whether something is being done to it."""
    impact = scope.impacts.get(machine.name)
    if impact is None:
        return "Succeeded"
    return _PROVISIONING.get(impact.kind, "Updating")


def granted(cloud: CloudSettings, machine: Machine) -> View:
    """Its properties where nobody wrote anything else."""
    taken: View = {
        "hardwareProfile": {"vmSize": machine.size or cloud.size},
        "osProfile": {"computerName": machine.host_name or machine.name},
        "storageProfile": {
            "osDisk": {"osType": "Linux", "createOption": "FromImage"},
            "dataDisks": [],
        },
        "networkProfile": {"networkInterfaces": []},
        **events_profile(machine.terminate_seconds),
    }
    if machine.priority is Priority.SPOT:
        taken |= {"priority": "Spot", "evictionPolicy": machine.eviction.value}
    return taken


def known(scope: Scope, machine: Machine) -> View:
    """Its properties that are ours to say."""
    return {
        "vmId": vm_id(scope.id, machine),
        "provisioningState": provisioning(scope, machine),
        "timeCreated": iso(int(machine.created_at)),
    }


def instance_view(scope: Scope, machine: Machine, now: float) -> View:
    """How it is just now."""
    state = provisioning(scope, machine)
    time = iso(int(now))
    view: View = {
        "computerName": machine.host_name or machine.name,
        "platformUpdateDomain": machine.update_domain,
        "platformFaultDomain": machine.fault_domain,
        "statuses": [
            status(f"ProvisioningState/{state.lower()}", f"Provisioning {state.lower()}", time),
            status(f"PowerState/{machine.power.value}", _POWER[machine.power], time),
        ],
    }
    if event := maintenance_of(scope, machine):
        view["maintenanceRedeployStatus"] = _offered(event)
    return view


def status(code: str, text: str, time: str = "") -> View:
    """One line of an instance view."""
    return {
        "code": code,
        "level": "Info",
        "displayStatus": text,
        **({"time": time} if time else {}),
    }


def maintenance_of(scope: Scope, machine: Machine) -> Event | None:
    """The platform's work on this machine that is announced, and which a user may begin now."""
    for event in scope.events.values():
        if (
            event.source is Source.PLATFORM
            and event.status is EventStatus.SCHEDULED
            and event.impact in {ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY}
            and machine.name in event.resources
        ):
            return event
    return None


def _offered(event: Event) -> View:
    begins, ends = iso(int(event.created_at)), iso(event.not_before)
    return {
        "isCustomerInitiatedMaintenanceAllowed": True,
        "preMaintenanceWindowStartTime": begins,
        "preMaintenanceWindowEndTime": ends,
        "maintenanceWindowStartTime": ends,
        "maintenanceWindowEndTime": ends,
        "lastOperationResultCode": "None",
    }

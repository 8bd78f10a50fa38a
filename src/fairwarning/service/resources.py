"""Resource ids, and the commands that create scopes and sets together with their resources."""

import json

from fairwarning.core.commands import Command, CreateScope, CreateSet, Write
from fairwarning.core.model import Machine, Resource, ScopeKind, guid
from fairwarning.core.record import changed

GROUP = "Microsoft.Resources/resourceGroups"
MACHINE = "Microsoft.Compute/virtualMachines"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
INSTANCE = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"
AVAILABILITY_SET = "Microsoft.Compute/availabilitySets"
CLOUD_SERVICE = "Microsoft.Compute/cloudServices"
WEBHOOKS = "webhook:"
"""The prefix of all webhook ids."""

__all__ = [
    "AVAILABILITY_SET", "CLOUD_SERVICE", "GROUP", "INSTANCE", "MACHINE", "SCALE_SET", "WEBHOOKS",
    "Resource", "create", "create_group", "group_id", "id_prefix", "resource_id", "vm_id",
]  # fmt: skip


def resource_id(kind: str, group: str, name: str) -> str:
    """Return the resource's id in the store; ids are case-insensitive."""
    return ":".join(part.lower().replace(":", "%3a") for part in (kind, group, name))


def id_prefix(kind: str, group: str = "") -> str:
    """Return the id prefix of all resources of a kind, in one group or in all."""
    return resource_id(kind, group, "") if group else resource_id(kind, "", "")[:-1]


def vm_id(scope: str, machine: Machine) -> str:
    """Return an id that differs for a machine that is created later under the same name."""
    return guid("vm", scope, machine.name, repr(machine.created_at)).lower()


def group_id(group: str) -> str:
    """Return the id of a resource group."""
    return resource_id(GROUP, "", group)


def create_group(group: str, location: str) -> Write:
    """Return the command that creates a resource group; it fails with `Changed` if that exists."""
    return Write(
        resource=group_id(group), name=group, body=json.dumps({"location": location}), at=0
    )


def create(
    command: CreateScope | CreateSet, group: str, operation: str = "", actor: str = "operator"
) -> Write:
    """Return the command combined with the creation of its resources."""
    return changed(_create(command, group), operation=operation, actor=actor)


def _create(command: CreateScope | CreateSet, group: str) -> Write:
    if isinstance(command, CreateSet):
        name = command.name or command.set
        return _write(SCALE_SET, group, name, (command,), set=command.set)
    if command.kind is ScopeKind.STANDALONE:
        machine = command.machines[0].name
        return _write(MACHINE, group, machine, (command,), scope=command.scope, machine=machine)
    if command.kind is ScopeKind.CLOUD_SERVICE:  # its role instances are not resources
        return _write(CLOUD_SERVICE, group, command.scope, (command,), scope=command.scope)
    machines = tuple(
        _write(MACHINE, group, machine.name, scope=command.scope, machine=machine.name)
        for machine in command.machines
    )
    follow = (command, *machines)
    return _write(AVAILABILITY_SET, group, command.scope, follow, scope=command.scope)


def _write(
    kind: str,
    group: str,
    name: str,
    follow: tuple[Command, ...] = (),
    *,
    scope: str = "",
    machine: str = "",
    set: str = "",  # noqa: A002  (as the field is called)
) -> Write:
    return Write(
        resource=resource_id(kind, group, name),
        group=group,
        name=name,
        body="{}",
        at=0,
        within=group_id(group),
        follow=follow,
        scope=scope,
        machine=machine,
        set=set,
    )

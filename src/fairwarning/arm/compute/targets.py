"""Finding the machines that a request names, and submitting actions on them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from fairwarning.arm.compute.views import pending_maintenance
from fairwarning.arm.http import errors
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, accepted
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.documents import invalid_value, typed_value
from fairwarning.arm.types.names import INSTANCE, MACHINE, SCALE_SET
from fairwarning.core import commands
from fairwarning.core.commands import (
    Approve,
    Command,
    Delete,
    Evict,
    Operate,
    OperateInstances,
)
from fairwarning.core.model import ImpactKind, Machine, Operation, Resource, ScaleSet, Scope

ACTIONS: Mapping[str, type[Operate]] = {
    "restart": commands.Restart,
    "redeploy": commands.Redeploy,
    "reimage": commands.Reimage,
    "deallocate": commands.Deallocate,
    "powerOff": commands.Stop,
    "start": commands.Start,
}
"""The actions of a machine, by Azure's name."""

_NUMBER = re.compile("0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True)
class ActionTarget:
    """A machine that a request acts on."""

    scope: Scope
    machine: Machine
    scale_set: ScaleSet | None = None
    resource: Resource | None = None

    @property
    def group(self) -> str:
        """The resource group of the machine."""
        return self.resource.group if self.resource else self.scope.group

    def command(self, kind: type[Operate], actor: str) -> Command:
        """Return the command for an action; the commands of instances go to their scale set."""
        operation = new_operation()
        if self.scale_set:
            return OperateInstances(
                set=self.scale_set.id,
                action=kind,
                instances=(self.machine.instance,),
                operation=operation,
                actor=actor,
            )
        names = (self.machine.name,)
        return kind(scope=self.scope.id, machines=names, operation=operation, actor=actor)


# --- Finding --------------------------------------------------------------------------------------


async def find_machine(context: ArmContext, group: str, name: str) -> ActionTarget:
    """Return a machine by name; instances of Flexible sets are machines, too."""
    resource = await context.find(MACHINE, group, name)
    if resource is None:
        target = await find_flexible_instance(context, group, name)
        if target is None:
            await context.group(group)
            raise errors.resource_not_found(MACHINE, name, group)
        return target
    scope = await context.scope(resource)
    machine = scope.machines.get(resource.machine)
    if machine is None:
        raise errors.resource_not_found(MACHINE, name, group)
    scale_set = await context.fleet.reader.read(ScaleSet, scope.owner) if scope.owner else None
    return ActionTarget(scope, machine, scale_set, resource)


async def find_flexible_instance(context: ArmContext, group: str, name: str) -> ActionTarget | None:
    """Return the instance of a Flexible set to which the set gave this name, or None."""
    scale_set = await find_naming_set(context, group, name)
    return await _find_in_set(context, scale_set, name) if scale_set else None


async def find_naming_set(context: ArmContext, group: str, name: str) -> ScaleSet | None:
    """Return the Flexible set whose instances have names such as this one, or None."""
    owner, _, number = name.rpartition("_")
    resource = await context.find(SCALE_SET, group, owner) if _NUMBER.fullmatch(number) else None
    if resource is None:
        return None
    scale_set = await context.scale_set(resource)
    return scale_set if scale_set.flexible else None


async def find_instance(context: ArmContext, group: str, name: str, number: str) -> ActionTarget:
    """Return an instance of a scale set, by its id."""
    scale_set = await context.scale_set(await context.get(SCALE_SET, group, name))
    target = await _find_in_set(context, scale_set, number)
    if target is None:
        raise errors.resource_not_found(INSTANCE, f"{name}/{number[:40]}", group)
    return target


async def _find_in_set(
    context: ArmContext, scale_set: ScaleSet, instance: str
) -> ActionTarget | None:
    """Return the instance with this id or name, or None."""
    number = int(instance) if _NUMBER.fullmatch(instance) else None
    for scope in await context.placement_groups(scale_set):
        for machine in scope.machines.values():
            if machine.instance == number or (
                number is None and machine.name.lower() == instance.lower()
            ):
                resource = await context.fleet.reader.read(Resource, machine.resource)
                return ActionTarget(scope, machine, scale_set, resource)
    return None


async def parse_instance_ids(
    context: ArmContext, request: ArmRequest, scale_set: ScaleSet, *, required: bool = False
) -> tuple[int, ...] | None:
    """Return the instance ids of a request body; None for all instances."""
    body = await request.body()
    ids = typed_value(body, "instanceIds", list)
    if ids is None and required:
        raise ArmError("InvalidParameter", "The parameter 'instanceIds' is required: ids, or '*'.")
    if ids is None or ids == ["*"]:
        return None
    numbers = []
    for instance in ids:
        if isinstance(instance, str) and _NUMBER.fullmatch(instance):
            numbers.append(int(instance))
            continue
        name = instance if isinstance(instance, str) else ""
        target = await _find_in_set(context, scale_set, name) if name else None
        if target is None:
            allowed = "the id of an instance such as '0', its name, or only '*' for all instances"
            raise invalid_value("instanceIds", instance, allowed)
        numbers.append(target.machine.instance)
    if not numbers:
        raise invalid_value("instanceIds", ids, "a list with at least one id")
    return tuple(dict.fromkeys(numbers))


# --- Actions --------------------------------------------------------------------------------------


async def delete(context: ArmContext, request: ArmRequest, target: ActionTarget) -> Response:
    """Delete a machine; if a deletion is already running, return 202 for that operation."""
    impact = target.scope.impacts.get(target.machine.name)
    if impact is None or impact.kind is not ImpactKind.DELETE:
        return await submit_action(context, request, target, Delete)
    return await accept_running(context, request, impact.operation)


async def accept_running(context: ArmContext, request: ArmRequest, name: str) -> Response:
    """Return 202 for an operation that an earlier request started."""
    operation = await context.fleet.reader.read(Operation, name)
    return accepted(request, operation, context.cloud.location)


async def submit_action(
    context: ArmContext, request: ArmRequest, target: ActionTarget, kind: type[Operate]
) -> Response:
    """Submit an action on a machine, and return 202."""
    operation = await context.fleet.submit(target.command(kind, request.actor))
    return accepted(request, operation, context.cloud.location)


async def evict(context: ArmContext, request: ArmRequest, target: ActionTarget) -> Response:
    """Simulate the eviction of a Spot machine, and return 204 without a polling URL."""
    await context.fleet.submit(target.command(Evict, request.actor))
    return Response(b"", 204)


async def maintain(
    context: ArmContext, request: ArmRequest, targets: Sequence[ActionTarget]
) -> Response:
    """Start the scheduled platform maintenance of these machines now."""
    events = {
        event.id: (target.scope.id, event)
        for target in targets
        if (event := pending_maintenance(target.scope, target.machine))
    }
    if not events:
        name = targets[0].machine.name if targets else request.name
        text = f"Operation 'performMaintenance' is not allowed on VM '{name}' since no maintenance"
        raise ArmError("OperationNotAllowed", f"{text} is planned for it.", 409)
    for scope, event in events.values():
        await context.fleet.submit(Approve(scope=scope, events=(event.id,), actor=request.actor))
    _, first = next(iter(events.values()))
    operation = await context.fleet.reader.read(Operation, first.operation)
    return accepted(request, operation, context.cloud.location)

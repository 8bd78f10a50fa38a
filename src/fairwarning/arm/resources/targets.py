"""Which machine a path means, and how it is told what to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, accepted
from fairwarning.arm.resources.documents import strict, wrong_value
from fairwarning.arm.resources.views import maintenance_of
from fairwarning.core import commands
from fairwarning.core.commands import (
    Approve,
    Command,
    Delete,
    Evict,
    Operate,
    OperateInstances,
)
from fairwarning.core.model import ImpactKind, Machine, Operation, Ref, ScaleSet, Scope
from fairwarning.service.resources import INSTANCE, MACHINE, SCALE_SET, Resource

ACTIONS: Mapping[str, type[Operate]] = {
    "restart": commands.Restart,
    "redeploy": commands.Redeploy,
    "reimage": commands.Reimage,
    "deallocate": commands.Deallocate,
    "powerOff": commands.Stop,
    "start": commands.Start,
}
"""What a user may do to a machine, as Azure calls it."""

_NUMBER = re.compile("0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True)
class ActionTarget:
    """A machine that somebody wants something of."""

    scope: Scope
    machine: Machine
    scale_set: ScaleSet | None = None
    resource: Resource | None = None

    def command(self, kind: type[Operate], actor: str) -> Command:
        """What tells it to; instances are told through their set."""
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


async def machine(plane: ArmContext, group: str, name: str) -> ActionTarget:
    """A machine by name. Instances of Flexible sets may be called so as well."""
    resource = await plane.find(MACHINE, group, name)
    if resource is None:
        found = await flexible(plane, group, name)
        if found is None:
            await plane.group(group)
            raise errors.missing(MACHINE, name, group)
        return found
    scope = await plane.scope(resource)
    one = scope.machines.get(resource.machine)
    if one is None:
        raise errors.missing(MACHINE, name, group)
    return ActionTarget(scope, one, resource=resource)


async def flexible(plane: ArmContext, group: str, name: str) -> ActionTarget | None:
    """The instance of a Flexible set that has this name."""
    owner = name.rpartition("_")[0]
    resource = await plane.find(SCALE_SET, group, owner) if owner else None
    if resource is None:
        return None
    scale_set = await plane.scale_set(resource)
    return await _instance(plane, scale_set, name) if scale_set.flexible else None


async def instance(plane: ArmContext, group: str, name: str, number: str) -> ActionTarget:
    """An instance of a scale set, by its id."""
    scale_set = await plane.scale_set(await plane.get(SCALE_SET, group, name))
    found = await _instance(plane, scale_set, number)
    if found is None:
        raise errors.missing(INSTANCE, f"{name}/{number[:40]}", group)
    return found


async def _instance(plane: ArmContext, scale_set: ScaleSet, given: str) -> ActionTarget | None:
    number = _number(scale_set, given)
    for scope in await groups(plane, scale_set) if number is not None else ():
        if one := scope.machines.get(f"{scale_set.name}_{number}"):
            return ActionTarget(scope, one, scale_set)
    return None


def _number(scale_set: ScaleSet, given: object) -> int | None:
    """An instance's id as a number; its name, which has the id at its end, will do as well."""
    if not isinstance(given, str):
        return None
    prefix = f"{scale_set.name}_".lower()
    digits = given[len(prefix) :] if given.lower().startswith(prefix) else given
    return int(digits) if _NUMBER.fullmatch(digits) else None


async def groups(plane: ArmContext, scale_set: ScaleSet) -> list[Scope]:
    """The placement groups of a set."""
    refs: list[Ref] = [(Scope, name) for name in scale_set.groups]
    found = (await plane.fleet.reader.read_all(refs)).values()
    return [scope for scope in found if isinstance(scope, Scope)]


async def chosen(
    call: ArmRequest, scale_set: ScaleSet, *, needed: bool = False
) -> tuple[int, ...] | None:
    """The instances of a set that a body names; None is all."""
    body = await call.body()
    given = strict(body, "instanceIds", list)
    if given is None and needed:
        raise ArmError("InvalidParameter", "The parameter 'instanceIds' is required: ids, or '*'.")
    if given is None or given == ["*"]:
        return None
    found = []
    for one in given:
        number = _number(scale_set, one)
        if number is None:
            raise wrong_value("instanceIds", one, "an id such as '0', or a lone '*' for all")
        found.append(number)
    if not found:
        raise wrong_value("instanceIds", given, "a list with at least one id")
    return tuple(dict.fromkeys(found))


# --- Doing ----------------------------------------------------------------------------------------


async def delete(plane: ArmContext, call: ArmRequest, target: ActionTarget) -> Response:
    """Accept that a machine is to go; if it is on its way already, that is the operation."""
    impact = target.scope.impacts.get(target.machine.name)
    if impact is None or impact.kind is not ImpactKind.DELETE:
        return await act(plane, call, target, Delete)
    return await under_way(plane, call, impact.operation)


async def under_way(plane: ArmContext, call: ArmRequest, operation: str) -> Response:
    """202, for what somebody asked for before."""
    found = await plane.fleet.reader.read(Operation, operation)
    return accepted(call, found, plane.cloud.location)


async def act(
    plane: ArmContext, call: ArmRequest, target: ActionTarget, kind: type[Operate]
) -> Response:
    """Accept what a user wants done to a machine."""
    operation = await plane.fleet.submit(target.command(kind, call.actor))
    return accepted(call, operation, plane.cloud.location)


async def evict(plane: ArmContext, call: ArmRequest, target: ActionTarget) -> Response:
    """Pretend that the platform wants a Spot machine back: 204, and no URL to follow."""
    await plane.fleet.submit(target.command(Evict, call.actor))
    return Response(b"", 204)


async def maintain(
    plane: ArmContext, call: ArmRequest, targets: Sequence[ActionTarget]
) -> Response:
    """Begin now what the platform has announced for these machines."""
    events = {
        event.id: (target.scope.id, event)
        for target in targets
        if (event := maintenance_of(target.scope, target.machine))
    }
    if not events:
        name = targets[0].machine.name if targets else call.name
        text = f"Operation 'performMaintenance' is not allowed on VM '{name}' since no maintenance"
        raise ArmError("OperationNotAllowed", f"{text} is planned for it.", 409)
    for scope, event in events.values():
        await plane.fleet.submit(Approve(scope=scope, events=(event.id,), actor=call.actor))
    _, first = next(iter(events.values()))
    operation = await plane.fleet.reader.read(Operation, first.operation)
    return accepted(call, operation, plane.cloud.location)

"""Finding the machines that a request names, and submitting actions on them."""

import re
from dataclasses import dataclass

from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import invalid_value, typed_value
from fairwarning.arm.types.names import INSTANCE, MACHINE, SCALE_SET
from fairwarning.core import limits
from fairwarning.core.model import Machine, Resource, ScaleSet, Scope

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


# --- Finding --------------------------------------------------------------------------------------


async def find(context: ArmContext, id_: AzureId) -> ActionTarget:
    """Return the machine or instance with an Azure id; raise if it does not exist."""
    if id_.kind.lower() == INSTANCE.lower():
        return await find_instance(context, id_.group, *id_.names)
    return await find_machine(context, id_.group, id_.name)


async def exists(context: ArmContext, id_: AzureId) -> bool:
    """Whether there is a machine or instance with an Azure id."""
    try:
        await find(context, id_)
    except ArmError:
        return False
    return True


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
    number, name = int(instance) if _NUMBER.fullmatch(instance) else None, instance.lower()
    for scope in await context.placement_groups(scale_set):
        for machine in scope.machines.values():
            if machine.instance == number or (number is None and machine.name.lower() == name):
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
    if not 1 <= len(ids) <= limits.SET_INSTANCES:
        allowed = f"a list of 1 to {limits.SET_INSTANCES} ids"
        raise invalid_value("instanceIds", f"{len(ids)} ids", allowed)
    groups = await context.placement_groups(scale_set)
    names = {m.name.lower(): m.instance for scope in groups for m in scope.machines.values()}
    numbers: dict[int, None] = {}
    for instance in ids:
        name = instance if isinstance(instance, str) else ""
        known = names.get(name.lower())
        if known is None and not _NUMBER.fullmatch(name):
            allowed = "the id of an instance such as '0', its name, or only '*' for all instances"
            raise invalid_value("instanceIds", instance, allowed)
        numbers[int(name) if known is None else known] = None
    return tuple(numbers)

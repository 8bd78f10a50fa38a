"""The machines that a request names, and pages of virtual machines and instances (C6).

A page has the machines that users created first, then the instances of Flexible sets. Both are in
the order of their resource ids, so that a page costs the same in any fleet. It looks at a bounded
number of scale sets; it may be short, or empty, and have a `nextLink`.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.listing import decode_skip_token, encode_skip_token
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.types.context import PAGE, PAGE_CHARACTERS, ArmContext
from fairwarning.arm.types.documents import invalid_value, typed_value
from fairwarning.arm.types.names import INSTANCE, MACHINE, SCALE_SET
from fairwarning.core import limits
from fairwarning.core.model import Machine, Resource, ScaleSet, Scope
from fairwarning.service import resources

AT_ONCE = 20  # documents of machines, before other requests go on
_ALL = 10**9  # past every instance id
_NUMBER = re.compile("0|[1-9][0-9]{0,8}", re.ASCII)
_MACHINES = frozenset({MACHINE.lower(), INSTANCE.lower()})
_INSTANCE_PARTS = 10  # of the path of an instance


@dataclass(frozen=True)
class ActionTarget:
    """A machine that a request acts on."""

    scope: Scope
    machine: Machine
    scale_set: ScaleSet | None = None
    resource: Resource | None = None

    @property
    def set(self) -> ScaleSet:
        """The scale set of an instance."""
        assert self.scale_set is not None
        return self.scale_set

    @property
    def group(self) -> str:
        return self.resource.group if self.resource else self.scope.group


MachinePage = tuple[list[ActionTarget], str]
"""Machines, and the $skiptoken of the next page ("" on the last page)."""


async def find(context: ArmContext, id_: AzureId) -> ActionTarget:
    """Return the machine or instance with an Azure id; raise if it does not exist."""
    if id_.kind.lower() == INSTANCE.lower():
        return await find_instance(context, id_.group, *id_.names)
    return await find_machine(context, id_.group, id_.name)


async def find_any(context: ArmContext, id_: AzureId) -> ActionTarget | None:
    """Return the machine or instance with an Azure id; None if that names something else."""
    if id_.kind.lower() in _MACHINES:
        with suppress(ArmError):
            return await find(context, id_)
    return None


async def ids_of_instance(context: ArmContext, id_: AzureId) -> list[AzureId]:
    """Return all ids of the instance with an Azure id; in a Flexible set, it is a machine first."""
    target = await find_any(context, id_)
    if target is None or target.scale_set is None:
        return []
    own = replace(id_, kind=INSTANCE, name=f"{target.set.name}/{target.machine.instance}")
    as_machine = replace(id_, kind=MACHINE, name=target.machine.name)
    return [as_machine, own] if target.set.flexible else [own]


async def canonical_path(context: ArmContext, path: str) -> str:
    """Return the one path under which an instance, or what belongs to it, is kept.

    The instance has its number. An extension resource of an instance of a Flexible set belongs to
    the machine. The path of anything else stays.
    """
    parts = [part for part in path.split("/") if part]
    id_, end = parse_id("/".join(["", *parts[:_INSTANCE_PARTS]])), parts[_INSTANCE_PARTS:]
    if id_ is None or id_.kind.lower() != INSTANCE.lower():
        return path
    extends = end and end[0].lower() == "providers"
    if _NUMBER.fullmatch(id_.names[-1]) and not extends:
        return path
    ids = await ids_of_instance(context, id_)
    return "/".join([ids[0 if extends else -1].path, *end]) if ids else path


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
        number = int(name) if _NUMBER.fullmatch(name) else names.get(name.lower())
        if number is None:
            allowed = "the id of an instance such as '0', its name, or only '*' for all instances"
            raise invalid_value("instanceIds", instance, allowed)
        numbers[number] = None
    return tuple(numbers)


async def with_instances(
    context: ArmContext, request: ArmRequest, kind: str
) -> tuple[Sequence[Resource], list[ActionTarget], str]:
    """Return a page of the resources of a kind, and then of the instances of Flexible sets."""
    group = request.id.group
    prefix = resources.id_prefix(SCALE_SET, group or request.principal.group)
    rows: Sequence[Resource] = ()
    last = decode_skip_token(request.query("$skiptoken"))
    if not last.startswith(prefix):
        rows, token = await context.page(request, kind, group)
        if token:
            return rows, [], token
        last = f"{prefix}/{_ALL}"
    set_row, _, instance = last.rpartition("/")
    return rows, *await _instances(context, prefix, set_row, instance, PAGE - len(rows))


async def machines_of(context: ArmContext, rows: Sequence[Resource]) -> list[ActionTarget]:
    """Return the machines of resources, without those that were deleted meanwhile."""
    scopes = await context.scopes(rows)
    sets = await context.read_all(ScaleSet, (scope.owner for scope in scopes.values()))
    return [
        ActionTarget(scope, machine, sets.get(scope.owner), row)
        for row in rows
        if (scope := scopes.get(row.scope)) and (machine := scope.machines.get(row.machine))
    ]


async def _instances(
    context: ArmContext, prefix: str, set_row: str, instance: str, room: int
) -> MachinePage:
    """Return instances after one of a set, and of the sets after it; look for one more."""
    after, reader = _number(instance), context.fleet.reader
    rows = await reader.resources(prefix, set_row, PAGE + 1)
    more, rows = len(rows) > PAGE, rows[:PAGE]
    current = await reader.read(Resource, set_row) if after < _ALL else None
    rows = [current, *rows] if current else rows
    sets = await context.read_all(ScaleSet, (row.set for row in rows))
    page: list[ActionTarget] = []
    position = f"{set_row}/{instance}"
    for row in rows:
        scale_set = sets.get(row.set)
        if scale_set and scale_set.flexible:
            first = after if row.id == set_row else -1
            for member in await members(context, scale_set, first):
                if not member.machine.model:  # it joined: a machine that users created
                    continue
                if len(page) == room:
                    return await _with_bodies(context, page, position)
                page.append(member)
                position = f"{row.id}/{member.machine.instance}"
        position = f"{row.id}/{_ALL}"
    return await _with_bodies(context, page, position if more else "")


async def members(context: ArmContext, scale_set: ScaleSet, after: int = -1) -> list[ActionTarget]:
    """Return the machines of a set after an instance, in the order of their ids."""
    targets = [
        ActionTarget(scope, machine, scale_set)
        for scope in await context.placement_groups(scale_set)
        for machine in scope.machines.values()
        if machine.instance > after
    ]
    return sorted(targets, key=lambda target: target.machine.instance)


async def _with_bodies(
    context: ArmContext, instances: list[ActionTarget], position: str
) -> MachinePage:
    """Add the resources of instances that a client has written; the page ends if they are long."""
    rows = await context.read_all(Resource, (target.machine.resource for target in instances))
    page: list[ActionTarget] = []
    length = 0
    for target in instances:
        row = rows.get(target.machine.resource)
        length += len(row.body) if row else 0
        if page and length > PAGE_CHARACTERS:
            position = f"{page[-1].set.resource}/{page[-1].machine.instance}"
            break
        page.append(replace(target, resource=row))
    return page, encode_skip_token(position) if position else ""


async def list_instances(
    context: ArmContext, request: ArmRequest, scale_set: ScaleSet, most: int = PAGE
) -> MachinePage:
    """Return a page of the instances of a set, and the token of the next page."""
    _, _, after = decode_skip_token(request.query("$skiptoken")).rpartition("/")
    later = await members(context, scale_set, _number(after) if after else -1)
    most = max(1, min(most, PAGE))
    last = f"{scale_set.resource}/{later[most - 1].machine.instance}" if len(later) > most else ""
    return await _with_bodies(context, later[:most], last)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_ALL)):
        raise azure_error("InvalidSkipToken")
    return int(text)

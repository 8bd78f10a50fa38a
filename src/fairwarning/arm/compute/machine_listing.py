"""Pages of virtual machines: those that users created, then the instances of Flexible sets (C6).

Both parts are in the order of their resource ids, so that a page costs the same in any fleet. A
page looks at a bounded number of scale sets; it may be short, or empty, and have a `nextLink`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.listing import decode_skip_token, encode_skip_token, invalid_skip_token
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.types.context import PAGE, ArmContext
from fairwarning.arm.types.names import MACHINE, SCALE_SET
from fairwarning.core.model import Ref, Resource, ScaleSet
from fairwarning.service import resources

_FILTER = re.compile(r"'?virtualMachineScaleSet/id'?\s+eq\s+'([^']+)'", re.IGNORECASE)
_ALL = 10**9  # past every instance id
MachinePage = tuple[list[ActionTarget], str]
"""Machines, and the $skiptoken of the next page ("" on the last page)."""


@dataclass(frozen=True)
class _Position:
    """A place among the instances of Flexible sets: after this instance of this set."""

    resource: str  # the id of the set's resource, or the prefix of all of them
    instance: int

    @property
    def token(self) -> str:
        """The $skiptoken of the page after this place."""
        return encode_skip_token(f"{self.resource}/{self.instance}")


async def list_machines(context: ArmContext, request: ArmRequest, group: str) -> MachinePage:
    """Return a page of the machines of a group, or of all that the client may read."""
    match = _FILTER.fullmatch(request.query("$filter").strip())
    owner = parse_id(match[1]) if match else None
    allowed = group or request.principal.group
    readable = owner and allowed.lower() in {"", owner.group.lower()}
    if owner and readable and owner.kind.lower() == SCALE_SET.lower():
        return await _list_members(context, request, owner.group, owner.name)
    rows, instances, token = await with_instances(context, request, MACHINE, group)
    return [*await _machines(context, rows), *instances], token


async def with_instances(
    context: ArmContext, request: ArmRequest, kind: str, group: str
) -> tuple[Sequence[Resource], list[ActionTarget], str]:
    """Return a page of the resources of a kind, and then of the instances of Flexible sets."""
    prefix = resources.id_prefix(SCALE_SET, group or request.principal.group)
    position = _position(request.query("$skiptoken"), prefix)
    if position is not None:
        return (), *await _instances(context, prefix, position, PAGE)
    rows, token = await context.page(request, kind, group)
    if token:
        return rows, [], token
    start = _Position(prefix, _ALL)
    return rows, *await _instances(context, prefix, start, PAGE - len(rows))


async def _list_members(
    context: ArmContext, request: ArmRequest, group: str, name: str
) -> MachinePage:
    """Return a page of the machines of the set that a filter names; no other set is read."""
    resource = await context.find(SCALE_SET, group, name)
    scale_set = await context.fleet.reader.read(ScaleSet, resource.set) if resource else None
    if scale_set is None or not scale_set.flexible:  # instances of a Uniform set are no machines
        return [], ""
    position = _position(request.query("$skiptoken"), scale_set.resource)
    after = position.instance if position else -1
    members = await _members(context, scale_set, after)
    page = members[:PAGE]
    more = len(members) > PAGE
    token = _Position(scale_set.resource, page[-1].machine.instance).token if more else ""
    return await _with_bodies(context, page), token


def _position(token: str, prefix: str) -> _Position | None:
    """Return the place that a token names; None if it names a machine with its own resource."""
    last = decode_skip_token(token)
    resource, _, instance = last.rpartition("/")
    if not resource.startswith(prefix):
        return None
    if not instance.isascii() or not instance.isdigit() or len(instance) > len(str(_ALL)):
        raise invalid_skip_token()
    return _Position(resource, int(instance))


# --- Machines with resources of their own ---------------------------------------------------------


async def _machines(context: ArmContext, rows: Sequence[Resource]) -> list[ActionTarget]:
    scopes = await context.scopes(rows)
    owners: list[Ref] = [(ScaleSet, scope.owner) for scope in scopes.values() if scope.owner]
    sets = await context.fleet.reader.read_all(dict.fromkeys(owners))
    machines = []
    for row in rows:
        scope = scopes.get(row.scope)
        machine = scope.machines.get(row.machine) if scope else None
        if scope and machine:
            owner = sets.get((ScaleSet, scope.owner))
            scale_set = owner if isinstance(owner, ScaleSet) else None
            machines.append(ActionTarget(scope, machine, scale_set, row))
    return machines


# --- Instances of Flexible sets -------------------------------------------------------------------


async def _instances(context: ArmContext, prefix: str, start: _Position, room: int) -> MachinePage:
    """Return the next instances; look for one more, to know whether there is a next page."""
    rows, more = await _sets_from(context, prefix, start)
    refs: list[Ref] = [(ScaleSet, row.set) for row in rows]
    sets = await context.fleet.reader.read_all(refs)
    page: list[ActionTarget] = []
    position = start
    for row in rows:
        scale_set = sets[ScaleSet, row.set]
        after = start.instance if row.id == start.resource else -1
        if not isinstance(scale_set, ScaleSet) or not scale_set.flexible:
            members = []
        else:
            members = await _members(context, scale_set, after, numbered=True)
        for member in members:
            if len(page) == room:
                return await _with_bodies(context, page), position.token
            page.append(member)
            position = _Position(row.id, member.machine.instance)
        position = _Position(row.id, _ALL)
    return await _with_bodies(context, page), position.token if more else ""


async def _sets_from(
    context: ArmContext, prefix: str, start: _Position
) -> tuple[list[Resource], bool]:
    """Return the set at a place and those after it, and whether there are more."""
    reader = context.fleet.reader
    rows = await reader.resources(prefix, start.resource, PAGE + 1)
    more = len(rows) > PAGE
    current = await reader.read(Resource, start.resource) if start.instance < _ALL else None
    return [*([current] if current else []), *rows[:PAGE]], more


async def _members(
    context: ArmContext, scale_set: ScaleSet, after: int, *, numbered: bool = False
) -> list[ActionTarget]:
    """Return the machines of a set by instance id; `numbered`: only those that the set named."""
    own = resources.id_prefix(MACHINE)
    members = [
        ActionTarget(scope, machine, scale_set)
        for scope in await context.placement_groups(scale_set)
        for machine in scope.machines.values()
        if machine.instance > after and not (numbered and machine.resource.startswith(own))
    ]
    return sorted(members, key=lambda member: member.machine.instance)


async def _with_bodies(context: ArmContext, page: list[ActionTarget]) -> list[ActionTarget]:
    """Add the resources of the instances that a client has written."""
    refs: list[Ref] = [(Resource, t.machine.resource) for t in page if t.machine.resource]
    rows = await context.fleet.reader.read_all(refs)
    return [
        ActionTarget(t.scope, t.machine, t.scale_set, row if isinstance(row, Resource) else None)
        for t in page
        for row in (rows.get((Resource, t.machine.resource)),)
    ]


# --- Instances of one set -------------------------------------------------------------------------


async def list_instances(
    context: ArmContext, request: ArmRequest, scale_set: ScaleSet
) -> tuple[list[ActionTarget], str]:
    """Return a page of the instances in the order of their ids, and the token of the next page."""
    after = _after(request.query("$skiptoken"))
    later = [
        ActionTarget(scope, machine, scale_set)
        for scope in await context.placement_groups(scale_set)
        for machine in scope.machines.values()
        if machine.instance > after
    ]
    later.sort(key=lambda target: target.machine.instance)
    token = str(later[PAGE - 1].machine.instance) if len(later) > PAGE else ""
    return later[:PAGE], token


def _after(token: str) -> int:
    if not token:
        return -1
    if not token.isascii() or not token.isdigit() or len(token) > len(str(10**9)):
        raise invalid_skip_token()
    return int(token)

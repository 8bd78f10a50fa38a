"""Pages of virtual machines: those that users created, then the instances of Flexible sets (C6).

Both parts are in the order of their resource ids, so that a page costs the same in any fleet. A
page looks at a bounded number of scale sets; it may be short, or empty, and have a `nextLink`.
"""

from collections.abc import Sequence
from dataclasses import replace

from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.listing import decode_skip_token, encode_skip_token, invalid_skip_token
from fairwarning.arm.http.request import ArmRequest
from fairwarning.arm.types.context import PAGE, PAGE_CHARACTERS, ArmContext
from fairwarning.arm.types.names import MACHINE, SCALE_SET
from fairwarning.arm.types.references import read_all
from fairwarning.core.model import Ref, Resource, ScaleSet
from fairwarning.service import resources

_ALL = 10**9  # past every instance id
MachinePage = tuple[list[ActionTarget], str]
"""Machines, and the $skiptoken of the next page ("" on the last page)."""


async def list_machines(context: ArmContext, request: ArmRequest, group: str) -> MachinePage:
    """Return a page of the machines of a group, or of all that the client may read."""
    rows, instances, token = await with_instances(context, request, MACHINE, group)
    return [*await machines_of(context, rows), *instances], token


async def with_instances(
    context: ArmContext, request: ArmRequest, kind: str, group: str
) -> tuple[Sequence[Resource], list[ActionTarget], str]:
    """Return a page of the resources of a kind, and then of the instances of Flexible sets."""
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
    owners: list[Ref] = [(ScaleSet, scope.owner) for scope in scopes.values() if scope.owner]
    found = (await context.fleet.reader.read_all(owners)).values() if owners else ()
    sets = {owner.id: owner for owner in found if isinstance(owner, ScaleSet)}
    return [
        ActionTarget(scope, machine, sets.get(scope.owner), row)
        for row in rows
        if (scope := scopes.get(row.scope)) and (machine := scope.machines.get(row.machine))
    ]


# --- Instances of Flexible sets -------------------------------------------------------------------


async def _instances(
    context: ArmContext, prefix: str, set_row: str, instance: str, room: int
) -> MachinePage:
    """Return instances after one of a set, and of the sets after it; look for one more."""
    after, reader = _number(instance), context.fleet.reader
    rows = await reader.resources(prefix, set_row, PAGE + 1)
    more, rows = len(rows) > PAGE, rows[:PAGE]
    current = await reader.read(Resource, set_row) if after < _ALL else None
    rows = [current, *rows] if current else rows
    refs: list[Ref] = [(ScaleSet, row.set) for row in rows]
    sets = await reader.read_all(refs)
    page: list[ActionTarget] = []
    position = f"{set_row}/{instance}"
    for row in rows:
        scale_set = sets[ScaleSet, row.set]
        if isinstance(scale_set, ScaleSet) and scale_set.flexible:
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
    rows = await read_all(context, (target.machine.resource for target in instances))
    page: list[ActionTarget] = []
    length = 0
    for target in instances:
        row = rows.get(target.machine.resource)
        length += len(row.body) if row else 0
        if page and length > PAGE_CHARACTERS:
            last = page[-1]
            assert last.scale_set
            position = f"{last.scale_set.resource}/{last.machine.instance}"
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
        raise invalid_skip_token()
    return int(text)

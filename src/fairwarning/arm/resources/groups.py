"""Resource groups: `Microsoft.Resources/resourceGroups`. What is in one goes with it (C1)."""

from starlette.responses import Response

from fairwarning.arm.http.context import PAGE, ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, accepted, answer
from fairwarning.arm.http.routes import GROUP as ONE
from fairwarning.arm.http.routes import SUBSCRIPTION, Route
from fairwarning.arm.resources import documents, network, targets, writing
from fairwarning.core.commands import Command, Delete, DeleteSet, Remove, Write
from fairwarning.core.errors import Conflict
from fairwarning.core.limits import FOLLOWING_COMMANDS
from fairwarning.core.model import ImpactKind, Ref, ScaleSet, Scope
from fairwarning.service import resources
from fairwarning.service.resources import (
    AVAILABILITY_SET,
    CLOUD_SERVICE,
    GROUP,
    MACHINE,
    SCALE_SET,
    Resource,
)

DEPLOYMENT = "Microsoft.Resources/deployments"
_ATTEMPTS = 5  # what is in a group may change while we look
_LATER = (AVAILABILITY_SET, CLOUD_SERVICE, *network.KINDS, DEPLOYMENT)
"""What goes once the machines of the group are gone."""


def document(plane: ArmContext, group: Resource) -> Body:
    """A resource group as Azure shows it."""
    state = "Deleting" if group.removed_by else "Succeeded"
    known: Body = {
        "id": plane.path(GROUP, "", group.name),
        "name": group.name,
        "type": GROUP,
        "properties": {"provisioningState": state},
    }
    return documents.merged(documents.written(group), known)


# --- Reading and writing --------------------------------------------------------------------------


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    return answer(document(plane, await plane.group(call.group)))


async def _exists(plane: ArmContext, call: ArmRequest) -> Response:
    found = await plane.find(GROUP, "", call.group)
    return Response(b"", 204 if found else 404)


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    own = call.principal.group
    if own:
        group = await plane.find(GROUP, "", own)
        return answer({"value": [document(plane, group)] if group else []})
    found, token = await plane.page(call, GROUP)
    shown = [document(plane, group) for group in found]
    return answer({"value": shown, **plane.next_link(call, token)})


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    writing.check_name(call.group)
    body = documents.kept(documents.cleaned(await call.body()))
    body.pop("properties", None)  # all of them are ours to say
    documents.tags_of(body)
    standing = await plane.find(GROUP, "", call.group)
    if standing is None and call.request.method == "PATCH":
        await plane.group(call.group)
    merged = documents.merged(documents.written(standing), body)
    writing.check_location(merged)
    if standing and writing.location_of(documents.written(standing)) != writing.location_of(merged):
        text = f"The resource group '{standing.name}' is in another location; it cannot move."
        raise ArmError("InvalidResourceGroupLocation", text, 409)
    write = Write(
        resource=resources.group_id(call.group),
        name=standing.name if standing else call.group,
        body=documents.text(merged),
        actor=call.actor,
    )
    await plane.fleet.submit(write)
    shown = document(plane, await plane.group(call.group))
    return answer(shown, 200 if standing else 201)


# --- Deleting -------------------------------------------------------------------------------------


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    """All that is in it, each with its notice; the group itself goes last."""
    group = await plane.group(call.group)
    if group.removed_by:
        return await targets.under_way(plane, call, group.removed_by)
    for _ in range(_ATTEMPTS):
        remove = await _removal(plane, call, group)
        try:
            operation = await plane.fleet.submit(remove)
        except Conflict as conflict:
            if conflict.code == "Changed":  # what was leaving stays, or the other way round
                continue
            raise ArmError("Conflict", conflict.message, 409) from conflict
        return accepted(call, operation, plane.cloud.location)
    raise ArmError("Conflict", "What is in the group changes all the time; try again.", 409)


async def _removal(plane: ArmContext, call: ArmRequest, group: Resource) -> Remove:
    going = _GroupDeletion(new_operation())
    await going.take_machines(plane, group.name)
    await going.take_sets(plane, group.name)
    later = [
        one.id
        for kind in _LATER
        for one in await _all(plane, kind, group.name)
        if not one.removed_by
    ]
    if len(going.follow) + len(later) > FOLLOWING_COMMANDS:
        text = f"The group holds more than {FOLLOWING_COMMANDS} resources; delete some of them."
        raise ArmError("OperationNotAllowed", text, 409)
    return Remove(
        resource=group.id,
        operation=going.operation,
        others=tuple(later),
        follow=tuple(going.follow),
        awaits=tuple(going.leaving),
        actor=call.actor,
    )


class _GroupDeletion:
    """What has to go before a group can: by commands, or it is on its way already."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.follow: list[Command] = []
        self.leaving: list[str] = []

    async def take_machines(self, plane: ArmContext, group: str) -> None:
        """Machines, and those of cloud services: one command a scope."""
        found = [*await _all(plane, MACHINE, group), *await _all(plane, CLOUD_SERVICE, group)]
        scopes = await plane.scopes(found)
        for scope in scopes.values():
            names = tuple(name for name in scope.machines if not _goes(scope, name))
            if names:
                self.follow.append(Delete(scope=scope.id, machines=names, operation=self.operation))
        for one in found:
            scope_ = scopes.get(one.scope)
            if one.removed_by or (scope_ and one.machine and _goes(scope_, one.machine)):
                self.leaving.append(one.id)

    async def take_sets(self, plane: ArmContext, group: str) -> None:
        """Scale sets, whole."""
        found = await _all(plane, SCALE_SET, group)
        refs: list[Ref] = [(ScaleSet, one.set) for one in found]
        sets = await plane.fleet.reader.read_all(refs)
        for one in found:
            scale_set = sets[ScaleSet, one.set]
            if isinstance(scale_set, ScaleSet) and scale_set.deleting:
                self.leaving.append(one.id)
            elif scale_set is not None:
                self.follow.append(DeleteSet(set=one.set, operation=self.operation))


def _goes(scope: Scope, name: str) -> bool:
    impact = scope.impacts.get(name)
    return impact is not None and impact.kind is ImpactKind.DELETE


async def _all(plane: ArmContext, kind: str, group: str) -> list[Resource]:
    prefix = after = resources.within(kind, group)
    found: list[Resource] = []
    while page := await plane.fleet.reader.resources(prefix, after, PAGE):
        found += page
        after = page[-1].id
    return found


ROUTES = (
    Route("GET", f"{SUBSCRIPTION}/resourceGroups", _list),
    Route("GET", ONE, _get),
    Route("HEAD", ONE, _exists),
    Route("PUT", ONE, _put),
    Route("PATCH", ONE, _put),
    Route("DELETE", ONE, _delete),
)

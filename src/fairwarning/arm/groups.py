"""Resource groups: `Microsoft.Resources/resourceGroups`. What is in one goes with it (C1)."""

from starlette.responses import Response

from fairwarning.arm import documents, network, writing
from fairwarning.arm.call import Body, Call, accepted, answer
from fairwarning.arm.errors import Wrong
from fairwarning.arm.plane import PAGE, Plane, new_operation
from fairwarning.arm.routes import GROUP as ONE
from fairwarning.arm.routes import SUBSCRIPTION, Route
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
_LATER = (AVAILABILITY_SET, CLOUD_SERVICE, *network.KINDS, DEPLOYMENT)
"""What goes once the machines of the group are gone."""


def document(plane: Plane, group: Resource) -> Body:
    """A resource group as Azure shows it."""
    state = "Deleting" if group.doomed else "Succeeded"
    known: Body = {
        "id": plane.path(GROUP, "", group.name),
        "name": group.name,
        "type": GROUP,
        "properties": {"provisioningState": state},
    }
    return documents.merged(documents.written(group), known)


# --- Reading and writing --------------------------------------------------------------------------


async def _get(plane: Plane, call: Call) -> Response:
    return answer(document(plane, await plane.group(call.group)))


async def _exists(plane: Plane, call: Call) -> Response:
    found = await plane.find(GROUP, "", call.group)
    return Response(b"", 204 if found else 404)


async def _list(plane: Plane, call: Call) -> Response:
    own = call.principal.group
    if own:
        group = await plane.find(GROUP, "", own)
        return answer({"value": [document(plane, group)] if group else []})
    found, token = await plane.page(call, GROUP)
    shown = [document(plane, group) for group in found]
    return answer({"value": shown, **plane.next_link(call, token)})


async def _put(plane: Plane, call: Call) -> Response:
    writing.check_name(call.group)
    body = documents.kept(documents.cleaned(await call.body()))
    body.pop("properties", None)  # all of them are ours to say
    documents.tags_of(body)
    standing = await plane.find(GROUP, "", call.group)
    if standing is None and call.request.method == "PATCH":
        await plane.group(call.group)
    merged = documents.merged(documents.written(standing), body)
    writing.check_location(merged)
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


async def _delete(plane: Plane, call: Call) -> Response:
    """All that is in it, each with its notice; the group itself goes last."""
    group = await plane.group(call.group)
    operation = new_operation()
    later = [one.id for kind in _LATER for one in await _all(plane, kind, group.name)]
    follow = [
        *await _machines(plane, group.name, operation),
        *await _sets(plane, group.name, operation),
    ]
    if len(follow) + len(later) > FOLLOWING_COMMANDS:
        text = f"The group holds more than {FOLLOWING_COMMANDS} resources; delete some of them."
        raise Wrong("OperationNotAllowed", text, 409)
    remove = Remove(
        resource=group.id,
        operation=operation,
        others=tuple(later),
        follow=tuple(follow),
        actor=call.actor,
    )
    try:
        accepted_ = await plane.fleet.submit(remove)
    except Conflict as conflict:
        raise Wrong("Conflict", conflict.message, 409) from conflict
    return accepted(call, accepted_, plane.cloud.location)


async def _machines(plane: Plane, group: str, operation: str) -> list[Command]:
    """Deletes, one a scope; what is being deleted already is left to itself."""
    found = [*await _all(plane, MACHINE, group), *await _all(plane, CLOUD_SERVICE, group)]
    deletes: list[Command] = []
    for scope in (await plane.scopes(found)).values():
        names = tuple(name for name in scope.machines if not _goes(scope, name))
        if names:
            deletes.append(Delete(scope=scope.id, machines=names, operation=operation))
    return deletes


def _goes(scope: Scope, name: str) -> bool:
    impact = scope.impacts.get(name)
    return impact is not None and impact.kind is ImpactKind.DELETE


async def _sets(plane: Plane, group: str, operation: str) -> list[Command]:
    refs: list[Ref] = [(ScaleSet, one.set) for one in await _all(plane, SCALE_SET, group)]
    found = (await plane.fleet.read_all(refs)).values()
    sets = [one for one in found if isinstance(one, ScaleSet) and not one.deleting]
    return [DeleteSet(set=one.id, operation=operation) for one in sets]


async def _all(plane: Plane, kind: str, group: str) -> list[Resource]:
    prefix = after = resources.within(kind, group)
    found: list[Resource] = []
    while page := await plane.fleet.resources(prefix, after, PAGE):
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

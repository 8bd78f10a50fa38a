"""Resource groups: `Microsoft.Resources/resourceGroups`; deletion includes their resources (C1)."""

from starlette.responses import Response

from fairwarning.arm.compute import actions
from fairwarning.arm.http.errors import ArmError, azure_error, public_message
from fairwarning.arm.http.listing import list_response
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import GROUP as GROUP_PATH
from fairwarning.arm.http.routes import SUBSCRIPTION, Route
from fairwarning.arm.network.subnets import RESERVATION
from fairwarning.arm.types import documents, writing
from fairwarning.arm.types.context import STORED, ArmContext, new_operation
from fairwarning.arm.types.names import GROUP, INSTANCE, MACHINE, SCALE_SET
from fairwarning.core.commands import Command, Delete, DeleteSet, Remove, Write
from fairwarning.core.errors import Conflict
from fairwarning.core.limits import FOLLOWING_COMMANDS
from fairwarning.core.model import ImpactKind, Resource, ScaleSet, Scope
from fairwarning.service import resources
from fairwarning.service.resources import CLOUD_SERVICE

_ATTEMPTS = 5  # other requests may change the group's resources between read and commit


def document(context: ArmContext, group: Resource) -> Body:
    """Return a resource group in Azure's form."""
    computed: Body = {
        "id": context.arm_id(GROUP, "", group.name),
        "name": group.name,
        "type": GROUP,
        "properties": {"provisioningState": documents.state(group)},
    }
    return documents.merge(documents.stored_body(group), computed)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    return json_response(document(context, await context.group(request.group)))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    own_group = request.principal.group
    if own_group:
        group = await context.find(GROUP, "", own_group)
        return list_response(request, [document(context, group)] if group else [])
    page, token = await context.page(request, GROUP)
    value = [document(context, group) for group in page]
    return list_response(request, value, token)


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    writing.check_name(request.group)
    body = await writing.parse_body(context, request, GROUP)
    body = documents.without_read_only(body)
    body.pop("properties", None)  # all of them are read-only
    documents.tags_of(body)
    existing = await context.find(GROUP, "", request.group)
    if existing is None and request.http.method == "PATCH":
        await context.group(request.group)
    if_match = request.http.headers.get("if-match", "")
    must_be_new = request.http.headers.get("if-none-match", "") == "*"
    writing.check_etag(request.group, existing, if_match, must_be_new=must_be_new)
    before = documents.stored_body(existing)
    merged = documents.merge(before, body)
    writing.check_location(merged)
    if existing and writing.location_of(before) != writing.location_of(merged):
        raise azure_error("InvalidResourceGroupLocation", name=existing.name)
    write = Write(
        resource=resources.group_id(request.group),
        name=existing.name if existing else request.group,
        body=documents.encode(merged),
        at=(existing.version if existing else 0) if if_match or must_be_new else None,
        actor=request.actor,
    )
    await context.fleet.submit(write)
    group = document(context, await context.group(request.group))
    return json_response(group, 200 if existing else 201)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    """Delete all resources of a group, each with its notice, and then the group."""
    group = await context.group(request.group)
    writing.check_etag(group.name, group, request.http.headers.get("if-match", ""))
    if group.removed_by:
        return await actions.accept_running(context, request, group.removed_by)
    for _ in range(_ATTEMPTS):
        remove = await _removal(context, request, group)
        try:
            operation = await context.fleet.submit(remove)
        except Conflict as conflict:
            if conflict.code == "Changed":  # another request changed a resource of the group
                continue
            raise ArmError("Conflict", public_message(conflict), 409) from conflict
        return accepted(request, operation, context.cloud.location)
    raise azure_error("Conflict/group keeps changing", name=group.name)


async def _removal(context: ArmContext, request: ArmRequest, group: Resource) -> Remove:
    """Return the command that empties a group, and waits for deletions that are running."""
    operation = new_operation()
    rows = [r for kind in (MACHINE, CLOUD_SERVICE) for r in await context.all_of(kind, group.name)]
    scopes = await context.scopes(rows)
    commands: list[Command] = []
    for scope in scopes.values():
        names = tuple(name for name in scope.machines if not _is_deleting(scope, name))
        if names and not scope.owner:  # machines of a set are deleted with the set
            commands.append(Delete(scope=scope.id, machines=names, operation=operation))
    awaited = [
        row.id
        for row in rows
        if row.removed_by or (row.machine and _is_deleting(scopes.get(row.scope), row.machine))
    ]
    rows = await context.all_of(SCALE_SET, group.name)
    sets = await context.read_all(ScaleSet, (row.set for row in rows))
    for row in rows:
        scale_set = sets.get(row.set)
        if scale_set and scale_set.deleting:
            awaited.append(row.id)
        elif scale_set:
            commands.append(DeleteSet(set=row.set, operation=operation))
    # Everything else is removed once the machines of the group are gone.
    kinds = [kind.name for kind in context.types if kind.name not in {MACHINE, SCALE_SET, INSTANCE}]
    later = [
        resource.id
        for kind in (*kinds, CLOUD_SERVICE, RESERVATION, STORED)
        for resource in await context.all_of(kind, group.name)
        if not resource.removed_by
        and not (kind == RESERVATION and resource.used_by)  # which its user owns
    ]
    if len(commands) + len(later) > FOLLOWING_COMMANDS:
        most = FOLLOWING_COMMANDS
        raise azure_error("OperationNotAllowed/group too large", name=group.name, most=most)
    return Remove(
        resource=group.id,
        operation=operation,
        others=tuple(later),
        follow=tuple(commands),
        awaits=tuple(awaited),
        actor=request.actor,
    )


def _is_deleting(scope: Scope | None, name: str) -> bool:
    impact = scope.impacts.get(name) if scope else None
    return impact is not None and impact.kind is ImpactKind.DELETE


ROUTES = (
    Route("GET", f"{SUBSCRIPTION}/resourceGroups", _list),
    Route("GET", GROUP_PATH, _get),
    Route("PUT", GROUP_PATH, _put),
    Route("PATCH", GROUP_PATH, _put),
    Route("DELETE", GROUP_PATH, _delete),
)

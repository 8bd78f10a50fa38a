"""Maintenance configurations: `Microsoft.Maintenance/maintenanceConfigurations` (C1).

A configuration of scope Host has the window in which host rollouts may maintain what it is
assigned to. Configurations of other scopes are stored and have no effect.
"""

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import (
    azure_scopes,
    documents,
    maintenance_assignments,
    maintenance_windows,
    writing,
)
from fairwarning.arm.resources.documents import choice
from fairwarning.arm.resources.maintenance_assignments import CONFIGURATION, HOST
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
from fairwarning.core.commands import Remove
from fairwarning.service.resources import Resource

_SCOPES = {
    scope: scope
    for scope in (
        HOST, "Resource", "OSImage", "Extension", "InGuestPatch", "SQLDB", "SQLManagedInstance",
    )
}  # fmt: skip
_VISIBILITIES = {"Custom": "Custom", "Public": "Public"}


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Write a configuration, and the windows of all scopes that it is assigned to."""

    async def plan(existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        body = documents.without_read_only(merged)
        writing.check_location(body)
        documents.tags_of(body)
        scope = choice(body, "properties.maintenanceScope", _SCOPES, None)
        if scope is None:
            allowed = f"one of {', '.join(_SCOPES)}"
            raise documents.invalid_value("properties.maintenanceScope", "", allowed)
        visibility = choice(body, "properties.visibility", _VISIBILITIES, "Custom")
        window = maintenance_windows.window_text(body)
        body["properties"] |= {"maintenanceScope": scope, "visibility": visibility}
        if existing is None:
            return DesiredResource(body)
        before = documents.stored_body(existing)["properties"]["maintenanceScope"]
        if before != scope:
            writing.refuse_change("maintenanceScope")
        path = context.arm_id(CONFIGURATION, group.name, existing.name)
        text = window if scope == HOST else ""
        return DesiredResource(body, await maintenance_assignments.reassign(context, path, text))

    resource, created, operation = await writing.write_resource(context, CONFIGURATION, write, plan)
    return WriteResult(resource, document(context, resource), created, operation)


def document(context: ArmContext, resource: Resource) -> Body:
    """Return a configuration in Azure's form."""
    computed = {
        "id": context.arm_id(CONFIGURATION, resource.group, resource.name),
        "name": resource.name,
        "type": CONFIGURATION,
    }
    return {**documents.stored_body(resource), **computed}


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    return write_response(request, context, await put(context, await writing.parse_write(request)))


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(CONFIGURATION, request.group, request.name)
    return json_response(document(context, resource))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, CONFIGURATION, request.params.get("group", ""))
    value = [document(context, resource) for resource in page]
    return json_response({"value": value, **context.next_link(request, token)})


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(CONFIGURATION, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    path = context.arm_id(CONFIGURATION, resource.group, resource.name)
    owners = await maintenance_assignments.owners(context, path)
    if owners:
        scope = azure_scopes.of_path(owners[0])
        assert scope is not None
        shown = owners[0] if scope.group.lower() == resource.group.lower() else "another group"
        text = (
            f"The configuration '{resource.name}' has {len(owners)} assignments, such as to "
            f"{shown}; delete the assignments first."
        )
        raise ArmError("OperationNotAllowed", text, 409)
    command = Remove(resource=resource.id, operation=new_operation(), actor=request.actor)
    await context.fleet.submit(command)
    return Response(b"", 200)


async def _list_public(_context: ArmContext, _request: ArmRequest) -> Response:
    """List no public configurations: there are none."""
    return json_response({"value": []})


_IN_GROUP = f"{GROUP}/providers/{CONFIGURATION}"
_PUBLIC = f"{SUBSCRIPTION}/providers/Microsoft.Maintenance/publicMaintenanceConfigurations"
ROUTES = (
    Route("GET", f"{SUBSCRIPTION}/providers/{CONFIGURATION}", _list),
    Route("GET", _IN_GROUP, _list),
    Route("GET", f"{_IN_GROUP}/{{name}}", _get),
    Route("PUT", f"{_IN_GROUP}/{{name}}", _put),
    Route("PATCH", f"{_IN_GROUP}/{{name}}", _put),
    Route("DELETE", f"{_IN_GROUP}/{{name}}", _delete),
    Route("GET", _PUBLIC, _list_public),
)

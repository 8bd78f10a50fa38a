"""Autoscale settings of scale sets: `Microsoft.Insights/autoscaleSettings` (C6)."""

import re

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError, invalid_value
from fairwarning.arm.http.listing import list_response
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import autoscale_profiles, documents, set_model, writing
from fairwarning.arm.resources.documents import tags_of, typed_value
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
from fairwarning.core.commands import Command, Remove, SetAutoscale
from fairwarning.core.model import ScaleSet
from fairwarning.service import resources
from fairwarning.service.resources import SCALE_SET, Resource

KIND = "Microsoft.Insights/autoscaleSettings"
_TARGET = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute"
    r"/virtualMachineScaleSets/(?P<name>[^/]+)/?",
    re.IGNORECASE | re.ASCII,
)
_OFF_BY_DEFAULT_SINCE = "2021"  # in earlier api-versions, `enabled` is true by default


# --- Writing --------------------------------------------------------------------------------------


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Replace a setting, or merge a PATCH into it; the scale set follows it from now on."""

    async def plan(existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        body = _complete(merged if write.must_exist else write.body, write.version)
        profiles = autoscale_profiles.parse(body)
        target = await _target(context, body, group.name)
        _check_free(target, resources.resource_id(KIND, write.group, write.name))
        most = max(profile.maximum for profile in profiles)
        set_model.check_single_group(documents.stored_body(target), target.name, most)
        enabled = typed_value(body, "properties.enabled", bool)
        on = SetAutoscale(set=target.set, profiles=profiles if enabled else (), actor=write.actor)
        before = await _commands_off(context, existing, write.actor, keep=target.id)
        return DesiredResource(body, (*before, on), uses=(target.id,))

    resource, created, operation = await writing.write_resource(context, KIND, write, plan)
    return WriteResult(resource, _document(context, resource), created, operation)


def _complete(body: Body, version: str) -> Body:
    """Return the body with Azure's defaults, and without the members that the service computes."""
    writing.check_location(body)
    tags_of(body)
    enabled = typed_value(body, "properties.enabled", bool, version < _OFF_BY_DEFAULT_SINCE)
    return documents.merge(documents.without_read_only(body), {"properties": {"enabled": enabled}})


async def _target(context: ArmContext, body: Body, group: str) -> Resource:
    """Return the scale set that a setting is for."""
    uri = typed_value(body, "properties.targetResourceUri", str, "")
    match = _TARGET.fullmatch(uri)
    if match is None or match["group"].lower() != group.lower():
        text = "the id of a scale set in the same resource group"
        raise invalid_value("properties.targetResourceUri", uri, text)
    return await context.get(SCALE_SET, group, match["name"])


def _check_free(target: Resource, own: str) -> None:
    if target.used_by not in {"", own}:
        text = f"The scale set '{target.name}' already has an autoscale setting; change that one."
        raise ArmError("Conflict", text, 409)


async def _commands_off(
    context: ArmContext, resource: Resource | None, actor: str, keep: str = ""
) -> list[Command]:
    """Return the commands that turn autoscale off for the set of a setting, if it still exists."""
    commands: list[Command] = []
    for name in resource.uses if resource else ():
        target = await context.fleet.reader.read(Resource, name)
        if target and name != keep and await context.fleet.reader.read(ScaleSet, target.set):
            commands.append(SetAutoscale(set=target.set, profiles=(), actor=actor))
    return commands


# --- Requests -------------------------------------------------------------------------------------


def _document(context: ArmContext, resource: Resource) -> Body:
    """Return a setting in Azure's form."""
    computed: Body = {
        "id": context.arm_id(KIND, resource.group, resource.name),
        "name": resource.name,
        "type": KIND,
        "properties": {"name": resource.name},
    }
    defaults: Body = {"tags": {}, "properties": {"notifications": []}}
    return documents.merge(documents.merge(defaults, documents.stored_body(resource)), computed)


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    return write_response(request, context, await put(context, await writing.parse_write(request)))


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(KIND, request.group, request.name)
    return json_response(_document(context, resource))


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, KIND, request.params.get("group", ""))
    value = [_document(context, resource) for resource in page]
    return list_response(context, request, value, token)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    """Delete a setting, and return 200: the set keeps its present capacity."""
    resource = await context.find(KIND, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    follow = await _commands_off(context, resource, request.actor)
    command = Remove(
        resource=resource.id, operation=new_operation(), follow=tuple(follow), actor=request.actor
    )
    await context.fleet.submit(command)
    return Response(b"", 200)


_COLLECTION = f"{GROUP}/providers/{KIND}"
_ITEM = f"{_COLLECTION}/{{name}}"
ROUTES = (
    Route("GET", f"{SUBSCRIPTION}/providers/{KIND}", _list),
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("PATCH", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
)

"""Extensions of a scale set: `virtualMachineScaleSets/extensions`, a part of its model (C1)."""

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import documents, scale_sets, writing
from fairwarning.arm.resources.documents import typed_value
from fairwarning.arm.resources.machine_items import EXTENSIONS, checked
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.writing import ResourceWrite, WriteResult, write_response
from fairwarning.service.resources import SCALE_SET, Resource

KIND = f"{SCALE_SET}/extensions"
_WHERE = f"{SET_PROFILE}.extensionProfile.extensions"


def _extensions(resource: Resource) -> list[Body]:
    listed = typed_value(documents.stored_body(resource), _WHERE, list, [])
    return [entry for entry in listed if isinstance(entry, dict) and "name" in entry]


def _index(listed: list[Body], name: str) -> int | None:
    matches = (n for n, entry in enumerate(listed) if str(entry["name"]).lower() == name.lower())
    return next(matches, None)


def _document(context: ArmContext, resource: Resource, entry: Body) -> Body:
    computed = {**entry.get("properties", {}), "provisioningState": "Succeeded"}
    name = f"{resource.name}/{entry['name']}"
    path = context.arm_id(KIND, resource.group, name)
    return {**entry, "id": path, "type": KIND, "properties": computed}


async def _get_entry(context: ArmContext, group: str, owner: str, name: str) -> Body:
    resource = await context.get(SCALE_SET, group, owner)
    listed = _extensions(resource)
    index = _index(listed, name)
    if index is None:
        raise errors.resource_not_found(KIND, f"{owner}/{name[:90]}", group)
    return _document(context, resource, listed[index])


async def _write_list(
    context: ArmContext, resource: Resource, listed: list[Body], write: ResourceWrite
) -> WriteResult:
    """Write the model with these extensions; its instances then lack the latest model."""
    body: Body = {"extensions": listed}
    for step in reversed(_WHERE.split(".")[:-1]):
        body = {step: body}
    whole = ResourceWrite(
        group=write.group,
        name=resource.name,
        body=body,
        version=write.version,
        actor=write.actor,
        operation=write.operation,
        if_match=writing.etag(resource),
        must_exist=True,
    )
    return await scale_sets.put(context, whole)


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Add an extension to the model, or replace it; a PATCH changes the members that it has."""
    owner, _, name = write.name.partition("/")
    writing.check_name(name)
    resource = await context.get(SCALE_SET, write.group, owner)
    listed = _extensions(resource)
    index = _index(listed, name)
    if index is None and write.must_exist:
        raise errors.resource_not_found(KIND, write.name, write.group)
    patched = listed[index] if index is not None and write.must_exist else None
    body = checked(write.body, EXTENSIONS.required, patched)
    if index is None:
        listed.append({**body, "name": name})
    else:
        listed[index] = {**documents.merge(patched or {}, body), "name": listed[index]["name"]}
    result = await _write_list(context, resource, listed, write)
    document = await _get_entry(context, write.group, owner, name)
    return WriteResult(result.resource, document, index is None, result.operation)


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(SCALE_SET, request.group, request.params["set"])
    value = [_document(context, resource, entry) for entry in _extensions(resource)]
    return json_response({"value": value})


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    owner = request.params["set"]
    return json_response(await _get_entry(context, request.group, owner, request.name))


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    name = f"{request.params['set']}/{request.name}"
    write = await writing.parse_write(request, name=name, operation=new_operation())
    return write_response(request, context, await put(context, write))


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(SCALE_SET, request.group, request.params["set"])
    listed = _extensions(resource)
    index = _index(listed, request.name)
    if index is None:
        return Response(b"", 204)
    write = ResourceWrite(request.group, resource.name, {}, request.version, request.actor)
    await _write_list(context, resource, [*listed[:index], *listed[index + 1 :]], write)
    return Response(b"", 200)


_PATH = f"{COMPUTE}/virtualMachineScaleSets/{{set}}/extensions"
ROUTES = (
    Route("GET", _PATH, _list),
    Route("GET", f"{_PATH}/{{name}}", _get),
    Route("PUT", f"{_PATH}/{{name}}", _put),
    Route("PATCH", f"{_PATH}/{{name}}", _put),
    Route("DELETE", f"{_PATH}/{{name}}", _delete),
)

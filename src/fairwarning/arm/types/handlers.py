"""The requests that resources of all types understand: PUT, PATCH, GET, DELETE, lists and actions.

A type may answer some of them in its own way (`ResourceType`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from starlette.responses import Response

from fairwarning.arm.http.azure_id import AzureId, ResourcePath
from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import (
    ArmRequest,
    Body,
    accepted,
    is_finished,
    json_response,
    operation_headers,
)
from fairwarning.arm.http.routes import Handler
from fairwarning.arm.types import documents, registered, stored, users, writing
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.resource_type import ResourceType, ResourceTypes
from fairwarning.arm.types.writing import WriteResult
from fairwarning.core.errors import Conflict


def find_handler(context: ArmContext, method: str, path: ResourcePath) -> Handler:
    """Return the handler of a request to a resource, to a list of resources, or for an action."""
    method = "GET" if method == "HEAD" else method
    _check_places(context.types, path)
    if path.member:
        return _member_handler(context, method, path)
    kind = context.types.get(path.id.kind)
    if nested := context.types.nested(path.id.kind):
        known = registered.handlers(*nested)
    elif kind is None:
        known = stored.HANDLERS
    else:
        known = {
            "PUT": kind.put or partial(put, kind),
            "GET": kind.get or partial(get, kind),
            "DELETE": kind.remove or partial(_delete, kind),
        }
    if kind is None or kind.patched:
        known = {**known, "PATCH": known["PUT"]}
    if method not in known:
        raise _not_allowed(method, sorted(known))
    return known[method]


def _check_places(types: ResourceTypes, path: ResourcePath) -> None:
    """Refuse a type that acts in a place where the service has no such resources."""
    around = [id_.kind for id_ in path.id.with_parents() if types.is_misplaced(id_)]
    listed = AzureId(group="any", kind=path.listed_kind, owner=path.id if path.id.kind else None)
    if "/" in path.member and types.is_misplaced(listed):
        around.append(path.member)
    if around:
        raise azure_error("InvalidResourceType/place", kind=around[0])


def _member_handler(context: ArmContext, method: str, path: ResourcePath) -> Handler:
    """Return the handler of an action or a view of a resource, or of a list."""
    owner, listed = context.types.get(path.id.kind), context.types.get(path.listed_kind)
    member = path.member.lower()
    if owner and (why := owner.refused.get(member)):
        raise azure_error("OperationNotAllowed/not offered", member=path.member, why=why)
    if method == "POST":
        if owner is None and path.id.kind:
            return partial(stored.act, path.member)
        if owner and (action := owner.actions.get(member)):
            return action
        text = f"The action '{path.member[:80]}' of '{path.id.kind}' does not exist."
        raise ArmError("InvalidResourceType", text, 404)
    if method != "GET" or (owner and member in owner.actions):
        raise _not_allowed(method, ("POST",) if owner else ("GET", "POST"))
    if owner and (view := owner.views.get(member)):
        return view
    if nested := context.types.nested(path.listed_kind):
        return partial(registered.list_parts, *nested)
    if listed:
        return listed.list or partial(list_rows, listed)
    return partial(stored.list_kind, path)


def _not_allowed(method: str, allowed: Sequence[str]) -> ArmError:
    return azure_error("MethodNotAllowed", method=method, methods=", ".join(allowed))


async def put(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """Write a resource, by PUT or PATCH."""
    writing.check_name(request.id.name)
    write = await writing.parse_write(context, request, request.id, new_operation())
    plan = partial(registered.plan, kind)
    result = await writing.write_resource(replace(write, merges=kind.merges), plan)
    document = await registered.read_document(kind, context, result.resource)
    return write_response(context, request, result, document, kind.new_status)


def write_response(
    context: ArmContext,
    request: ArmRequest,
    result: WriteResult,
    document: Body,
    new_status: int = 201,
) -> Response:
    """Return 200 or 201 with the resource, and the polling URL while its operation runs."""
    headers = {"ETag": documents.etag(result.resource)}
    if result.operation and not is_finished(result.operation):
        headers |= operation_headers(request, result.operation, context.cloud.location)
        del headers["Location"]  # in the response to a PUT, clients take it for the resource's URL
    elif "provisioningState" in document["properties"]:
        # This request has finished, even while the operations of other requests go on.
        document = documents.merge(document, {"properties": {"provisioningState": "Succeeded"}})
    return json_response(document, new_status if result.created else 200, headers)


async def get(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """Return a resource."""
    parse_expand(request, kind.expands)
    resource = await context.get_id(request.id)
    document = await registered.read_document(kind, context, resource)
    return json_response(document, headers={"ETag": documents.etag(resource)})


async def list_rows(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """List the resources of a type: of a group, or all that the client may read."""
    parse_expand(request, kind.expands)
    page, token = await context.page(request, kind.name, request.id.group)
    value = await registered.read_documents(kind, context, page)
    return list_response(request, value, token)


async def _delete(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """Remove a resource that is not in use, and what is stored below it."""
    for attempt in range(2):
        resource = await context.find_id(request.id)
        if resource is None:
            return await context.no_content(request.id)
        document = await registered.read_document(kind, context, resource)
        users.refuse_if_in_use(kind.name, document, kind.parts)
        below = await stored.ids_below(context, request.id)
        try:
            operation = await writing.remove(context, request, resource, below)
            break
        except Conflict as conflict:
            if conflict.code != "InUse" or attempt:  # else it is in use since it was read
                raise
    if kind.new_status == HTTPStatus.OK and operation and is_finished(operation):
        return Response(b"", 200)
    return accepted(request, operation, context.cloud.location)

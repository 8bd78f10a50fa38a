"""Resources of types that have a record: written by their plan, and read with their users.

Their named parts, such as subnets, are stored in them, whether they were written with the resource
or at URLs of their own.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.errors import azure_error, invalid_value
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import (
    ArmRequest,
    Body,
    accepted,
    json_response,
    operation_headers,
)
from fairwarning.arm.http.routes import Handler
from fairwarning.arm.types import documents, references, stored, users, writing
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite, WriteResult
from fairwarning.core.errors import Conflict
from fairwarning.core.model import OperationStatus, Resource, guid

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,78}[A-Za-z0-9_])?", re.ASCII)
PARTS_MAX = 1500
"""Named parts of one kind in a resource: Azure's limit for the rules of a load balancer."""
_ALLOWED = "1 to 80 letters, digits, '_', '-' or '.'"


async def read_documents(
    kind: ResourceType, context: ArmContext, rows: Sequence[Resource]
) -> list[Body]:
    """Return the documents of resources, with those that use them."""
    if kind.documents:
        return await kind.documents(context, rows)
    shown = [_document(kind, context, row) for row in rows]
    await users.add_users(kind, context, rows, shown)
    if kind.complete:
        await kind.complete(context, rows, shown)
    return shown


async def read_document(kind: ResourceType, context: ArmContext, row: Resource) -> Body:
    """Return the document of a resource; raise if it was deleted since the row was read."""
    for document in await read_documents(kind, context, [row]):
        return document
    raise errors.resource_not_found(kind.name, row.name, row.group)


def _document(kind: ResourceType, context: ArmContext, resource: Resource) -> Body:
    """Return the stored body with the members that are computed from the resource alone."""
    body = documents.stored_body(resource)
    path = context.arm_id(kind.name, resource.group, resource.name)
    state = {"provisioningState": documents.state(resource)}
    properties = {**body["properties"], **state}
    for part in kind.parts:
        properties[part] = [
            {
                **entry,
                "id": f"{path}/{part}/{entry['name']}",
                "type": f"{kind.name}/{part}",
                "etag": documents.etag(resource),
                "properties": {**entry.get("properties", {}), **state},
            }
            for entry in properties.get(part, [])
        ]
    computed = {"id": path, "name": resource.name, "type": kind.name}
    if kind.name.startswith("Microsoft.Network/"):
        computed["etag"] = documents.etag(resource)
        properties["resourceGuid"] = guid(path.lower()).lower()
    return {**body, **computed, "properties": properties}


async def plan(kind: ResourceType, write: ResourceWrite, body: Body) -> DesiredResource:
    """Check a body and its references, and plan its write as the type does."""
    body = documents.without_read_only(documents.deep_copy(body))
    if write.existing is None or not kind.merges:
        writing.check_location(body)
    documents.tags_of(body)
    body["properties"] = typed_value(body, "properties", dict, {})
    _check_parts(kind, body)
    users.remove_users(kind, body)
    await _check_removed_parts(kind, write, body)
    uses, owns = await references.check(write, body)
    desired = await kind.plan(write, body) if kind.plan else DesiredResource(body)
    if write.existing is None:  # what belonged to a machine of this name that was evicted
        await stored.remove_below(write.context, write.id, write.actor)
    uses, owns = [*uses, *(desired.uses or ())], [*owns, *(desired.owns or ())]
    return replace(desired, uses=tuple(uses), owns=tuple(owns))


def _check_parts(kind: ResourceType, body: Body) -> None:
    """Refuse parts without names of their own."""
    for part in kind.parts:
        entries = typed_value(body, f"properties.{part}", list, [])
        check_names(entries, f"properties.{part}")
        for entry in entries:
            entry["properties"] = typed_value(entry, "properties", dict, {})


def check_names(entries: list[object], where: str) -> None:
    """Refuse the entries of a list that have no names of their own, and too many of them."""
    if len(entries) > PARTS_MAX:
        raise invalid_value(where, f"{len(entries)} entries", f"at most {PARTS_MAX} entries")
    names: set[str] = set()
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise invalid_value(f"{where}.name", name, _ALLOWED)
        if name.lower() in names:
            raise invalid_value(f"{where}.name", name, "unique in its list")
        names.add(name.lower())


async def _check_removed_parts(kind: ResourceType, write: ResourceWrite, body: Body) -> None:
    """Refuse to remove parts that are in use, such as a subnet."""
    if write.existing is None:
        return
    before = documents.stored_body(write.existing)
    for part in kind.parts:
        kept = {entry["name"].lower() for entry in body["properties"].get(part, ())}
        listed: list[Body] = before["properties"].get(part, [])
        gone = {entry["name"] for entry in listed if entry["name"].lower() not in kept}
        if gone and f"{kind.name}/{part}" in users.REFUSALS:
            shown = await read_document(kind, write.context, write.existing)
            for entry in shown["properties"][part]:
                if entry["name"] in gone:
                    users.refuse_if_in_use(f"{kind.name}/{part}", entry)


async def put(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """Write a resource, by PUT or PATCH."""
    writing.check_name(request.id.name)
    write = await writing.parse_write(context, request, request.id, new_operation())
    result = await writing.write_resource(replace(write, merges=kind.merges), partial(plan, kind))
    document = await read_document(kind, context, result.resource)
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
    if result.operation and result.operation.status is OperationStatus.RUNNING:
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
    document = await read_document(kind, context, resource)
    return json_response(document, headers={"ETag": documents.etag(resource)})


async def list_rows(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """List the resources of a type: of a group, or all that the client may read."""
    parse_expand(request, kind.expands)
    page, token = await context.page(request, kind.name, request.id.group)
    value = await read_documents(kind, context, page)
    return list_response(request, value, token)


async def delete(kind: ResourceType, context: ArmContext, request: ArmRequest) -> Response:
    """Remove a resource that is not in use, and what is stored below it."""
    for attempt in range(2):
        resource = await context.find_id(request.id)
        if resource is None:
            return await context.no_content(request.id)
        document = await read_document(kind, context, resource)
        users.refuse_if_in_use(kind.name, document, kind.parts)
        below = await stored.ids_below(context, request.id)
        try:
            operation = await writing.remove(context, request, resource, below)
            break
        except Conflict as conflict:
            if conflict.code != "InUse" or attempt:  # else it is in use since it was read
                raise
    running = operation and operation.status is OperationStatus.RUNNING
    if kind.new_status == HTTPStatus.OK and not running:
        return Response(b"", 200)
    return accepted(request, operation, context.cloud.location)


def part_handlers(kind: ResourceType, part: str) -> Mapping[str, Handler]:
    """Return the handlers of a nested type, by method."""
    return {
        "PUT": partial(_put_part, kind, part),
        "GET": partial(_get_part, kind, part),
        "DELETE": partial(_delete_part, kind, part),
    }


async def list_parts(
    kind: ResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """List the parts of a resource."""
    shown = await read_document(kind, context, await context.get_id(request.id))
    return list_response(request, shown["properties"][part])


async def _read_part(kind: ResourceType, part: str, context: ArmContext, id_: AzureId) -> Body:
    parent, name = _split(id_)
    document = await read_document(kind, context, await context.get_id(parent))
    entry = _named(document["properties"][part], name)
    if entry is None:
        raise errors.resource_not_found(id_.kind, id_.name, id_.group)
    return entry


def _named(entries: list[Body], name: str) -> Body | None:
    return next((entry for entry in entries if entry["name"].lower() == name.lower()), None)


async def _get_part(
    kind: ResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    entry = await _read_part(kind, part, context, request.id)
    return json_response(entry, headers={"ETag": entry["etag"]})


async def _put_part(
    kind: ResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """Replace a part, or add it; by PATCH, merge into it."""
    parent, name = _split(request.id)
    write = await writing.parse_write(context, request, request.id)
    created = True

    def edit(entries: list[Body]) -> None:
        nonlocal created
        before = _named(entries, name)
        created = before is None
        if (created and write.if_match) or (before and write.must_be_new):
            raise azure_error("PreconditionFailed", name=name)
        if created and write.must_exist:
            raise errors.resource_not_found(request.id.kind, request.id.name, request.id.group)
        if before is None:
            entries.append({**write.body, "name": name})
            return
        body = documents.merge(before, write.body) if write.must_exist else write.body
        entries[entries.index(before)] = {**body, "name": before["name"]}

    await _edit_parent(kind, part, replace(write, id=parent), edit)
    entry = await _read_part(kind, part, context, request.id)
    return json_response(entry, 201 if created else 200, {"ETag": entry["etag"]})


async def _delete_part(
    kind: ResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """Remove a part, and return 200: no operation follows."""
    parent, name = _split(request.id)
    existing = await context.find_id(parent)
    if existing is None or references.named_part(existing, part, name) is None:
        return await context.no_content(request.id)

    def edit(entries: list[Body]) -> None:
        entries[:] = [entry for entry in entries if entry["name"].lower() != name.lower()]

    if_match = request.http.headers.get("if-match", "")
    write = ResourceWrite(context, parent, {}, request.version, request.actor, if_match=if_match)
    await _edit_parent(kind, part, write, edit)
    return Response(b"", 200)


async def _edit_parent(
    kind: ResourceType, part: str, write: ResourceWrite, edit: Callable[[list[Body]], None]
) -> None:
    """Write the parent with other parts; raise if it does not exist."""

    async def edited(write: ResourceWrite, body: Body) -> DesiredResource:
        if write.existing is None:
            raise azure_error("ParentResourceNotFound", name=write.name, kind=kind.name)
        edit(body["properties"].setdefault(part, []))
        return await plan(kind, write, body)

    await writing.write_resource(
        replace(write, body={}, merges=True, must_be_new=False, must_exist=False), edited
    )


def _split(id_: AzureId) -> tuple[AzureId, str]:
    parent = id_.parent()
    assert parent is not None
    return parent, id_.names[-1]

"""Resources of types that have a record: written by their plan, and read with their users.

Their named parts, such as subnets, have URLs of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.listing import list_response
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import Handler
from fairwarning.arm.types import documents, parts, references, stored, users, writing
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.model import Resource


async def read_documents(
    kind: ResourceType, context: ArmContext, rows: Sequence[Resource]
) -> list[Body]:
    """Return the documents of resources, with those that use them."""
    if kind.documents:
        return await kind.documents(context, rows)
    shown = [parts.document(kind, context, row) for row in rows]
    await users.add_users(kind, context, rows, shown)
    if kind.complete:
        await kind.complete(context, rows, shown)
    return shown


async def read_document(kind: ResourceType, context: ArmContext, row: Resource) -> Body:
    """Return the document of a resource; raise if it was deleted since the row was read."""
    for document in await read_documents(kind, context, [row]):
        return document
    raise errors.resource_not_found(kind.name, row.name, row.group)


async def plan(kind: ResourceType, write: ResourceWrite, body: Body) -> DesiredResource:
    """Check a body and its references, and plan its write as the type does."""
    body = documents.without_read_only(documents.deep_copy(body))
    if write.existing is None or not kind.merges:
        writing.check_location(body)
    documents.tags_of(body)
    body["properties"] = documents.typed_value(body, "properties", dict, {})
    parts.check(kind, body)
    users.remove_users(kind, body)
    await _check_removed_parts(kind, write, body)
    links = await references.check(write, body)
    desired = await kind.plan(write, body) if kind.plan else DesiredResource(body)
    if write.existing is None:  # what belonged to a machine of this name that was evicted
        await stored.remove_below(write.context, write.id, write.actor)
    uses, owns = (*links.uses, *(desired.uses or ())), (*links.owns, *(desired.owns or ()))
    return replace(desired, uses=uses, owns=owns)


async def _check_removed_parts(kind: ResourceType, write: ResourceWrite, body: Body) -> None:
    """Refuse to remove parts that are in use, such as a subnet."""
    if write.existing is None:
        return
    before = documents.stored_body(write.existing)
    for part in kind.parts:
        kept = {entry["name"].lower() for entry in body["properties"].get(part, ())}
        gone = {e["name"] for e in parts.listed(before, part) if e["name"].lower() not in kept}
        if gone and f"{kind.name}/{part}" in users.REFUSALS:
            shown = await read_document(kind, write.context, write.existing)
            for entry in shown["properties"][part]:
                if entry["name"] in gone:
                    users.refuse_if_in_use(f"{kind.name}/{part}", entry)


def handlers(kind: ResourceType, part: str) -> Mapping[str, Handler]:
    """Return the handlers of a nested type, by method."""
    return {
        "PUT": partial(_put, kind, part),
        "GET": partial(_get, kind, part),
        "DELETE": partial(_delete, kind, part),
    }


async def list_parts(
    kind: ResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """List the parts of a resource."""
    shown = await _parent_document(kind, context, request.id)
    return list_response(request, shown["properties"][part])


async def _parent_document(kind: ResourceType, context: ArmContext, parent: AzureId) -> Body:
    return await read_document(kind, context, await context.get_id(parent))


async def _read(kind: ResourceType, part: str, context: ArmContext, id_: AzureId) -> Body:
    parent, name = _split(id_)
    entries: list[Body] = (await _parent_document(kind, context, parent))["properties"][part]
    index = parts.index_of(entries, name)
    if index is None:
        raise errors.resource_not_found(id_.kind, id_.name, id_.group)
    return entries[index]


async def _get(kind: ResourceType, part: str, context: ArmContext, request: ArmRequest) -> Response:
    entry = await _read(kind, part, context, request.id)
    return json_response(entry, headers={"ETag": entry["etag"]})


async def _put(kind: ResourceType, part: str, context: ArmContext, request: ArmRequest) -> Response:
    """Replace a part, or add it; by PATCH, merge into it."""
    parent, name = _split(request.id)
    write = await writing.parse_write(context, request, request.id)
    created = True

    def edit(entries: list[Body]) -> None:
        nonlocal created
        index = parts.index_of(entries, name)
        created = index is None
        if index is None and write.if_match:
            raise writing.precondition_failed(name)
        if index is None and write.must_exist:
            raise errors.resource_not_found(request.id.kind, request.id.name, request.id.group)
        if index is None:
            entries.append({**write.body, "name": name})
        elif write.must_be_new:
            raise writing.precondition_failed(name)
        else:
            before = entries[index]
            body = documents.merge(before, write.body) if write.must_exist else write.body
            entries[index] = {**body, "name": before["name"]}

    await _edit_parent(kind, part, replace(write, id=parent), edit)
    entry = await _read(kind, part, context, request.id)
    return json_response(entry, 201 if created else 200, {"ETag": entry["etag"]})


async def _delete(
    kind: ResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """Remove a part, and return 200: no operation follows."""
    parent, name = _split(request.id)
    existing = await context.find_id(parent)
    listed = parts.listed(documents.stored_body(existing), part) if existing else []
    if parts.index_of(listed, name) is None:
        return await context.no_content(request.id)

    def edit(entries: list[Body]) -> None:
        entries[:] = [entry for entry in entries if entry["name"].lower() != name.lower()]

    if_match = request.http.headers.get("if-match", "")
    write = ResourceWrite(context, parent, {}, request.version, request.actor, if_match=if_match)
    await _edit_parent(kind, part, write, edit)
    return Response(b"", 200)


Edit = Callable[[list[Body]], None]


async def _edit_parent(kind: ResourceType, part: str, write: ResourceWrite, edit: Edit) -> None:
    """Write the parent with other parts; raise if it does not exist."""

    async def edited(write: ResourceWrite, body: Body) -> DesiredResource:
        if write.existing is None:
            raise azure_error("ParentResourceNotFound", name=write.name, kind=kind.name)
        edit(parts.listed(body, part))
        return await plan(kind, write, body)

    await writing.write_resource(
        replace(write, body={}, merges=True, must_be_new=False, must_exist=False), edited
    )


def _split(id_: AzureId) -> tuple[AzureId, str]:
    parent = id_.parent()
    assert parent is not None
    return parent, id_.names[-1]

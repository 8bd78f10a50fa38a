"""Resource types that are only stored: every type without a record (C8).

They are kept as written, with an id, a name, a type and a state, and nothing acts on them. They are
deleted with the resource that they are nested in or belong to, and with their group.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from starlette.responses import Response

from fairwarning.arm.catalogue import computed_members
from fairwarning.arm.catalogue import document as document_of
from fairwarning.arm.http.azure_id import AzureId, ResourcePath
from fairwarning.arm.http.errors import azure_error, resource_not_found
from fairwarning.arm.http.listing import list_response
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import Handler
from fairwarning.arm.types import documents, references, writing
from fairwarning.arm.types.context import STORED, ArmContext, new_operation
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core import limits
from fairwarning.core.commands import Remove
from fairwarning.core.model import Resource, guid
from fairwarning.service import resources

IN_GROUP_MAX = 1000
"""Resources of a group that are only stored."""
HEADER = "x-fairwarning-stored-only"
"""The header of responses that says so; a deployment says it in its diagnostics."""
_NAMESPACE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,60}(\.[A-Za-z0-9]{1,60}){1,5}", re.ASCII)
_TYPE = re.compile("[A-Za-z][A-Za-z0-9._-]{0,79}", re.ASCII)
_NAME = re.compile(r"[^<>#%&\\?/\x00-\x1f\x7f]{0,259}[^<>#%&\\?/\x00-\x1f\x7f. ]")
_LEVELS = 8  # of nested types


def note(kind: str) -> str:
    """Return the sentence that says that nothing acts on a type."""
    return f"Resources of type '{kind}' are stored as written; Fairwarning does not act on them."


def _check_id(write: ResourceWrite) -> None:
    """Refuse types and names that no resource of Azure has."""
    id_ = write.id
    namespace, *types = id_.kind.split("/")
    if not _NAMESPACE.fullmatch(namespace) or not all(map(_TYPE.fullmatch, types)):
        raise azure_error("InvalidResourceType/type", kind=id_.kind[:160])
    if len(types) > _LEVELS:
        raise documents.invalid_value("id", id_.kind, f"nested at most {_LEVELS} levels deep")
    for name in id_.names:
        if not _NAME.fullmatch(name) or not name.isprintable() or name[0] == " ":
            allowed = (
                "1 to 260 printable characters without <>#%&\\?/, and without ' ' at either end or "
                "'.' at the end"
            )
            raise documents.invalid_value("name", name, allowed)
    if len(write.store_id) > limits.RESOURCE_ID_CHARACTERS:
        most = f"{limits.RESOURCE_ID_CHARACTERS} characters long, with the names of its parents"
        raise documents.invalid_value("id", id_.in_group, f"at most {most}")


def document(context: ArmContext, row: Resource) -> Body:
    """Return a stored resource in Azure's form."""
    body = documents.stored_body(row)
    kind, name = body.pop("type"), row.name.rpartition("/")[2]
    state = {"provisioningState": documents.state(row)}
    computed = computed_members(kind, name=name, guid=guid("stored", row.id).lower())
    properties = {**computed, **body["properties"], **state}
    return {
        **body,
        "id": context.path_of(row),
        "name": name,
        "type": kind,
        "etag": documents.etag(row),
        "properties": properties,
    }


def kind_of(row: Resource) -> str:
    """Return the type of a stored resource, as its client wrote it."""
    return str(documents.stored_body(row)["type"])


def _response(context: ArmContext, row: Resource, status: int = 200) -> Response:
    shown = document(context, row)
    headers = {"ETag": documents.etag(row), HEADER: note(shown["type"])}
    return json_response(shown, status, headers)


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    write = await writing.parse_write(context, request, request.id)
    result = await writing.write_resource(replace(write, merges=False), _plan)
    return _response(context, result.resource, 201 if result.created else 200)


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    if write.existing is None:
        _check_id(write)
        parent = write.id.parent()
        if parent and not await _any_exists(write.context, parent):
            raise azure_error("ParentResourceNotFound", name=parent.name, kind=parent.kind)
        await _check_count(write)
    documents.tags_of(body)
    kept = {key: part for key, part in body.items() if key not in {"id", "name", "etag"}}
    properties = documents.typed_value(kept, "properties", dict, {})
    kept["properties"] = {k: v for k, v in properties.items() if k != "provisioningState"}
    kept["type"] = kind_of(write.existing) if write.existing else write.id.kind
    await references.check(write, kept)
    return DesiredResource(kept)


async def _any_exists(context: ArmContext, id_: AzureId) -> bool:
    """Whether a resource or one around it exists: Azure creates some parents by itself."""
    for around in id_.with_parents():
        if around.kind and await exists(context, around):
            return True
    return False


async def exists(context: ArmContext, id_: AzureId) -> bool:
    """Whether a resource of any type exists; also an instance of a scale set, which has no row."""
    if nested := context.types.nested(id_.kind):
        parent = id_.parent()
        row = await context.find_id(parent) if parent else None
        return bool(row and references.named_part(row, nested[1], id_.names[-1]))
    if await context.find_id(id_):
        return True
    kind = context.types.get(id_.kind)
    return bool(kind and kind.exists and await kind.exists(context, id_))


async def require_scope(context: ArmContext, id_: AzureId) -> None:
    """Raise if a resource or group, to which something belongs, does not exist."""
    if id_.kind and not await exists(context, id_):
        raise resource_not_found(id_.kind, id_.name, id_.group)
    if id_.group:
        await context.group(id_.group)


async def _check_count(write: ResourceWrite) -> None:
    prefix = resources.id_prefix(STORED, write.id.group) if write.id.group else f"{STORED}::"
    ids = await write.context.fleet.reader.list_ids(Resource, prefix, IN_GROUP_MAX)
    if len(ids) == IN_GROUP_MAX and ids[-1].startswith(prefix):
        raise azure_error("ResourceGroupQuotaExceeded", most=IN_GROUP_MAX)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    row, parent = await context.get_id(request.id), request.id.parent()
    if parent and not await _any_exists(context, parent):  # as of a machine that was evicted
        raise resource_not_found(request.id.kind, request.id.name, request.id.group)
    return _response(context, row)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    row = await context.find_id(request.id)
    if row is None:
        return await context.no_content(request.id)
    await writing.remove(context, request, row, await ids_below(context, request.id))
    return Response(b"", 200)


HANDLERS: Mapping[str, Handler] = {"PUT": _put, "GET": _get, "DELETE": _delete}


async def list_kind(path: ResourcePath, context: ArmContext, request: ArmRequest) -> Response:
    """List the resources of a type: of the subscription, of a group, or of another resource."""
    id_, kind = path.id, path.listed_kind
    if not (id_.kind and await _any_exists(context, id_)):
        await require_scope(context, id_)
    group = id_.group or request.principal.group
    prefix = resources.id_prefix(STORED, group)
    if id_.kind:
        separator = "/providers/" if "/" in path.member else "/"
        prefix = resources.resource_id(STORED, group, f"{id_.in_group}{separator}{path.member}/")
    elif group:
        prefix = resources.resource_id(STORED, group, f"{kind}/")
    rows, token = await context.rows(request, prefix)
    value = [document(context, row) for row in rows if kind_of(row).lower() == kind.lower()]
    return list_response(request, value, token)


async def ids_below(context: ArmContext, id_: AzureId) -> list[str]:
    """Return the ids in the store of what is nested in a resource, or belongs to it."""
    prefix = resources.resource_id(STORED, id_.group, f"{id_.in_group}/")
    ids = await context.fleet.reader.list_ids(Resource, prefix, IN_GROUP_MAX)
    return [name for name in ids if name.startswith(prefix)]


async def remove_below(context: ArmContext, id_: AzureId, actor: str) -> None:
    """Remove what is stored below a resource that is being deleted, or does not exist yet."""
    if below := await ids_below(context, id_):
        others, operation = tuple(below[1:]), new_operation()
        command = Remove(resource=below[0], others=others, operation=operation, actor=actor)
        await context.fleet.submit(command)


async def act(action: str, context: ArmContext, request: ArmRequest) -> Response:
    """Answer `list*` actions with made-up keys of a fixed form; refuse every other action."""
    row = await context.get_id(request.id)
    kind = kind_of(row)
    if not action.lower().startswith("list"):
        raise azure_error("OperationNotAllowed/stored type", action=action[:80], why=note(kind))
    first, second = (guid("key", row.id, name).lower() for name in ("primary", "secondary"))
    keys = document_of("listKeys", first=first, second=second)
    return json_response(keys, headers={HEADER: note(kind)})

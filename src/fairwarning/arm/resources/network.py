"""Resources that are stored as written and have no effect: networks, addresses, disks and images.

Machines refer to them, so tools write them first and read them back. A nested resource (a subnet,
a rule) is stored in its parent, whether it was written with the parent or on its own.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import addresses, documents, writing
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.arm.resources.writing import (
    DesiredResource,
    Put,
    ResourceWrite,
    WriteResult,
    check_location,
    etag,
    parse_write,
    write_response,
)
from fairwarning.core.commands import Remove
from fairwarning.core.model import guid
from fairwarning.core.record import changed
from fairwarning.service import resources
from fairwarning.service.resources import Resource

Fill = Callable[[ArmContext, Body, str], Awaitable[None]]
"""Adds Azure's defaults to a body before it is stored; the third argument is the Azure id."""

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,78}[A-Za-z0-9_])?", re.ASCII)
_ALLOWED = "1 to 80 letters, digits, '_', '-' or '.'"
_NETWORK = "Microsoft.Network"
_COMPUTE = "Microsoft.Compute"


@dataclass(frozen=True)
class PlainResourceType:
    """A resource type: its lists of named parts, and the parts that have URLs of their own."""

    name: str
    parts: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    fill: Fill | None = None
    returns_201: bool = True  # 201 for a new resource; for a new disk, clients accept only 200


_TABLE = (
    PlainResourceType(
        f"{_NETWORK}/virtualNetworks", ("subnets", "virtualNetworkPeerings"), ("subnets",)
    ),
    PlainResourceType(f"{_NETWORK}/networkSecurityGroups", ("securityRules",), ("securityRules",)),
    PlainResourceType(f"{_NETWORK}/publicIPAddresses", fill=addresses.fill_public),
    PlainResourceType(
        f"{_NETWORK}/loadBalancers",
        (
            "frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules",
            "inboundNatRules", "inboundNatPools", "outboundRules",
        ),
        ("inboundNatRules",),
    ),
    PlainResourceType(
        f"{_NETWORK}/networkInterfaces", ("ipConfigurations",), fill=addresses.fill_interface
    ),
    PlainResourceType(f"{_COMPUTE}/disks", returns_201=False),
    PlainResourceType(f"{_COMPUTE}/images"),
    PlainResourceType(f"{_COMPUTE}/proximityPlacementGroups"),
    PlainResourceType(f"{_COMPUTE}/sshPublicKeys"),
)  # fmt: skip

KINDS: tuple[str, ...] = tuple(kind.name for kind in _TABLE)
"""The types of this module, in Azure's case."""
TYPES: tuple[str, ...] = (
    *KINDS,
    *(f"{kind.name}/{part}" for kind in _TABLE for part in kind.nested),
)
"""The types of this module and their nested types."""


# --- Writing --------------------------------------------------------------------------------------


async def _put(kind: PlainResourceType, context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Replace a resource; for a PATCH, merge the body into the stored one."""
    write = writing.normalized(kind.name, write)

    async def plan(_existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        body = documents.without_read_only(
            merged if write.must_exist else documents.sanitize(write.body)
        )
        check_location(body)
        await _complete(kind, context, body, context.arm_id(kind.name, group.name, write.name))
        return DesiredResource(body)

    resource, created, operation = await writing.write_resource(context, kind.name, write, plan)
    new = created and kind.returns_201
    return WriteResult(resource, _document(kind, context, resource), new, operation)


async def _put_part(
    kind: PlainResourceType, part: str, context: ArmContext, write: ResourceWrite
) -> WriteResult:
    """Replace a nested resource, or add it."""
    write = writing.normalized(f"{kind.name}/{part}", write)
    parent, _, name = write.name.partition("/")
    created = True

    async def plan(existing: Resource | None, merged: Body, group: Resource) -> DesiredResource:
        nonlocal created
        listed = _parts(_require_parent(kind, parent, existing, merged), part)
        index = _index(listed, name)
        created = index is None
        if index is None:
            listed.append({**documents.sanitize(write.body), "name": name})
        elif write.must_be_new:
            raise ArmError("PreconditionFailed", f"The resource '{name}' already exists.", 412)
        else:
            listed[index] = {**documents.sanitize(write.body), "name": listed[index]["name"]}
        await _complete(kind, context, merged, context.arm_id(kind.name, group.name, parent))
        return DesiredResource(merged)

    parent_write = replace(write, name=parent, body={}, must_be_new=False, must_exist=False)
    resource, _, operation = await writing.write_resource(context, kind.name, parent_write, plan)
    document = _part_document(kind, context, resource, part, name)
    nested = changed(
        resource,
        id=resources.resource_id(f"{kind.name}/{part}", resource.group, write.name),
        name=f"{resource.name}/{document['name']}",
    )
    return WriteResult(nested, document, created, operation)


def _require_parent(
    kind: PlainResourceType, name: str, existing: Resource | None, merged: Body
) -> Body:
    """Return the body of the parent resource; raise if the parent does not exist."""
    if existing is None:
        text = (
            f"Can not perform requested operation on nested resource. Parent resource '{name}' "
            f"of type '{kind.name}' was not found."
        )
        raise ArmError("ParentResourceNotFound", text, 404)
    return merged


def _parts(body: Body, part: str) -> list[Body]:
    """Return the list of a body's parts of one kind, for modification."""
    properties: Body = body.setdefault("properties", {})
    listed: list[Body] = properties.setdefault(part, [])
    return listed


def _index(listed: list[Body], name: str) -> int | None:
    matches = (n for n, part in enumerate(listed) if part["name"].lower() == name.lower())
    return next(matches, None)


async def _complete(kind: PlainResourceType, context: ArmContext, body: Body, path: str) -> None:
    """Check the members that the service reads, and add Azure's defaults."""
    documents.tags_of(body)
    body["properties"] = typed_value(body, "properties", dict, {})
    for part in kind.parts:
        _check_parts(body, part)
    if kind.fill:
        await kind.fill(context, body, path)


def _check_parts(body: Body, part: str) -> None:
    where = f"properties.{part}"
    names = set()
    for entry in typed_value(body, where, list, []):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise invalid_value(f"{where}.name", name, _ALLOWED)
        if name.lower() in names:
            raise invalid_value(f"{where}.name", name, "unique in its list")
        names.add(name.lower())
        typed_value(entry, "properties", dict)


PUTS: Mapping[str, Put] = {
    **{kind.name.lower(): partial(_put, kind) for kind in _TABLE},
    **{
        f"{kind.name}/{part}".lower(): partial(_put_part, kind, part)
        for kind in _TABLE
        for part in kind.nested
    },
}
"""The write function of each type, by its name in lower case."""


# --- Documents ------------------------------------------------------------------------------------


def _document(kind: PlainResourceType, context: ArmContext, resource: Resource) -> Body:
    """Return the stored body with the computed members."""
    body = documents.stored_body(resource)
    path = context.arm_id(kind.name, resource.group, resource.name)
    properties = {**body["properties"], "provisioningState": _state(resource)}
    for part in kind.parts:
        listed = properties.get(part, [])
        properties[part] = [_with_computed(kind, part, path, entry, resource) for entry in listed]
    computed = {"id": path, "name": resource.name, "type": kind.name}
    if kind.name.startswith(_NETWORK):
        computed["etag"] = etag(resource)
        properties["resourceGuid"] = guid(path.lower()).lower()
    return {**body, **computed, "properties": properties}


def _with_computed(
    kind: PlainResourceType, part: str, path: str, entry: Body, resource: Resource
) -> Body:
    computed = {
        "id": f"{path}/{part}/{entry['name']}",
        "type": f"{kind.name}/{part}",
        "etag": etag(resource),
    }
    inner = {**entry.get("properties", {}), "provisioningState": _state(resource)}
    return {**entry, **computed, "properties": inner}


def _part_document(
    kind: PlainResourceType, context: ArmContext, resource: Resource, part: str, name: str
) -> Body:
    listed: list[Body] = _document(kind, context, resource)["properties"][part]
    index = _index(listed, name)
    if index is None:
        raise errors.resource_not_found(
            f"{kind.name}/{part}", f"{resource.name}/{name}", resource.group
        )
    return listed[index]


def _state(resource: Resource) -> str:
    return "Deleting" if resource.removed_by else "Succeeded"


# --- Requests -------------------------------------------------------------------------------------


async def _write(put: Put, context: ArmContext, request: ArmRequest) -> Response:
    parent = request.params.get("parent")
    name = f"{parent}/{request.name}" if parent else request.name
    return write_response(
        request, context, await put(context, await parse_write(request, name=name))
    )


async def _get(kind: PlainResourceType, context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(kind.name, request.group, request.name)
    return json_response(_document(kind, context, resource), headers={"ETag": etag(resource)})


async def _list(kind: PlainResourceType, context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, kind.name, request.params.get("group", ""))
    value = [_document(kind, context, resource) for resource in page]
    return list_response(context, request, value, token)


async def _delete(kind: PlainResourceType, context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(kind.name, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    command = Remove(resource=resource.id, operation=new_operation(), actor=request.actor)
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


async def _get_part(
    kind: PlainResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    resource = await context.get(kind.name, request.group, request.params["parent"])
    document = _part_document(kind, context, resource, part, request.name)
    return json_response(document, headers={"ETag": etag(resource)})


async def _list_parts(
    kind: PlainResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    resource = await context.get(kind.name, request.group, request.params["parent"])
    value = _document(kind, context, resource)["properties"][part]
    return list_response(context, request, value)


async def _delete_part(
    kind: PlainResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """Delete a nested resource, and return 200: no operation follows."""
    parent = request.params["parent"]
    existing = await context.find(kind.name, request.group, parent)
    if (
        existing is None
        or _index(_parts(documents.stored_body(existing), part), request.name) is None
    ):
        return await writing.no_content(context, request)

    async def plan(existing: Resource | None, merged: Body, _group: Resource) -> DesiredResource:
        listed = _parts(_require_parent(kind, parent, existing, merged), part)
        listed[:] = [entry for entry in listed if entry["name"].lower() != request.name.lower()]
        return DesiredResource(merged)

    write = ResourceWrite(request.group, parent, {}, request.version, request.actor)
    await writing.write_resource(context, kind.name, write, plan)
    return Response(b"", 200)


def _routes(kind: PlainResourceType) -> list[Route]:
    in_subscription = f"{SUBSCRIPTION}/providers/{kind.name}"
    in_group = f"{GROUP}/providers/{kind.name}"
    put = partial(_write, partial(_put, kind))
    return [
        Route("GET", in_subscription, partial(_list, kind)),
        Route("GET", in_group, partial(_list, kind)),
        Route("PUT", f"{in_group}/{{name}}", put),
        Route("PATCH", f"{in_group}/{{name}}", put),
        Route("GET", f"{in_group}/{{name}}", partial(_get, kind)),
        Route("DELETE", f"{in_group}/{{name}}", partial(_delete, kind)),
    ]


def _part_routes(kind: PlainResourceType, part: str) -> list[Route]:
    path = f"{GROUP}/providers/{kind.name}/{{parent}}/{part}"
    return [
        Route("GET", path, partial(_list_parts, kind, part)),
        Route("PUT", f"{path}/{{name}}", partial(_write, partial(_put_part, kind, part))),
        Route("GET", f"{path}/{{name}}", partial(_get_part, kind, part)),
        Route("DELETE", f"{path}/{{name}}", partial(_delete_part, kind, part)),
    ]


ROUTES: tuple[Route, ...] = (
    *(route for kind in _TABLE for route in _routes(kind)),
    *(route for kind in _TABLE for part in kind.nested for route in _part_routes(kind, part)),
)

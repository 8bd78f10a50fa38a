"""Resources that are kept as they are written: networks, addresses, disks and the like.

Nothing comes of them, but machines are described with them, so tools write them first and read
them back. What is a part of another (a subnet, a rule) is kept inside it, however it was written.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, accepted, answer
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import addresses, documents, writing
from fairwarning.arm.resources.documents import strict, wrong_value
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
"""Adds what Azure would have chosen to a body that is about to be kept; its id is given, too."""

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,78}[A-Za-z0-9_])?", re.ASCII)
_ALLOWED = "1 to 80 letters, digits, '_', '-' or '.'"
_NETWORK = "Microsoft.Network"
_COMPUTE = "Microsoft.Compute"


@dataclass(frozen=True)
class PlainResourceType:
    """A type of resources: which of its lists hold named parts, and which parts have a URL."""

    name: str
    parts: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    fill: Fill | None = None
    says_new: bool = True  # 201 for what is new; Azure's disks say 200, and clients take no other


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
    PlainResourceType(f"{_COMPUTE}/disks", says_new=False),
    PlainResourceType(f"{_COMPUTE}/images"),
    PlainResourceType(f"{_COMPUTE}/proximityPlacementGroups"),
    PlainResourceType(f"{_COMPUTE}/sshPublicKeys"),
)  # fmt: skip

KINDS: tuple[str, ...] = tuple(kind.name for kind in _TABLE)
"""The types that are kept here, as Azure spells them."""
TYPES: tuple[str, ...] = (*KINDS, *(f"{kind.name}/{part}" for kind in _TABLE for part in kind.open))
"""And those that are kept inside one of them."""


# --- Writing --------------------------------------------------------------------------------------


async def _put(kind: PlainResourceType, plane: ArmContext, ask: ResourceWrite) -> WriteResult:
    """Replace a resource; for a PATCH, merge what is asked for into what is there."""

    async def plan(_standing: Resource | None, whole: Body, group: Resource) -> DesiredResource:
        body = documents.kept(whole if ask.must_be_there else documents.cleaned(ask.body))
        check_location(body)
        await _complete(kind, plane, body, plane.path(kind.name, group.name, ask.name))
        return DesiredResource(body)

    resource, created, operation = await writing.write(plane, kind.name, ask, plan)
    new = created and kind.says_new
    return WriteResult(resource, _document(kind, plane, resource), new, operation)


async def _put_part(
    kind: PlainResourceType, part: str, plane: ArmContext, ask: ResourceWrite
) -> WriteResult:
    """Replace a part of a resource, or add it."""
    around, _, name = ask.name.partition("/")
    created = True

    async def plan(standing: Resource | None, whole: Body, group: Resource) -> DesiredResource:
        nonlocal created
        listed = _parts(_there(kind, around, standing, whole), part)
        place = _index(listed, name)
        created = place is None
        if place is None:
            listed.append({**documents.cleaned(ask.body), "name": name})
        elif ask.must_be_new:
            raise ArmError("PreconditionFailed", f"There is '{name}' already.", 412)
        else:
            listed[place] = {**documents.cleaned(ask.body), "name": listed[place]["name"]}
        await _complete(kind, plane, whole, plane.path(kind.name, group.name, around))
        return DesiredResource(whole)

    whole = replace(ask, name=around, body={}, must_be_new=False, must_be_there=False)
    resource, _, operation = await writing.write(plane, kind.name, whole, plan)
    document = _part_document(kind, plane, resource, part, name)
    shown = changed(
        resource,
        id=resources.resource_id(f"{kind.name}/{part}", resource.group, ask.name),
        name=f"{resource.name}/{document['name']}",
    )
    return WriteResult(shown, document, created, operation)


def _there(kind: PlainResourceType, name: str, standing: Resource | None, whole: Body) -> Body:
    """What is written of a resource that has to be there for a part of it to be written."""
    if standing is None:
        text = (
            f"Can not perform requested operation on nested resource. Parent resource '{name}' "
            f"of type '{kind.name}' was not found."
        )
        raise ArmError("ParentResourceNotFound", text, 404)
    return whole


def _parts(body: Body, part: str) -> list[Body]:
    """The list of a body's parts of one sort, to be changed."""
    properties: Body = body.setdefault("properties", {})
    listed: list[Body] = properties.setdefault(part, [])
    return listed


def _index(listed: list[Body], name: str) -> int | None:
    found = (n for n, one in enumerate(listed) if one["name"].lower() == name.lower())
    return next(found, None)


async def _complete(kind: PlainResourceType, plane: ArmContext, body: Body, path: str) -> None:
    """Check what we look at, and add what Azure would have chosen."""
    documents.tags_of(body)
    body["properties"] = strict(body, "properties", dict, {})
    for part in kind.parts:
        _check_parts(body, part)
    if kind.fill:
        await kind.fill(plane, body, path)


def _check_parts(body: Body, part: str) -> None:
    where = f"properties.{part}"
    names = set()
    for one in strict(body, where, list, []):
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise wrong_value(f"{where}.name", name, _ALLOWED)
        if name.lower() in names:
            raise wrong_value(f"{where}.name", name, "another than those beside it")
        names.add(name.lower())
        strict(one, "properties", dict)


PUTS: Mapping[str, Put] = {
    **{kind.name.lower(): partial(_put, kind) for kind in _TABLE},
    **{
        f"{kind.name}/{part}".lower(): partial(_put_part, kind, part)
        for kind in _TABLE
        for part in kind.open
    },
}
"""How each type is written, by its name in lower case."""


# --- Showing --------------------------------------------------------------------------------------


def _document(kind: PlainResourceType, plane: ArmContext, resource: Resource) -> Body:
    """What was written, with what we know."""
    body = documents.written(resource)
    path = plane.path(kind.name, resource.group, resource.name)
    properties = {**body["properties"], "provisioningState": _state(resource)}
    for part in kind.parts:
        listed = properties.get(part, [])
        properties[part] = [_shown(kind, part, path, one, resource) for one in listed]
    known = {"id": path, "name": resource.name, "type": kind.name}
    if kind.name.startswith(_NETWORK):
        known["etag"] = etag(resource)
        properties["resourceGuid"] = guid(path.lower()).lower()
    return {**body, **known, "properties": properties}


def _shown(kind: PlainResourceType, part: str, path: str, one: Body, resource: Resource) -> Body:
    known = {
        "id": f"{path}/{part}/{one['name']}",
        "type": f"{kind.name}/{part}",
        "etag": etag(resource),
    }
    inner = {**one.get("properties", {}), "provisioningState": _state(resource)}
    return {**one, **known, "properties": inner}


def _part_document(
    kind: PlainResourceType, plane: ArmContext, resource: Resource, part: str, name: str
) -> Body:
    listed: list[Body] = _document(kind, plane, resource)["properties"][part]
    place = _index(listed, name)
    if place is None:
        raise errors.missing(f"{kind.name}/{part}", f"{resource.name}/{name}", resource.group)
    return listed[place]


def _state(resource: Resource) -> str:
    return "Deleting" if resource.removed_by else "Succeeded"


# --- Requests -------------------------------------------------------------------------------------


async def _write(put: Put, plane: ArmContext, call: ArmRequest) -> Response:
    around = call.params.get("around")
    name = f"{around}/{call.name}" if around else call.name
    return write_response(call, plane, await put(plane, await parse_write(call, name=name)))


async def _get(kind: PlainResourceType, plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.get(kind.name, call.group, call.name)
    return answer(_document(kind, plane, resource), headers={"ETag": etag(resource)})


async def _list(kind: PlainResourceType, plane: ArmContext, call: ArmRequest) -> Response:
    found, token = await plane.page(call, kind.name, call.params.get("group", ""))
    value = [_document(kind, plane, one) for one in found]
    return answer({"value": value, **plane.next_link(call, token)})


async def _delete(kind: PlainResourceType, plane: ArmContext, call: ArmRequest) -> Response:
    found = await plane.find(kind.name, call.group, call.name)
    if found is None:
        return await writing.nothing(plane, call)
    command = Remove(resource=found.id, operation=new_operation(), actor=call.actor)
    return accepted(call, await plane.fleet.submit(command), plane.cloud.location)


async def _get_part(
    kind: PlainResourceType, part: str, plane: ArmContext, call: ArmRequest
) -> Response:
    resource = await plane.get(kind.name, call.group, call.params["around"])
    document = _part_document(kind, plane, resource, part, call.name)
    return answer(document, headers={"ETag": etag(resource)})


async def _list_parts(
    kind: PlainResourceType, part: str, plane: ArmContext, call: ArmRequest
) -> Response:
    resource = await plane.get(kind.name, call.group, call.params["around"])
    return answer({"value": _document(kind, plane, resource)["properties"][part]})


async def _delete_part(
    kind: PlainResourceType, part: str, plane: ArmContext, call: ArmRequest
) -> Response:
    """200 at once: nothing follows from it."""
    around = call.params["around"]
    standing = await plane.find(kind.name, call.group, around)
    if standing is None or _index(_parts(documents.written(standing), part), call.name) is None:
        return await writing.nothing(plane, call)

    async def plan(standing: Resource | None, whole: Body, _group: Resource) -> DesiredResource:
        listed = _parts(_there(kind, around, standing, whole), part)
        listed[:] = [one for one in listed if one["name"].lower() != call.name.lower()]
        return DesiredResource(whole)

    ask = ResourceWrite(call.group, around, {}, call.version, call.actor)
    await writing.write(plane, kind.name, ask, plan)
    return Response(b"", 200)


def _routes(kind: PlainResourceType) -> list[Route]:
    everywhere = f"{SUBSCRIPTION}/providers/{kind.name}"
    here = f"{GROUP}/providers/{kind.name}"
    put = partial(_write, partial(_put, kind))
    return [
        Route("GET", everywhere, partial(_list, kind)),
        Route("GET", here, partial(_list, kind)),
        Route("PUT", f"{here}/{{name}}", put),
        Route("PATCH", f"{here}/{{name}}", put),
        Route("GET", f"{here}/{{name}}", partial(_get, kind)),
        Route("DELETE", f"{here}/{{name}}", partial(_delete, kind)),
    ]


def _part_routes(kind: PlainResourceType, part: str) -> list[Route]:
    here = f"{GROUP}/providers/{kind.name}/{{around}}/{part}"
    return [
        Route("GET", here, partial(_list_parts, kind, part)),
        Route("PUT", f"{here}/{{name}}", partial(_write, partial(_put_part, kind, part))),
        Route("GET", f"{here}/{{name}}", partial(_get_part, kind, part)),
        Route("DELETE", f"{here}/{{name}}", partial(_delete_part, kind, part)),
    ]


ROUTES: tuple[Route, ...] = (
    *(route for kind in _TABLE for route in _routes(kind)),
    *(route for kind in _TABLE for part in kind.open for route in _part_routes(kind, part)),
)

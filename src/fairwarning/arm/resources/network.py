"""Resources that are stored as written: networks, addresses, interfaces, disks and images.

Machines refer to them, so tools write them first and read them back, with those that use them
(`back_references.py`).
"""

from collections.abc import Mapping
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.listing import list_response
from fairwarning.arm.http.request import ArmRequest, accepted, json_response
from fairwarning.arm.http.routes import GROUP, SUBSCRIPTION, Route
from fairwarning.arm.resources import (
    addresses,
    disks,
    in_use,
    interfaces,
    network_references,
    plain_resources,
    writing,
)
from fairwarning.arm.resources.plain_resources import PlainResourceType
from fairwarning.arm.resources.writing import (
    Put,
    ResourceWrite,
    etag,
    parse_write,
    write_response,
)
from fairwarning.core.commands import Remove
from fairwarning.core.errors import Conflict

_NETWORK = "Microsoft.Network"
_COMPUTE = "Microsoft.Compute"

_TABLE = (
    PlainResourceType(
        f"{_NETWORK}/virtualNetworks",
        ("subnets", "virtualNetworkPeerings"),
        ("subnets",),
        network_references.fill_network,
    ),
    PlainResourceType(
        f"{_NETWORK}/networkSecurityGroups",
        ("securityRules",),
        ("securityRules",),
        network_references.fill_security_group,
    ),
    PlainResourceType(f"{_NETWORK}/publicIPAddresses", fill=addresses.fill_public),
    PlainResourceType(
        f"{_NETWORK}/loadBalancers",
        (
            "frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules",
            "inboundNatRules", "inboundNatPools", "outboundRules",
        ),
        ("inboundNatRules",),
        network_references.fill_load_balancer,
    ),
    PlainResourceType(
        f"{_NETWORK}/networkInterfaces", ("ipConfigurations",), fill=interfaces.fill
    ),
    PlainResourceType(f"{_COMPUTE}/disks", fill=disks.fill, returns_201=False),
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
PUTS: Mapping[str, Put] = {
    **{kind.name.lower(): partial(plain_resources.put, kind) for kind in _TABLE},
    **{
        f"{kind.name}/{part}".lower(): partial(plain_resources.put_part, kind, part)
        for kind in _TABLE
        for part in kind.nested
    },
}
"""The write function of each type, by its name in lower case."""


# --- Requests -------------------------------------------------------------------------------------


async def _write(put: Put, context: ArmContext, request: ArmRequest) -> Response:
    parent = request.params.get("parent")
    name = f"{parent}/{request.name}" if parent else request.name
    return write_response(
        request, context, await put(context, await parse_write(request, name=name))
    )


async def _get(kind: PlainResourceType, context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(kind.name, request.group, request.name)
    document = await plain_resources.read_document(kind, context, resource)
    return json_response(document, headers={"ETag": etag(resource)})


async def _list(kind: PlainResourceType, context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, kind.name, request.params.get("group", ""))
    value = await plain_resources.read_documents(kind, context, page)
    return list_response(context, request, value, token)


async def _delete(kind: PlainResourceType, context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(kind.name, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    in_use.check(kind.name, await plain_resources.read_document(kind, context, resource))
    command = Remove(resource=resource.id, operation=new_operation(), actor=request.actor)
    try:
        operation = await context.fleet.submit(command)
    except Conflict as conflict:
        if conflict.code == "InUse":  # since it was read
            resource = await context.get(kind.name, request.group, request.name)
            in_use.check(kind.name, await plain_resources.read_document(kind, context, resource))
        raise
    return accepted(request, operation, context.cloud.location)


async def _get_part(
    kind: PlainResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    resource = await context.get(kind.name, request.group, request.params["parent"])
    document = await plain_resources.read_part(kind, context, resource, part, request.name)
    return json_response(document, headers={"ETag": etag(resource)})


async def _list_parts(
    kind: PlainResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    resource = await context.get(kind.name, request.group, request.params["parent"])
    document = await plain_resources.read_document(kind, context, resource)
    return list_response(context, request, document["properties"][part])


async def _delete_part(
    kind: PlainResourceType, part: str, context: ArmContext, request: ArmRequest
) -> Response:
    """Delete a nested resource, and return 200: no operation follows."""
    parent = request.params["parent"]
    existing = await context.find(kind.name, request.group, parent)
    if existing is None or not plain_resources.has_part(existing, part, request.name):
        return await writing.no_content(context, request)
    plan = plain_resources.without_part(kind, part, context, parent, request.name)
    write = ResourceWrite(request.group, parent, {}, request.version, request.actor)
    await writing.write_resource(context, kind.name, write, plan)
    return Response(b"", 200)


def _routes(kind: PlainResourceType) -> list[Route]:
    in_subscription = f"{SUBSCRIPTION}/providers/{kind.name}"
    in_group = f"{GROUP}/providers/{kind.name}"
    put = partial(_write, partial(plain_resources.put, kind))
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
    put = partial(_write, partial(plain_resources.put_part, kind, part))
    return [
        Route("GET", path, partial(_list_parts, kind, part)),
        Route("PUT", f"{path}/{{name}}", put),
        Route("GET", f"{path}/{{name}}", partial(_get_part, kind, part)),
        Route("DELETE", f"{path}/{{name}}", partial(_delete_part, kind, part)),
    ]


ROUTES: tuple[Route, ...] = (
    *(route for kind in _TABLE for route in _routes(kind)),
    *(route for kind in _TABLE for part in kind.nested for route in _part_routes(kind, part)),
)

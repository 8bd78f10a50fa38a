"""Requests for network interfaces and public addresses of scale-set instances (C6).

Ansible's inventory, `az vm list-ip-addresses` and `az vmss list-instance-public-ips` read them.
"""

import re
from collections.abc import Sequence

from starlette.responses import Response

from fairwarning.arm.compute import set_network, targets
from fairwarning.arm.compute.set_network import SetNetwork
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId
from fairwarning.arm.http.listing import list_response, next_link
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.types import handlers, registered
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import INSTANCE, INTERFACE, SCALE_SET
from fairwarning.arm.types.resource_type import ResourceType

_INSTANCE = re.compile("_[0-9]{1,9}(?=-)", re.ASCII)
"""The end of an instance's name, in the name of what it has."""
_NAME_CHARACTERS = 300  # no name is longer: of a set, the number, of an interface, of an address
_INTERFACES = f"{INSTANCE}/networkInterfaces"


async def list_of_set(kind: str, context: ArmContext, request: ArmRequest) -> Response:
    """List the interfaces or public addresses of a page of a set's instances."""
    owner = await context.get_id(request.id)
    scale_set = await context.scale_set(owner)
    page, token = await targets.list_instances(context, request, scale_set)
    network = await set_network.read(context, owner)
    value = await _of_page(kind, context, [(target, network) for target in page])
    return json_response({"value": value, **next_link(request, token)})


async def list_of_instance(context: ArmContext, request: ArmRequest) -> Response:
    """List the interfaces of an instance."""
    network, target = await _instance(context, request.group, *request.id.names)
    return json_response({"value": network.interfaces(target)})


async def _instance(
    context: ArmContext, group: str, name: str, number: str
) -> tuple[SetNetwork, ActionTarget]:
    target = await targets.find_instance(context, group, name, number)
    owner = await context.get(SCALE_SET, group, name)
    return await set_network.read(context, owner), target


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    *owner, name = (request.params[key] for key in ("set", "machine", "interface"))
    network, target = await _instance(context, request.group, *owner)
    for interface in network.interfaces(target):
        if interface["name"].lower() in {name.lower(), f"{target.machine.name}-{name}".lower()}:
            return json_response(interface)
    path = "/".join([*owner, name[:80]])
    raise errors.resource_not_found(_INTERFACES, path, request.group)


ROUTES = (
    Route(
        "GET",
        f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines/{{machine}}"
        "/networkInterfaces/{interface}",
        _get,
    ),
)


async def list_with_instances(
    kind: ResourceType, context: ArmContext, request: ArmRequest
) -> Response:
    """List interfaces or public addresses: those that clients wrote, and those of instances."""
    page = await targets.with_instances(context, request, kind.name, request.id.group)
    rows, instances, token = page
    value = await registered.read_documents(kind, context, rows)
    value += await _of_page(kind.name, context, await set_network.of_instances(context, instances))
    return list_response(request, value, token)


async def get_with_instances(
    kind: ResourceType, context: ArmContext, request: ArmRequest
) -> Response:
    """Return an interface or a public address, also one of an instance."""
    if await context.find_id(request.id) is None:
        document = await _find(kind, context, request.id)
        if document:
            return json_response(document)
    return await handlers.get(kind, context, request)


async def exists(kind: ResourceType, context: ArmContext, id_: AzureId) -> bool:
    """Whether an instance has this interface or public address."""
    return await _find(kind, context, id_) is not None


async def _find(kind: ResourceType, context: ArmContext, id_: AzureId) -> Body | None:
    for end in _INSTANCE.finditer(id_.name[:_NAME_CHARACTERS]):
        name = id_.name[: end.end()]
        target = await targets.find_flexible_instance(context, id_.group, name)
        if target is None:
            continue
        for instance, network in await set_network.of_instances(context, [target]):
            for document in _of_kind(kind.name, network, instance):
                if document["name"].lower() == id_.name.lower():
                    return document
    return None


async def _of_page(
    kind: str, context: ArmContext, page: Sequence[tuple[ActionTarget, SetNetwork]]
) -> list[Body]:
    value: list[Body] = []
    for target, network in page:
        await context.fleet.reader.share.turn()
        value += _of_kind(kind, network, target)
    return value


def _of_kind(kind: str, network: SetNetwork, target: ActionTarget) -> list[Body]:
    if kind == INTERFACE:
        return network.interfaces(target)
    return network.public_addresses(target)

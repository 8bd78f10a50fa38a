"""Requests for network interfaces and public addresses of scale-set instances (C6)."""

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import instance_query, set_network, targets
from fairwarning.arm.resources.set_network import SetNetwork
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.service.resources import INSTANCE, SCALE_SET

_INTERFACES = f"{INSTANCE}/networkInterfaces"
_CONFIGURATIONS = f"{_INTERFACES}/ipConfigurations"
_ADDRESSES = f"{_CONFIGURATIONS}/publicIPAddresses"


async def _list_of_set(context: ArmContext, request: ArmRequest) -> Response:
    network, page, token = await _page(context, request)
    value = [interface for target in page for interface in network.interfaces(target)]
    return json_response({"value": value, **context.next_link(request, token)})


async def _list_addresses_of_set(context: ArmContext, request: ArmRequest) -> Response:
    network, page, token = await _page(context, request)
    value = [address for target in page for address in network.public_addresses(target)]
    return json_response({"value": value, **context.next_link(request, token)})


async def _page(
    context: ArmContext, request: ArmRequest
) -> tuple[SetNetwork, list[ActionTarget], str]:
    """Return the network of the set, and a page of its instances."""
    owner = await context.get(SCALE_SET, request.group, request.params["set"])
    scale_set = await context.scale_set(owner)
    page, token = await instance_query.list_instances(context, request, scale_set)
    return await set_network.read(context, owner), page, token


async def _instance(context: ArmContext, request: ArmRequest) -> tuple[SetNetwork, ActionTarget]:
    name, number = request.params["set"], request.params["machine"]
    target = await targets.find_instance(context, request.group, name, number)
    owner = await context.get(SCALE_SET, request.group, name)
    return await set_network.read(context, owner), target


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    network, target = await _instance(context, request)
    return json_response({"value": network.interfaces(target)})


async def _interface(context: ArmContext, request: ArmRequest) -> Body:
    network, target = await _instance(context, request)
    return _named(request, network.interfaces(target), "interface", _INTERFACES)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    return json_response(await _interface(context, request))


async def _list_configurations(context: ArmContext, request: ArmRequest) -> Response:
    interface = await _interface(context, request)
    return json_response({"value": interface["properties"]["ipConfigurations"]})


async def _configuration(context: ArmContext, request: ArmRequest) -> Body:
    listed = (await _interface(context, request))["properties"]["ipConfigurations"]
    return _named(request, listed, "configuration", _CONFIGURATIONS)


async def _get_configuration(context: ArmContext, request: ArmRequest) -> Response:
    return json_response(await _configuration(context, request))


async def _addresses(context: ArmContext, request: ArmRequest) -> list[Body]:
    configuration = (await _configuration(context, request))["id"]
    network, target = await _instance(context, request)
    return [
        address
        for address in network.public_addresses(target)
        if address["properties"]["ipConfiguration"]["id"] == configuration
    ]


async def _list_addresses(context: ArmContext, request: ArmRequest) -> Response:
    return json_response({"value": await _addresses(context, request)})


async def _get_address(context: ArmContext, request: ArmRequest) -> Response:
    listed = await _addresses(context, request)
    return json_response(_named(request, listed, "address", _ADDRESSES))


def _named(request: ArmRequest, entries: list[Body], parameter: str, kind: str) -> Body:
    """Return the entry that a path parameter names; raise if it does not exist."""
    name = request.params[parameter]
    for entry in entries:
        if entry["name"].lower() == name.lower():
            return entry
    path = f"{request.params['set']}/{request.params['machine']}/{name[:80]}"
    raise errors.resource_not_found(kind, path, request.group)


_SET = f"{COMPUTE}/virtualMachineScaleSets/{{set}}"
_COLLECTION = f"{_SET}/virtualMachines/{{machine}}/networkInterfaces"
_ITEM = f"{_COLLECTION}/{{interface}}"
_CONFIGURATION = f"{_ITEM}/ipConfigurations/{{configuration}}"
ROUTES = (
    Route("GET", f"{_SET}/networkInterfaces", _list_of_set),
    Route("GET", f"{_SET}/publicIPAddresses", _list_addresses_of_set),
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("GET", f"{_ITEM}/ipConfigurations", _list_configurations),
    Route("GET", _CONFIGURATION, _get_configuration),
    Route("GET", f"{_CONFIGURATION}/publicIPAddresses", _list_addresses),
    Route("GET", f"{_CONFIGURATION}/publicIPAddresses/{{address}}", _get_address),
)

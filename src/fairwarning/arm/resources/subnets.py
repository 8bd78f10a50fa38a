"""Subnets of virtual networks, which are stored as their users wrote them.

In a host run, where addresses identify machines (M22), new machines get addresses of their subnets.
Only resources of the machine's own group count: the client may not read other groups.
"""

import re
from ipaddress import IPv4Network, ip_network

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.core import limits

_INTERFACES = "Microsoft.Network/networkInterfaces"
_NETWORKS = "Microsoft.Network/virtualNetworks"
_SMALLEST = 8  # addresses of the smallest subnet on Azure
_ID = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/([^/]+/[^/]+)/([^/]+)"
    r"(?:/subnets/([^/]+))?",
    re.IGNORECASE,
)


async def find(context: ArmContext, configuration: Body, group: str) -> IPv4Network | None:
    """Return the address range of the subnet that an IP configuration refers to."""
    match = _reference(configuration.get("subnet"), group, _NETWORKS)
    if match is None or not match[4]:
        return None
    network = documents.stored_body(await context.find(_NETWORKS, match[1], match[3]))
    for subnet in network.get("properties", {}).get("subnets", ()):
        if subnet["name"].lower() == match[4].lower():
            return _range(subnet.get("properties", {}))
    return None


async def of_set(context: ArmContext, body: Body, group: str) -> str:
    """Return the subnet of a new scale set; empty unless addresses identify machines."""
    if not context.settings.by_address:
        return ""
    profile = documents.typed_value(body, f"{SET_PROFILE}.networkProfile", dict, {})
    interface = _first(profile, "networkInterfaceConfigurations")
    return _text(await find(context, _first(interface, "ipConfigurations"), group))


async def of_machine(context: ArmContext, body: Body, group: str) -> tuple[str, str]:
    """Return the subnet of a new machine, and its address if its interface has a static one."""
    profile = documents.typed_value(body, "properties.networkProfile", dict, {})
    links = [link for link in _items(profile, "networkInterfaces") if isinstance(link, dict)]
    match = _reference(links[0], group, _INTERFACES) if links else None
    if match is None or not context.settings.by_address:
        return "", ""
    interface = documents.stored_body(await context.find(_INTERFACES, match[1], match[3]))
    configuration = _first(interface.get("properties", {}), "ipConfigurations")
    static = configuration.get("privateIPAllocationMethod") == "Static"
    address = str(configuration.get("privateIPAddress", "")) if static else ""
    return _text(await find(context, configuration, group)), address


def _items(body: Body, name: str) -> list[object]:
    value = body.get(name)
    return value if isinstance(value, list) else []


def _first(body: Body, name: str) -> Body:
    """Return the properties of the first member of a list; nothing if there is none."""
    for item in _items(body, name):
        properties = item.get("properties") if isinstance(item, dict) else None
        return properties if isinstance(properties, dict) else {}
    return {}


def _reference(link: object, group: str, kind: str) -> re.Match[str] | None:
    """Match the id of a resource of this kind in the same group."""
    match = _ID.fullmatch(str(link.get("id"))) if isinstance(link, dict) else None
    if match and (match[1].lower(), match[2].lower()) == (group.lower(), kind.lower()):
        return match
    return None


def _range(subnet: Body) -> IPv4Network | None:
    prefixes = subnet.get("addressPrefixes")
    first = prefixes[0] if isinstance(prefixes, list) and prefixes else ""
    try:
        net = ip_network(str(subnet.get("addressPrefix", first)), strict=False)
    except ValueError:
        return None
    return net if isinstance(net, IPv4Network) and net.num_addresses >= _SMALLEST else None


def _text(net: IPv4Network | None) -> str:
    """Return a network as `core` has it; of a larger one, the first part."""
    if net is None:
        return ""
    largest = max(net.prefixlen, limits.SUBNET_PREFIX_MIN)
    return str(IPv4Network((net.network_address, largest)))

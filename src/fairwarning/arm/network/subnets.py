"""Subnets of virtual networks, which are stored as their users wrote them.

In a host run, where addresses identify machines (M22), new machines get addresses of their subnets.
"""

from ipaddress import IPv4Network, ip_network

from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.request import Body
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import SCALE_SET, SUBNET
from fairwarning.arm.types.references import BY_SOURCE, links, named_part
from fairwarning.core import limits

_SMALLEST = 8  # addresses of the smallest subnet on Azure


async def address_range(context: ArmContext, id_: AzureId) -> IPv4Network | None:
    """Return the addresses of a subnet; None if it does not exist, or has no usable range."""
    network = id_.parent()
    row = await context.find_id(network) if network else None
    subnet = named_part(row, "subnets", id_.names[-1]) if row else None
    properties = subnet.get("properties", {}) if subnet else {}
    prefixes = properties.get("addressPrefixes")
    first = prefixes[0] if isinstance(prefixes, list) and prefixes else ""
    try:
        net = ip_network(str(properties.get("addressPrefix", first)), strict=False)
    except ValueError:
        return None
    return net if isinstance(net, IPv4Network) and net.num_addresses >= _SMALLEST else None


async def of_set(context: ArmContext, body: Body) -> str:
    """Return the subnet of a new scale set, if addresses identify machines."""
    if not context.settings.by_address:
        return ""
    for reference in BY_SOURCE[SCALE_SET.lower()]:
        for link in links(body, reference.path) if reference.target == SUBNET else ():
            return await of_configuration(context, {"subnet": link.holder})
    return ""


async def of_configuration(context: ArmContext, configuration: Body) -> str:
    """Return the subnet of an IP configuration, as `core` has it; empty if it has no range."""
    id_ = parse_id((configuration.get("subnet") or {}).get("id"))
    net = await address_range(context, id_) if id_ else None
    if net is None:
        return ""
    largest = max(net.prefixlen, limits.SUBNET_PREFIX_MIN)  # of a larger one, the first part
    return str(IPv4Network((net.network_address, largest)))

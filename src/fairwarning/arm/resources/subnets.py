"""Subnets of virtual networks, which are stored as their users wrote them.

In a host run, where addresses identify machines (M22), new machines get addresses of their subnets.
"""

from ipaddress import IPv4Network, ip_network

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.references import NETWORK, Referrer
from fairwarning.arm.resources.writing import ResourceWrite
from fairwarning.core import limits
from fairwarning.service import resources
from fairwarning.service.resources import SCALE_SET

_SMALLEST = 8  # addresses of the smallest subnet on Azure
_CONFIGURATIONS = f"{SET_PROFILE}.networkProfile.networkInterfaceConfigurations"


def address_range(subnet: Body) -> IPv4Network | None:
    """Return the addresses of a subnet; None if it has no usable range."""
    properties = subnet.get("properties", {})
    prefixes = properties.get("addressPrefixes")
    first = prefixes[0] if isinstance(prefixes, list) and prefixes else ""
    try:
        net = ip_network(str(properties.get("addressPrefix", first)), strict=False)
    except ValueError:
        return None
    return net if isinstance(net, IPv4Network) and net.num_addresses >= _SMALLEST else None


async def of_set(context: ArmContext, body: Body, group: str, write: ResourceWrite) -> str:
    """Check the subnets of a new scale set; return its own if addresses identify machines."""
    store_id = resources.resource_id(SCALE_SET, group, write.name)
    path = context.arm_id(SCALE_SET, group, write.name)
    referrer = Referrer(context, path, store_id, confined=write.confined)
    nets = [
        await of_configuration(referrer, inner, path) for path, inner in set_configurations(body)
    ]
    return nets[0] if nets and context.settings.by_address else ""


def set_configurations(body: Body) -> list[tuple[str, Body]]:
    """Return path and properties of each IP configuration in the model of a scale set."""
    return [
        (f"{_CONFIGURATIONS}[{number}].properties.ipConfigurations[{place}].properties", inner)
        for number, (_, interface) in enumerate(set_interfaces(body))
        for place, (_, inner) in enumerate(named_parts(interface, "ipConfigurations"))
    ]


def set_interfaces(body: Body) -> list[tuple[str, Body]]:
    """Return name and properties of each interface in the model of a scale set."""
    profile = documents.typed_value(body, f"{SET_PROFILE}.networkProfile", dict, {})
    return named_parts(profile, "networkInterfaceConfigurations")


def named_parts(body: Body, member: str) -> list[tuple[str, Body]]:
    """Return name and properties of each object in a list of a body that was not checked."""
    listed = body.get(member)
    entries = (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )
    return [
        (
            str(entry.get("name", "")),
            inner if isinstance(inner := entry.get("properties"), dict) else {},
        )
        for entry in entries
    ]


async def of_configuration(referrer: Referrer, configuration: Body, path: str = "") -> str:
    """Return the subnet of an IP configuration, as `core` has it; empty if it has no range."""
    link = configuration.get("subnet")
    subnet = await referrer.find(link, f"{path}.subnet.id", NETWORK, "subnets")
    net = address_range(subnet.part or {}) if subnet else None
    return _text(net) if net else ""


def _text(net: IPv4Network) -> str:
    """Return a network as `core` has it; of a larger one, the first part."""
    largest = max(net.prefixlen, limits.SUBNET_PREFIX_MIN)
    return str(IPv4Network((net.network_address, largest)))

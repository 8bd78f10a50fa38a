"""Functions of address ranges."""

from ipaddress import IPv4Network, IPv6Network, ip_network

from fairwarning.arm.templates.evaluation import Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError, Value

_POINT_TO_POINT = 2  # addresses in a range of two or one: all of them can be used


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise TemplateError("takes an address range such as 10.0.0.0/16") from None


def _parse_cidr(text: str) -> Value:
    network = _network(text)
    first, last = _usable(network)
    parts = {
        "network": network.network_address,
        "netmask": network.netmask,
        **({"broadcast": network.broadcast_address} if network.version == 4 else {}),  # noqa: PLR2004  (IPv4)
        "firstUsable": network[first],
        "lastUsable": network[last],
    }
    return {**{key: str(part) for key, part in parts.items()}, "cidr": network.prefixlen}


def _usable(network: IPv4Network | IPv6Network) -> tuple[int, int]:
    """Return the numbers of the first and the last address that a host may have."""
    if network.num_addresses <= _POINT_TO_POINT:
        return 0, network.num_addresses - 1
    return 1, network.num_addresses - 2


def _subnet(text: str, prefix: int, number: int) -> str:
    network = _network(text)
    if not network.prefixlen <= prefix <= network.max_prefixlen:
        raise TemplateError(
            f"takes a prefix length from {network.prefixlen} to {network.max_prefixlen}"
        )
    if not 0 <= number < 2 ** (prefix - network.prefixlen):
        raise TemplateError("takes the number of a subnet that is within the range")
    first = network.network_address + number * 2 ** (network.max_prefixlen - prefix)
    return f"{first}/{prefix}"


def _host(text: str, number: int) -> str:
    network = _network(text)
    first, last = _usable(network)
    if not 0 <= number <= last - first:
        raise TemplateError("takes the number of an address that is within the range")
    return str(network[first + number])


NETWORKS: Functions = {
    "cidrhost": TemplateFunction(_host, ("string", "int")),
    "cidrsubnet": TemplateFunction(_subnet, ("string", "int", "int")),
    "parsecidr": TemplateFunction(_parse_cidr, ("string",)),
}

"""Public addresses, MAC addresses and names of hosts. No host has these addresses.

They depend only on the resource's id, so the same template always gives the same ones.
"""

import re
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, ip_address

from fairwarning.arm.http.errors import azure_error, invalid_value
from fairwarning.arm.http.request import Body
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite, location_of

_PUBLIC = tuple(
    str(address)
    for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
    for address in IPv4Network(net).hosts()
)  # reserved for documentation (RFC 5737)
_LABEL = re.compile("[a-z][a-z0-9-]{1,61}[a-z0-9]", re.ASCII)
_DOMAIN = "cloudapp.azure.com"


async def plan(write: ResourceWrite, body: Body) -> DesiredResource:
    """Give a public address its address and defaults."""
    properties = body["properties"]
    properties.setdefault("publicIPAddressVersion", "IPv4")
    check(typed_value(body, "properties.ipAddress", str), "IP", "properties.ipAddress")
    properties.setdefault("ipAddress", public(_number(write.path, "host")))
    properties.setdefault("publicIPAllocationMethod", "Dynamic")
    properties.setdefault("idleTimeoutInMinutes", 4)
    body["sku"] = {"name": "Basic", "tier": "Regional"} | typed_value(body, "sku", dict, {})
    label = typed_value(body, "properties.dnsSettings.domainNameLabel", str)
    if label is not None:
        if not _LABEL.fullmatch(label):
            raise azure_error("InvalidDomainNameLabel", label=label[:80], pattern=_LABEL.pattern)
        fqdn = f"{label}.{location_of(body)}.{_DOMAIN}"
        properties["dnsSettings"] = {**properties["dnsSettings"], "fqdn": fqdn}
    return DesiredResource(body)


def check(text: str | None, version: str, path: str) -> None:
    """Refuse an address that is none; it may be missing, or empty."""
    try:
        if text:
            (IPv4Address if version == "IPv4" else ip_address)(text)
    except ValueError:
        raise invalid_value(path, text, f"an {version} address") from None


def public(number: int) -> str:
    """Return a public address, which no host has."""
    return _PUBLIC[number % len(_PUBLIC)]


def mac(path: str) -> str:
    """Return the MAC address of the network interface with this Azure id."""
    digits = f"{_number(path, 'mac') % 2**24:06X}"
    return f"00-0D-3A-{digits[:2]}-{digits[2:4]}-{digits[4:]}"


def _number(path: str, use: str) -> int:
    return int.from_bytes(sha256(f"{use} {path.lower()}".encode()).digest()[:8])

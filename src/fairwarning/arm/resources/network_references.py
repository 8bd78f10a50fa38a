"""References of virtual networks, security groups and load balancers."""

from fairwarning.arm.http.request import Body
from fairwarning.arm.resources.interfaces import delete_option, link, public_address_in_use
from fairwarning.arm.resources.references import (
    NETWORK,
    PUBLIC_ADDRESS,
    SECURITY_GROUP,
    Links,
    Referrer,
)

_FRONTENDS = "frontendIPConfigurations"


async def fill_network(referrer: Referrer, body: Body) -> Links:
    """Check the security groups of the subnets."""
    for number, subnet in enumerate(body["properties"].get("subnets", ())):
        inner = subnet.get("properties", {})
        inner.pop("ipConfigurations", None)
        path = f"properties.subnets[{number}].properties"
        await link(referrer, inner, "networkSecurityGroup", path, SECURITY_GROUP)
    return Links()


async def fill_security_group(_referrer: Referrer, body: Body) -> Links:
    """Remove what the service computes."""
    for member in ("networkInterfaces", "subnets"):
        body["properties"].pop(member, None)
    return Links()


async def fill_load_balancer(referrer: Referrer, body: Body) -> Links:
    """Check the addresses and subnets of the frontends."""
    properties = body["properties"]
    uses: list[str] = []
    owns: list[str] = []
    for number, entry in enumerate(properties.get(_FRONTENDS, ())):
        inner = entry.get("properties", {})
        path = f"properties.{_FRONTENDS}[{number}].properties"
        await link(referrer, inner, "subnet", path, NETWORK, part="subnets")
        target = await link(referrer, inner, "publicIPAddress", path, PUBLIC_ADDRESS)
        if target is None:
            continue
        if not referrer.is_free(target.resource) or target.resource.id in uses:
            raise public_address_in_use(f"{referrer.id}/{_FRONTENDS}/{entry['name']}", target.id)
        uses.append(target.resource.id)
        if delete_option(inner["publicIPAddress"]):
            owns.append(target.resource.id)
    for rule in properties.get("inboundNatRules", ()):
        rule.get("properties", {}).pop("backendIPConfiguration", None)
    return Links(tuple(uses), tuple(owns))

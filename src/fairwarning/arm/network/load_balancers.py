"""Load balancers: stored as written, and shown with the instances behind their pools.

`az vmss list-instance-connection-info` reads the port of each instance from them.
"""

from collections.abc import Sequence

from fairwarning.arm.http.request import Body
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.model import Resource


async def plan(_write: ResourceWrite, body: Body) -> DesiredResource:
    """Leave out the addresses that `complete` computes, which clients send back."""
    for pool in body["properties"].get("backendAddressPools", ()):
        listed = pool["properties"].get("loadBalancerBackendAddresses")
        if isinstance(listed, list):
            own = [entry for entry in listed if not _is_computed(entry)]
            pool["properties"]["loadBalancerBackendAddresses"] = own
    return DesiredResource(body)


def _is_computed(entry: object) -> bool:
    properties = entry.get("properties") if isinstance(entry, dict) else None
    return isinstance(properties, dict) and "networkInterfaceIPConfiguration" in properties


async def complete(_context: ArmContext, _rows: Sequence[Resource], shown: list[Body]) -> None:
    """Add the addresses of each pool, with the ports that NAT rules give to them."""
    for document in shown:
        properties = document["properties"]
        for pool in properties["backendAddressPools"]:
            rules = [
                rule
                for rule in properties["inboundNatRules"]
                if _names(rule["properties"].get("backendAddressPool"), pool)
            ]
            users = pool["properties"].get("backendIPConfigurations", ())
            if users:
                pool["properties"]["loadBalancerBackendAddresses"] = [
                    _address(user["id"], number, rules) for number, user in enumerate(users)
                ]


def _names(link: object, pool: Body) -> bool:
    return isinstance(link, dict) and str(link.get("id")).lower() == pool["id"].lower()


def _address(configuration: str, number: int, rules: list[Body]) -> Body:
    ports = [
        {
            "inboundNatRuleName": rule["name"],
            "frontendPort": rule["properties"]["frontendPortRangeStart"] + number,
            "backendPort": rule["properties"].get("backendPort", 0),
        }
        for rule in rules
        if isinstance(rule["properties"].get("frontendPortRangeStart"), int)
    ]
    return {
        "name": configuration.replace("/", "_").strip("_")[-80:],
        "properties": {
            "networkInterfaceIPConfiguration": {"id": configuration},
            "inboundNatRulesPortMapping": ports,
        },
    }

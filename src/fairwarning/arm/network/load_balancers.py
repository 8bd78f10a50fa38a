"""Load balancers: stored as written, and shown with the instances behind their pools.

`az vmss list-instance-connection-info` reads the port of each instance from them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fairwarning.arm.http.errors import invalid_value
from fairwarning.arm.http.request import Body
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.model import Resource

_RULES_MAX = 10  # of a pool: each of its instances has a port of each


async def plan(_write: ResourceWrite, body: Body) -> DesiredResource:
    """Leave out the addresses that `complete` computes, which clients send back."""
    rules = _rules_by_pool(body["properties"].get("inboundNatRules", []))
    if max(map(len, rules.values()), default=0) > _RULES_MAX:
        raise invalid_value("inboundNatRules", "", f"at most {_RULES_MAX} for each pool")
    for pool in body["properties"].get("backendAddressPools", ()):
        properties = pool["properties"]
        if "loadBalancerBackendAddresses" in properties:
            properties["loadBalancerBackendAddresses"] = [
                entry
                for entry in properties["loadBalancerBackendAddresses"]
                if "networkInterfaceIPConfiguration" not in entry.get("properties", {})
            ]
    return DesiredResource(body)


async def complete(_context: ArmContext, _rows: Sequence[Resource], shown: list[Body]) -> None:
    """Add the addresses of each pool, with the ports that NAT rules give to them."""
    for document in shown:
        properties = document["properties"]
        by_pool = _rules_by_pool(properties["inboundNatRules"])
        for pool in properties["backendAddressPools"]:
            rules = by_pool[pool["id"].lower()]
            users = pool["properties"].get("backendIPConfigurations", ())
            if users:
                pool["properties"]["loadBalancerBackendAddresses"] = [
                    _address(user["id"], number, rules) for number, user in enumerate(users)
                ]


def _rules_by_pool(rules: list[Body]) -> Mapping[str, list[Body]]:
    """Return the NAT rules of each pool, by the id of the pool in lower case."""
    by_pool: defaultdict[str, list[Body]] = defaultdict(list)
    for rule in rules:
        if pool := rule["properties"].get("backendAddressPool"):
            by_pool[str(pool.get("id")).lower()].append(rule)
    return by_pool


def _address(configuration: str, number: int, rules: list[Body]) -> Body:
    ports = [
        {
            "inboundNatRuleName": rule["name"],
            "frontendPort": rule["properties"]["frontendPortRangeStart"] + number,
            "backendPort": rule["properties"].get("backendPort", 0),
        }
        for rule in rules
        if "frontendPortRangeStart" in rule["properties"]
    ]
    return {
        "name": configuration.replace("/", "_").strip("_")[-80:],
        "properties": {
            "networkInterfaceIPConfiguration": {"id": configuration},
            "inboundNatRulesPortMapping": ports,
        },
    }

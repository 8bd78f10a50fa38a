"""Members of documents that name the users of a resource: computed when it is read, never stored.

What has one user (an interface, a public address, a disk) knows it. The users of a subnet, a
security group, a load balancer's pool or a proximity placement group are found in their group.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import (
    addresses,
    disks,
    documents,
    interfaces,
    references,
    subnets,
    targets,
)
from fairwarning.arm.resources.references import (
    DISK,
    INTERFACE,
    LOAD_BALANCER,
    NETWORK,
    PROXIMITY_GROUP,
    PUBLIC_ADDRESS,
    SECURITY_GROUP,
    read_group,
    user_id,
)
from fairwarning.core.model import Machine, Power, ScaleSet
from fairwarning.service.resources import AVAILABILITY_SET, MACHINE, SCALE_SET, Resource

Documents = Mapping[str, Body]
"""The documents of a page, by the ids of their resources in the store; `View` completes them."""
View = Callable[[ArmContext, Sequence[Resource], Documents], Awaitable[None]]

_LISTS = ("ipConfigurations", "frontendIPConfigurations")  # whose entries have public addresses


# --- What has one user ----------------------------------------------------------------------------


async def _complete_interfaces(
    context: ArmContext, page: Sequence[Resource], shown: Documents
) -> None:
    users = await references.read_all(context, (row.used_by for row in page))
    machines = await _machines(context, users.values())
    for row in page:
        document = shown[row.id]
        properties = document["properties"]
        properties["dnsSettings"] = addresses.dns_settings(document, document["id"])
        if user := users.get(row.used_by):
            properties["virtualMachine"] = {"id": user_id(context, user)}
            links = interfaces.links_of(documents.stored_body(user))
            properties["primary"] = not links or references.same(links[0], document["id"])
            machine = machines.get(user.id)
            if properties["primary"] and machine and machine.address:
                # In a host run the machine has its address from the subnet of the host (M22).
                configuration = interfaces.primary_configuration(document)
                configuration["privateIPAddress"] = machine.address


async def _complete_public(context: ArmContext, page: Sequence[Resource], shown: Documents) -> None:
    users = await references.read_all(context, (row.used_by for row in page))
    for row in page:
        user, document = users.get(row.used_by), shown[row.id]
        for path in _configurations_with(context, user, document["id"]) if user else ():
            document["properties"]["ipConfiguration"] = {"id": path}


def _configurations_with(context: ArmContext, user: Resource, address: str) -> list[str]:
    """Return the ids of a user's configurations that have this public address."""
    properties = documents.stored_body(user)["properties"]
    return [
        f"{user_id(context, user)}/{part}/{entry['name']}"
        for part in _LISTS
        for entry in properties.get(part, ())
        if references.same(entry.get("properties", {}).get("publicIPAddress"), address)
    ]


async def _complete_disks(context: ArmContext, page: Sequence[Resource], shown: Documents) -> None:
    users = await references.read_all(context, (row.used_by for row in page))
    machines = await _machines(context, users.values())
    for row in page:
        document, user = shown[row.id], users.get(row.used_by)
        properties = document["properties"]
        properties |= disks.computed_properties(document["id"], document)
        properties["diskState"] = "Attached" if user else "Unattached"
        if user:
            document["managedBy"] = user_id(context, user)
            machine = machines.get(user.id)
            if machine and machine.power is Power.DEALLOCATED:
                properties["diskState"] = "Reserved"


async def _machines(context: ArmContext, users: Iterable[Resource]) -> dict[str, Machine]:
    """Return the machines that resources describe, by the ids of the resources."""
    rows = [row for row in users if row.machine]
    scopes = await context.scopes(rows)
    return {
        row.id: machine
        for row in rows
        if (scope := scopes.get(row.scope)) and (machine := scope.machines.get(row.machine))
    }


# --- What has many users --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Configuration:
    """An IP configuration of an interface, or of an interface of a scale set's instance."""

    id: str
    properties: Body
    interface: Body  # the properties of its interface

    @property
    def interface_id(self) -> str:
        return self.id.rpartition("/ipConfigurations/")[0]


async def _configurations(context: ArmContext, group: str) -> list[_Configuration]:
    """Return all IP configurations of a group."""
    parts: list[_Configuration] = []
    for row in await read_group(context, INTERFACE, group):
        properties = documents.stored_body(row)["properties"]
        parts += _of_interface(user_id(context, row), properties)
    for row in await read_group(context, SCALE_SET, group):
        listed = subnets.set_interfaces(documents.stored_body(row))
        for number in await _instances(context, row) if listed else ():
            path = f"{user_id(context, row)}/virtualMachines/{number}/networkInterfaces"
            for name, properties in listed:
                parts += _of_interface(f"{path}/{name}", properties)
    return parts


def _of_interface(path: str, properties: Body) -> list[_Configuration]:
    return [
        _Configuration(f"{path}/ipConfigurations/{name}", inner, properties)
        for name, inner in subnets.named_parts(properties, "ipConfigurations")
    ]


async def _instances(context: ArmContext, row: Resource) -> list[int]:
    scale_set = await context.fleet.reader.read(ScaleSet, row.set)
    placement = await targets.placement_groups(context, scale_set) if scale_set else []
    return sorted(machine.instance for scope in placement for machine in scope.machines.values())


async def _by_group(
    context: ArmContext, page: Sequence[Resource]
) -> dict[str, list[_Configuration]]:
    groups = {row.group.lower(): row.group for row in page}
    return {lower: await _configurations(context, group) for lower, group in groups.items()}


def _index(pairs: Iterable[tuple[object, str]]) -> dict[str, list[Body]]:
    """Return the users `{"id": ...}` of each Azure id in lower case, from links and users."""
    index: defaultdict[str, dict[str, Body]] = defaultdict(dict)
    for link, user in pairs:
        if isinstance(link, dict):
            index[str(link.get("id")).lower()][user] = {"id": user}
    return {id_: list(users.values()) for id_, users in index.items()}


async def _complete_networks(
    context: ArmContext, page: Sequence[Resource], shown: Documents
) -> None:
    for group, listed in (await _by_group(context, page)).items():
        users = _index((entry.properties.get("subnet"), entry.id) for entry in listed)
        for row in page:
            if row.group.lower() == group:
                for subnet in shown[row.id]["properties"]["subnets"]:
                    _add(subnet["properties"], "ipConfigurations", users, subnet["id"])


async def _complete_security_groups(
    context: ArmContext, page: Sequence[Resource], shown: Documents
) -> None:
    for group, listed in (await _by_group(context, page)).items():
        member = "networkSecurityGroup"
        users = _index((entry.interface.get(member), entry.interface_id) for entry in listed)
        in_subnets = _index(
            (subnet.get("properties", {}).get(member), path)
            for row in await read_group(context, NETWORK, group)
            for subnet, path in _subnets(context, row)
        )
        for row in page:
            if row.group.lower() == group:
                document = shown[row.id]
                _add(document["properties"], "networkInterfaces", users, document["id"])
                _add(document["properties"], "subnets", in_subnets, document["id"])


def _subnets(context: ArmContext, row: Resource) -> list[tuple[Body, str]]:
    path = context.arm_id(NETWORK, row.group, row.name)
    listed = documents.stored_body(row)["properties"].get("subnets", ())
    return [(subnet, f"{path}/subnets/{subnet['name']}") for subnet in listed]


async def _complete_load_balancers(
    context: ArmContext, page: Sequence[Resource], shown: Documents
) -> None:
    for group, listed in (await _by_group(context, page)).items():
        pools, rules = (
            _index((link, entry.id) for entry in listed for link in _list(entry.properties, member))
            for member in ("loadBalancerBackendAddressPools", "loadBalancerInboundNatRules")
        )
        for row in page:
            if row.group.lower() == group:
                properties = shown[row.id]["properties"]
                for pool in properties["backendAddressPools"]:
                    _add(pool["properties"], "backendIPConfigurations", pools, pool["id"])
                for rule in properties["inboundNatRules"]:
                    if user := rules.get(rule["id"].lower()):
                        rule["properties"]["backendIPConfiguration"] = user[0]
                _add_rules(properties)


def _list(properties: Body, member: str) -> list[object]:
    listed = properties.get(member)
    return listed if isinstance(listed, list) else []


def _add_rules(properties: Body) -> None:
    """Add to the frontends, pools and probes of a load balancer the rules that name them."""
    for rules in ("loadBalancingRules", "inboundNatRules", "outboundRules"):
        for member, part in (
            ("frontendIPConfiguration", "frontendIPConfigurations"),
            ("backendAddressPool", "backendAddressPools"),
            ("probe", "probes"),
        ):
            users = _index(
                (rule["properties"].get(member), rule["id"]) for rule in properties[rules]
            )
            for entry in properties[part]:
                _add(entry["properties"], rules, users, entry["id"])


async def _complete_proximity_groups(
    context: ArmContext, page: Sequence[Resource], shown: Documents
) -> None:
    kinds = {
        MACHINE: "virtualMachines",
        SCALE_SET: "virtualMachineScaleSets",
        AVAILABILITY_SET: "availabilitySets",
    }
    for group in {row.group for row in page}:
        for kind, member in kinds.items():
            users = _index(
                (_proximity_group_of(row), user_id(context, row))
                for row in await read_group(context, kind, group)
            )
            for row in page:
                if row.group == group:
                    _add(shown[row.id]["properties"], member, users, shown[row.id]["id"])


def _proximity_group_of(row: Resource) -> object:
    return documents.stored_body(row).get("properties", {}).get("proximityPlacementGroup")


def _add(properties: Body, member: str, users: Mapping[str, list[Body]], path: str) -> None:
    """Replace a member by the users of an Azure id; there is no member without users."""
    properties.pop(member, None)
    if listed := users.get(path.lower()):
        properties[member] = listed


VIEWS: Mapping[str, View] = {
    INTERFACE: _complete_interfaces,
    PUBLIC_ADDRESS: _complete_public,
    DISK: _complete_disks,
    NETWORK: _complete_networks,
    SECURITY_GROUP: _complete_security_groups,
    LOAD_BALANCER: _complete_load_balancers,
    PROXIMITY_GROUP: _complete_proximity_groups,
}
"""The function that completes the documents of each kind that has users."""

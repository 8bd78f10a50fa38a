"""Network interfaces and public addresses of scale-set instances (C6).

They are computed from the network profile of the set. An instance has its own private address where
it has one; other addresses depend only on the set and the instance, and no host has them. Ansible's
inventory, `az vm list-ip-addresses` and `az vmss list-instance-public-ips` read them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from starlette.responses import Response

from fairwarning.arm.compute import targets
from fairwarning.arm.compute.profile import SET_PROFILE
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http import errors
from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.listing import list_response, next_link
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.network import addresses, subnets
from fairwarning.arm.types import documents, registered
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import INSTANCE, INTERFACE, PUBLIC_ADDRESS, SCALE_SET
from fairwarning.arm.types.resource_type import ResourceType
from fairwarning.core.model import Resource, guid

_CONFIGURATIONS = f"{SET_PROFILE}.networkProfile.networkInterfaceConfigurations"
_CONFIGURATIONS_MAX = 32  # each instance has them
_OF_INTERFACE = ("enableAcceleratedNetworking", "enableIPForwarding", "networkSecurityGroup")
_OF_CONFIGURATION = (
    "applicationGatewayBackendAddressPools", "applicationSecurityGroups",
    "loadBalancerBackendAddressPools", "privateIPAddressVersion", "subnet",
)  # fmt: skip
"""Members of the model that the interfaces and IP configurations of instances have, too."""
_Named = tuple[str, Body]
"""Name and properties of a part of the model."""


@dataclass(frozen=True)
class SetNetwork:
    """The network profile of a scale set, with the address ranges of its subnets."""

    context: ArmContext
    owner: Resource
    model: list[_Named]  # its interfaces
    ranges: Mapping[str, IPv4Network]  # by the names of interface and IP configuration

    def _model(self, target: ActionTarget) -> list[_Named]:
        """Return the interfaces that the set gives an instance; a machine that joined has none."""
        return self.model if target.machine.model else []

    def _path(self, target: ActionTarget, name: str) -> str:
        """Return the Azure id of an instance's interface."""
        return self.context.interface_id(self.owner, target.set, target.machine, name)

    def links(self, target: ActionTarget) -> list[Body]:
        """Return the references of an instance to its interfaces."""
        names = (name for name, _ in self._model(target))
        return [{"id": self._path(target, name)} for name in names]

    def interfaces(self, target: ActionTarget) -> list[Body]:
        """Return the network interfaces of an instance in Azure's form."""
        return [
            self._interface(target, name, model, primary=primary)
            for (name, model), primary in _with_primary(self._model(target))
        ]

    def _interface(self, target: ActionTarget, name: str, model: Body, *, primary: bool) -> Body:
        path = self._path(target, name)
        machine = self.context.instance_id(self.owner, target.set, target.machine)
        dns = {"dnsServers": [], "appliedDnsServers": [], **(model.get("dnsSettings") or {})}
        properties: Body = {
            "primary": primary,
            "macAddress": addresses.mac(path),
            "enableAcceleratedNetworking": False,
            "enableIPForwarding": False,
            **{member: model[member] for member in _OF_INTERFACE if member in model},
            "dnsSettings": dns,
            "virtualMachine": {"id": machine},
            "ipConfigurations": [
                self._ip_configuration(
                    target, f"{path}/ipConfigurations/{own}", f"{name}/{own}", inner, primary=first
                )
                for (own, inner), first in _with_primary(_named(model, "ipConfigurations"))
            ],
        }
        for entry in properties["ipConfigurations"] if primary and target.machine.address else ():
            if entry["properties"]["primary"]:
                entry["properties"]["privateIPAddress"] = target.machine.address
        return {**self._document(path, properties), "type": INTERFACE}

    def _ip_configuration(
        self, target: ActionTarget, path: str, names: str, model: Body, *, primary: bool
    ) -> Body:
        properties = {
            "primary": primary,
            "privateIPAddress": self._private(target, names),
            "privateIPAllocationMethod": "Dynamic",
            "privateIPAddressVersion": "IPv4",
            **{member: model[member] for member in _OF_CONFIGURATION if member in model},
        }
        if public := model.get("publicIPAddressConfiguration"):
            properties["publicIPAddress"] = {"id": self._public_id(target, path, public)}
        return self._document(path, properties)

    def public_addresses(self, target: ActionTarget) -> list[Body]:
        """Return the public addresses of an instance in Azure's form."""
        return [
            self._public_address(target, f"{path}/ipConfigurations/{own}", public)
            for name, model in self._model(target)
            for path in (self._path(target, name),)
            for own, inner in _named(model, "ipConfigurations")
            if (public := inner.get("publicIPAddressConfiguration"))
        ]

    def _public_address(self, target: ActionTarget, configuration: str, model: Body) -> Body:
        start = _number(f"{self.owner.id}/-")
        properties = {
            "publicIPAddressVersion": "IPv4",
            "idleTimeoutInMinutes": 4,
            **(model.get("properties") or {}),
            "ipAddress": addresses.public(start + target.machine.instance),
            "publicIPAllocationMethod": "Dynamic",
            "ipConfiguration": {"id": configuration},
        }
        path = self._public_id(target, configuration, model)
        return {**self._document(path, properties), "type": PUBLIC_ADDRESS}

    def _public_id(self, target: ActionTarget, configuration: str, model: Body) -> str:
        """Return the id of a public address, which is a resource of its own in a Flexible set."""
        if not target.set.flexible:
            return f"{configuration}/publicIPAddresses/{model['name']}"
        name = f"{configuration.split('/')[-3]}-{model['name']}"
        return self.context.arm_id(PUBLIC_ADDRESS, self.owner.group, name)

    def _private(self, target: ActionTarget, names: str) -> str:
        """Return an address of the subnet: consecutive ones for consecutive instances."""
        net = self.ranges.get(names.lower(), subnets.DEFAULT_RANGE)
        places = net.num_addresses - subnets.RESERVED - 1
        start = _number(f"{self.owner.id}/{names}")
        return str(net[subnets.RESERVED + (start + target.machine.instance) % places])

    def _document(self, path: str, properties: Body) -> Body:
        return {
            "name": path.rpartition("/")[2],
            "id": path,
            "etag": documents.etag(self.owner),
            "properties": {"provisioningState": "Succeeded", **properties},
        }


async def read(context: ArmContext, owner: Resource) -> SetNetwork:
    """Return the network of a scale set."""
    ranges = {}
    profile = typed_value(documents.stored_body(owner), f"{SET_PROFILE}.networkProfile", dict, {})
    interfaces = _named(profile, "networkInterfaceConfigurations")
    for name, model in interfaces:
        for own, inner in _named(model, "ipConfigurations"):
            id_ = parse_id((inner.get("subnet") or {}).get("id"))
            net = await subnets.address_range(context, id_) if id_ else None
            if net:
                ranges[f"{name}/{own}".lower()] = net
    return SetNetwork(context, owner, interfaces, ranges)


async def of_instances(
    context: ArmContext, page: Sequence[ActionTarget]
) -> list[tuple[ActionTarget, SetNetwork]]:
    """Return the networks of instances, each scale set of which is read once."""
    sets = {target.scale_set.resource for target in page if target.scale_set}
    owners = await context.read_all(Resource, sets)
    networks = {id_: await read(context, owner) for id_, owner in owners.items()}
    return [
        (target, networks[target.scale_set.resource])
        for target in page
        if target.scale_set and target.machine.model and target.scale_set.resource in networks
    ]


def check(body: Body) -> None:
    """Refuse configurations without names of their own, and too many for every instance."""
    count = 0
    interfaces = typed_value(body, _CONFIGURATIONS, list, [])
    registered.check_names(interfaces, _CONFIGURATIONS)
    for interface in interfaces:
        entries = typed_value(interface, "properties.ipConfigurations", list, [])
        registered.check_names(entries, f"{_CONFIGURATIONS}.ipConfigurations")
        count += 1 + len(entries)
        for entry in entries:
            public = typed_value(entry, "properties.publicIPAddressConfiguration", dict)
            if public is not None:
                registered.check_names([public], f"{_CONFIGURATIONS}.publicIPAddressConfiguration")
    if count > _CONFIGURATIONS_MAX:
        allowed = f"at most {_CONFIGURATIONS_MAX} interfaces and IP configurations together"
        raise documents.invalid_value(_CONFIGURATIONS, count, allowed)


def _named(body: Body, member: str) -> list[_Named]:
    entries: list[Body] = body.get(member) or []
    return [(entry["name"], entry.get("properties") or {}) for entry in entries]


def _with_primary(entries: list[_Named]) -> Iterator[tuple[_Named, bool]]:
    """Yield each entry of a list, and whether it is the primary one: it says so, or is first."""
    chosen = next((entry for entry in entries if entry[1].get("primary")), None)
    for number, entry in enumerate(entries):
        yield entry, entry is chosen if chosen else number == 0


def _number(path: str) -> int:
    return int(guid("network", path.lower())[:8], 16)


_INSTANCE = re.compile("_[0-9]{1,9}(?=-)", re.ASCII)
"""The end of an instance's name, in the name of what it has."""
_NAME_CHARACTERS = 300  # no name is longer: of a set, the number, of an interface, of an address
_INTERFACES = f"{INSTANCE}/networkInterfaces"


async def list_of_set(kind: str, context: ArmContext, request: ArmRequest) -> Response:
    """List the interfaces or public addresses of a page of a set's instances."""
    owner = await context.get_id(request.id)
    scale_set = await context.scale_set(owner)
    page, token = await targets.list_instances(context, request, scale_set)
    network = await read(context, owner)
    value = await _of_page(kind, context, [(target, network) for target in page])
    return json_response({"value": value, **next_link(request, token)})


async def list_of_instance(context: ArmContext, request: ArmRequest) -> Response:
    """List the interfaces of an instance."""
    network, target = await _instance(context, request.group, *request.id.names)
    return json_response({"value": network.interfaces(target)})


async def _instance(
    context: ArmContext, group: str, name: str, number: str
) -> tuple[SetNetwork, ActionTarget]:
    target = await targets.find_instance(context, group, name, number)
    owner = await context.get(SCALE_SET, group, name)
    return await read(context, owner), target


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    *owner, name = (request.params[key] for key in ("set", "machine", "interface"))
    network, target = await _instance(context, request.group, *owner)
    for interface in network.interfaces(target):
        if interface["name"].lower() in {name.lower(), f"{target.machine.name}-{name}".lower()}:
            return json_response(interface)
    path = "/".join([*owner, name[:80]])
    raise errors.resource_not_found(_INTERFACES, path, request.group)


ROUTES = (
    Route(
        "GET",
        f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines/{{machine}}"
        "/networkInterfaces/{interface}",
        _get,
    ),
)


async def list_with_instances(
    kind: ResourceType, context: ArmContext, request: ArmRequest
) -> Response:
    """List interfaces or public addresses: those that clients wrote, and those of instances."""
    rows, instances, token = await targets.with_instances(context, request, kind.name)
    value = await registered.read_documents(kind, context, rows)
    value += await _of_page(kind.name, context, await of_instances(context, instances))
    return list_response(request, value, token)


async def get_with_instances(
    kind: ResourceType, context: ArmContext, request: ArmRequest
) -> Response:
    """Return an interface or a public address, also one of an instance."""
    if await context.find_id(request.id) is None:
        document = await find(kind, context, request.id)
        if document:
            return json_response(document)
    return await registered.get(kind, context, request)


async def find(kind: ResourceType, context: ArmContext, id_: AzureId) -> Body | None:
    """Return the interface or public address of an instance; None if it has none of this id."""
    for end in _INSTANCE.finditer(id_.name[:_NAME_CHARACTERS]):
        name = id_.name[: end.end()]
        target = await targets.find_flexible_instance(context, id_.group, name)
        if target is None:
            continue
        for instance, network in await of_instances(context, [target]):
            for document in _of_kind(kind.name, network, instance):
                if document["name"].lower() == id_.name.lower():
                    return document
    return None


async def _of_page(
    kind: str, context: ArmContext, page: Sequence[tuple[ActionTarget, SetNetwork]]
) -> list[Body]:
    value: list[Body] = []
    for target, network in page:
        await context.fleet.reader.share.turn()
        value += _of_kind(kind, network, target)
    return value


def _of_kind(kind: str, network: SetNetwork, target: ActionTarget) -> list[Body]:
    if kind == INTERFACE:
        return network.interfaces(target)
    return network.public_addresses(target)

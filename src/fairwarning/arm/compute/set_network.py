"""Network interfaces and public addresses of scale-set instances (C6).

They are computed from the network profile of the set. An instance has its own private address where
it has one; other addresses depend only on the set and the instance, and no host has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from fairwarning.arm.compute.profile import SET_PROFILE
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.request import Body
from fairwarning.arm.network import addresses, subnets
from fairwarning.arm.types import documents, instance_ids, references
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import INSTANCE, INTERFACE, PUBLIC_ADDRESS
from fairwarning.core.model import Resource, ScaleSet, guid

_PUBLIC = tuple(
    str(address)
    for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
    for address in IPv4Network(net).hosts()
)  # reserved for documentation (RFC 5737)
_PRIVATE = IPv4Network("10.0.0.0/16")  # for an unknown subnet
_FIRST = 4  # Azure reserves the first four addresses of a subnet
_COPIED = (
    "applicationGatewayBackendAddressPools", "applicationSecurityGroups",
    "loadBalancerBackendAddressPools", "subnet",
)  # fmt: skip
"""Members of an IP configuration of the model that instances have, too."""


@dataclass(frozen=True)
class SetNetwork:
    """The network profile of a scale set, with the address ranges of its subnets."""

    context: ArmContext
    owner: Resource
    configurations: tuple[Body, ...]  # of network interfaces
    ranges: Mapping[str, IPv4Network]  # by the names of interface and IP configuration

    def interfaces(self, target: ActionTarget) -> list[Body]:
        """Return the network interfaces of an instance in Azure's form."""
        primary = _primary(self.configurations)
        return [
            self._interface(target, configuration, primary=configuration is primary)
            for configuration in self.configurations
        ]

    def _interface(self, target: ActionTarget, configuration: Body, *, primary: bool) -> Body:
        path = interface_id(self.context, self.owner, target, configuration["name"])
        model = _properties(configuration)
        inner = _items(model, "ipConfigurations")
        first = _primary(inner)
        properties = {
            "provisioningState": "Succeeded",
            "resourceGuid": guid(path.lower()).lower(),
            "primary": primary,
            "macAddress": addresses.mac(path),
            "enableAcceleratedNetworking": model.get("enableAcceleratedNetworking", False),
            "enableIPForwarding": model.get("enableIPForwarding", False),
            "dnsSettings": {
                "dnsServers": [],
                "appliedDnsServers": [],
                **_part(model, "dnsSettings"),
            },
            "virtualMachine": {
                "id": instance_ids.machine_id(
                    self.context, self.owner, _set_of(target), target.machine
                )
            },
            "ipConfigurations": [
                self._ip_configuration(target, path, entry, primary=entry is first, first=primary)
                for entry in inner
            ],
        }
        if "networkSecurityGroup" in model:
            properties["networkSecurityGroup"] = model["networkSecurityGroup"]
        return {**_entry(path, properties, self.owner), "type": INTERFACE}

    def _ip_configuration(
        self, target: ActionTarget, interface: str, entry: Body, *, primary: bool, first: bool
    ) -> Body:
        path = f"{interface}/ipConfigurations/{entry['name']}"
        model = _properties(entry)
        own = target.machine.address if primary and first else ""
        properties = {
            "provisioningState": "Succeeded",
            "primary": primary,
            "privateIPAddress": own or self._private(target, interface, entry["name"]),
            "privateIPAllocationMethod": "Dynamic",
            "privateIPAddressVersion": model.get("privateIPAddressVersion", "IPv4"),
            **{name: model[name] for name in _COPIED if name in model},
        }
        if address := _public(model):
            properties["publicIPAddress"] = {"id": self._public_id(target, path, address)}
        return _entry(path, properties, self.owner)

    def _public_id(self, target: ActionTarget, configuration: str, address: Body) -> str:
        """Return the id of a public address, which is a resource of its own in a Flexible set."""
        if not _set_of(target).flexible:
            return f"{configuration}/publicIPAddresses/{address['name']}"
        interface = configuration.split("/")[-3]
        name = f"{interface}-{address['name']}"
        return self.context.arm_id(PUBLIC_ADDRESS, self.owner.group, name)

    def public_addresses(self, target: ActionTarget) -> list[Body]:
        """Return the public addresses of an instance in Azure's form."""
        return [
            self._public_address(target, interface["id"], entry, address)
            for interface, configuration in zip(
                self.interfaces(target), self.configurations, strict=True
            )
            for entry in _items(_properties(configuration), "ipConfigurations")
            if (address := _public(_properties(entry)))
        ]

    def _public_address(
        self, target: ActionTarget, interface: str, entry: Body, address: Body
    ) -> Body:
        configuration = f"{interface}/ipConfigurations/{entry['name']}"
        path = self._public_id(target, configuration, address)
        model = _properties(address)
        start = _number(self.context.arm_id(INSTANCE, self.owner.group, f"{self.owner.name}/-"))
        properties = {
            "provisioningState": "Succeeded",
            "resourceGuid": guid(path.lower()).lower(),
            "ipAddress": _PUBLIC[(start + target.machine.instance) % len(_PUBLIC)],
            "publicIPAddressVersion": model.get("publicIPAddressVersion", "IPv4"),
            "publicIPAllocationMethod": "Dynamic",
            "idleTimeoutInMinutes": model.get("idleTimeoutInMinutes", 4),
            "ipConfiguration": {"id": configuration},
        }
        return {**_entry(path, properties, self.owner), "type": PUBLIC_ADDRESS}

    def _private(self, target: ActionTarget, interface: str, entry: str) -> str:
        """Return an address of the subnet: consecutive ones for consecutive instances."""
        name = interface.rpartition("/")[2]
        net = self.ranges.get(f"{name}/{entry}".lower(), _PRIVATE)
        places = net.num_addresses - _FIRST - 1
        start = _number(f"{self.owner.id}/{name}/{entry}")
        return str(net[_FIRST + (start + target.machine.instance) % places])


async def read(context: ArmContext, owner: Resource) -> SetNetwork:
    """Return the network of a scale set."""
    configurations = interface_configurations(documents.stored_body(owner))
    ranges = {}
    for configuration in configurations:
        for entry in _items(_properties(configuration), "ipConfigurations"):
            id_ = parse_id(_part(_properties(entry), "subnet").get("id"))
            net = await subnets.address_range(context, id_) if id_ else None
            if net:
                ranges[f"{configuration['name']}/{entry['name']}".lower()] = net
    return SetNetwork(context, owner, tuple(configurations), ranges)


async def of_instances(
    context: ArmContext, page: Sequence[ActionTarget]
) -> list[tuple[ActionTarget, SetNetwork]]:
    """Return the networks of instances, each scale set of which is read once."""
    owners = await references.read_all(
        context, (target.scale_set.resource for target in page if target.scale_set)
    )
    networks = {id_: await read(context, owner) for id_, owner in owners.items()}
    return [
        (target, networks[target.scale_set.resource])
        for target in page
        if target.scale_set and target.machine.model and target.scale_set.resource in networks
    ]


def interface_configurations(body: Body) -> list[Body]:
    """Return the network interfaces of a set's model."""
    profile = documents.typed_value(body, f"{SET_PROFILE}.networkProfile", dict, {})
    return _items(profile, "networkInterfaceConfigurations")


def check(body: Body) -> None:
    """Refuse a network profile whose configurations have no names of their own."""
    profile = documents.typed_value(body, f"{SET_PROFILE}.networkProfile", dict, {})
    where = f"{SET_PROFILE}.networkProfile.networkInterfaceConfigurations"
    interfaces = documents.typed_value(profile, "networkInterfaceConfigurations", list, [])
    _check_names(interfaces, where)
    for interface in interfaces:
        properties = documents.typed_value(interface, "properties", dict, {})
        entries = documents.typed_value(properties, "ipConfigurations", list, [])
        _check_names(entries, f"{where}.ipConfigurations")
        for entry in entries:
            inner = documents.typed_value(entry, "properties", dict, {})
            address = documents.typed_value(inner, "publicIPAddressConfiguration", dict)
            if address is not None:
                _check_names([address], f"{where}.ipConfigurations.publicIPAddressConfiguration")


def _check_names(entries: list[object], where: str) -> None:
    names: set[str] = set()
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or "/" in name or name.lower() in names:
            raise documents.invalid_value(f"{where}.name", name, "a name, different in its list")
        names.add(name.lower())


# --- Ids ------------------------------------------------------------------------------------------


def _set_of(target: ActionTarget) -> ScaleSet:
    assert target.scale_set is not None
    return target.scale_set


def interface_id(context: ArmContext, owner: Resource, target: ActionTarget, name: str) -> str:
    """Return the Azure id of an instance's interface."""
    return instance_ids.interface_id(context, owner, _set_of(target), target.machine, name)


def links(context: ArmContext, target: ActionTarget, owner: Resource) -> list[Body]:
    """Return the references of an instance to its interfaces."""
    configurations = interface_configurations(documents.stored_body(owner))
    names = [configuration["name"] for configuration in configurations]
    return [{"id": interface_id(context, owner, target, name)} for name in names]


# --- Members of the profile -----------------------------------------------------------------------


def _items(body: Body, name: str) -> list[Body]:
    items: list[Body] = body.get(name) or []
    return items


def _properties(entry: Body) -> Body:
    return _part(entry, "properties")


def _part(body: Body, name: str) -> Body:
    part: Body = body.get(name) or {}
    return part


def _primary(entries: list[Body] | tuple[Body, ...]) -> Body | None:
    """Return the primary entry of a list: the one that says so, or the first."""
    primary = (entry for entry in entries if _properties(entry).get("primary"))
    return next(primary, entries[0] if entries else None)


def _public(properties: Body) -> Body:
    return _part(properties, "publicIPAddressConfiguration")


def _entry(path: str, properties: dict[str, Any], owner: Resource) -> Body:
    return {
        "name": path.rpartition("/")[2],
        "id": path,
        "etag": documents.etag(owner),
        "properties": properties,
    }


def _number(path: str) -> int:
    return int(guid("network", path.lower())[:8], 16)

"""Network interfaces and public addresses of scale-set instances (C6).

They are computed from the network profile of the set. An instance has its own private address where
it has one; other addresses depend only on the set and the instance, and no host has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents, subnets, writing
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.references import Referrer
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.core.model import guid
from fairwarning.service.resources import INSTANCE, SCALE_SET, Resource

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
        path = f"{self.instance_id(target)}/networkInterfaces/{configuration['name']}"
        model = _properties(configuration)
        inner = _items(model, "ipConfigurations")
        first = _primary(inner)
        properties = {
            "provisioningState": "Succeeded",
            "resourceGuid": guid(path.lower()).lower(),
            "primary": primary,
            "macAddress": _mac(path),
            "enableAcceleratedNetworking": model.get("enableAcceleratedNetworking", False),
            "enableIPForwarding": model.get("enableIPForwarding", False),
            "dnsSettings": {
                "dnsServers": [],
                "appliedDnsServers": [],
                **_part(model, "dnsSettings"),
            },
            "virtualMachine": {"id": self.instance_id(target)},
            "ipConfigurations": [
                self._ip_configuration(target, path, entry, primary=entry is first, first=primary)
                for entry in inner
            ],
        }
        if "networkSecurityGroup" in model:
            properties["networkSecurityGroup"] = model["networkSecurityGroup"]
        return _entry(configuration, path, properties, self.owner)

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
            properties["publicIPAddress"] = {"id": f"{path}/publicIPAddresses/{address['name']}"}
        return _entry(entry, path, properties, self.owner)

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
        path = f"{configuration}/publicIPAddresses/{address['name']}"
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
        return _entry(address, path, properties, self.owner)

    def instance_id(self, target: ActionTarget) -> str:
        """Return the Azure id of an instance."""
        name = f"{self.owner.name}/{target.machine.instance}"
        return self.context.arm_id(INSTANCE, self.owner.group, name)

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
    path = context.arm_id(SCALE_SET, owner.group, owner.name)
    referrer = Referrer(context, path, owner.id)
    ranges = {}
    for configuration in configurations:
        for entry in _items(_properties(configuration), "ipConfigurations"):
            net = await _range(referrer, _properties(entry))
            if net:
                ranges[f"{configuration['name']}/{entry['name']}".lower()] = net
    return SetNetwork(context, owner, tuple(configurations), ranges)


async def _range(referrer: Referrer, configuration: Body) -> IPv4Network | None:
    """Return the addresses of a configuration's subnet; None if the subnet is not there."""
    try:
        text = await subnets.of_configuration(referrer, configuration)
    except ArmError:
        return None
    return IPv4Network(text) if text else None


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


def _entry(model: Body, path: str, properties: dict[str, Any], owner: Resource) -> Body:
    return {
        "name": model["name"],
        "id": path,
        "etag": writing.etag(owner),
        "properties": properties,
    }


def _mac(path: str) -> str:
    digits = f"{_number(path) % 2**24:06X}"
    return f"00-0D-3A-{digits[:2]}-{digits[2:4]}-{digits[4:]}"


def _number(path: str) -> int:
    return int(guid("network", path.lower())[:8], 16)

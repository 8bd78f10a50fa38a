"""Network interfaces: their references, addresses and defaults."""

from collections.abc import Mapping
from ipaddress import IPv4Network

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import addresses, documents, references, reservations, subnets
from fairwarning.arm.resources.documents import typed_value
from fairwarning.arm.resources.references import (
    LOAD_BALANCER,
    NETWORK,
    PUBLIC_ADDRESS,
    SECURITY_GROUP,
    Links,
    Referrer,
)
from fairwarning.arm.resources.reservations import AddressRange, Reservation
from fairwarning.core.commands import Command

_DEFAULT_RANGE = IPv4Network("10.0.0.0/16")  # without a subnet, or one without a range
_COMPUTED = ("virtualMachine", "primary", "hostedWorkloads", "resourceGuid")
_COMPUTED_DNS = ("appliedDnsServers", "internalDomainNameSuffix", "internalFqdn")
_PARTS: Mapping[str, str] = {
    "loadBalancerBackendAddressPools": "backendAddressPools",
    "loadBalancerInboundNatRules": "inboundNatRules",
}
"""Lists of references to parts of load balancers."""
_LIST = "properties.ipConfigurations"


async def fill(referrer: Referrer, body: Body) -> Links:
    """Check the references of an interface, and add its addresses and Azure's defaults."""
    properties = body["properties"]
    for name in _COMPUTED:
        properties.pop(name, None)
    dns = typed_value(body, "properties.dnsSettings", dict, {})
    properties["dnsSettings"] = {
        "dnsServers": [], **{key: dns[key] for key in dns if key not in _COMPUTED_DNS}
    }  # fmt: skip
    properties.setdefault("macAddress", addresses.mac(referrer.id))
    properties.setdefault("enableIPForwarding", False)
    properties.setdefault("enableAcceleratedNetworking", False)
    await link(referrer, properties, "networkSecurityGroup", "properties", SECURITY_GROUP)
    interface = _Interface(referrer)
    for number, configuration in enumerate(properties.get("ipConfigurations", ())):
        inner = configuration.setdefault("properties", {})
        inner.setdefault("primary", number == 0)
        inner.setdefault("privateIPAddressVersion", "IPv4")
        inner.setdefault("privateIPAllocationMethod", "Dynamic")
        await interface.add(configuration["name"], inner, f"{_LIST}[{number}].properties")
    return interface.links()


async def link(
    referrer: Referrer, properties: Body, member: str, path: str, kind: str, *, part: str = ""
) -> references.Target | None:
    """Check a reference, and write its id in the usual case."""
    target = await referrer.find(properties.get(member), f"{path}.{member}.id", kind, part)
    if target is not None:
        properties[member] = {**properties[member], "id": target.id}
    return target


class _Interface:
    """What the configurations of one interface use."""

    def __init__(self, referrer: Referrer) -> None:
        self._referrer = referrer
        stored = documents.stored_body(referrer.existing).get("properties", {})
        self._stored: dict[str, Body] = {
            entry["name"].lower(): entry.get("properties", {})
            for entry in stored.get("ipConfigurations", ())
        }
        self._uses: list[str] = []
        self._owns: list[str] = []
        self._commands: list[Command] = []

    def links(self) -> Links:
        """Return what the configurations use so far."""
        return Links(tuple(self._uses), tuple(self._owns), tuple(self._commands))

    async def add(self, name: str, inner: Body, path: str) -> None:
        """Check a configuration, and give it an address."""
        subnet = await link(self._referrer, inner, "subnet", path, NETWORK, part="subnets")
        await self._add_public(name, inner, path)
        for member, part in _PARTS.items():
            listed = typed_value(inner, member, list, [])
            for number, entry in enumerate(listed):
                where = f"{path}.{member}[{number}].id"
                target = await self._referrer.require(entry, where, LOAD_BALANCER, part)
                listed[number] = {"id": target.id}
        if inner["privateIPAddressVersion"] == "IPv4":
            net = subnets.address_range(subnet.part or {}) if subnet else None
            group = subnet.resource.group if subnet else self._referrer.group
            names = subnet.id.split("/")[8::2] if subnet else ["-"]
            range_ = AddressRange(group, "/".join(names), net or _DEFAULT_RANGE)
            await self._add_private(name, inner, path, range_, known=net is not None)

    async def _add_public(self, name: str, inner: Body, path: str) -> None:
        target = await link(self._referrer, inner, "publicIPAddress", path, PUBLIC_ADDRESS)
        if target is None:
            return
        if not self._referrer.is_free(target.resource) or target.resource.id in self._uses:
            raise public_address_in_use(f"{self._referrer.id}/ipConfigurations/{name}", target.id)
        self._uses.append(target.resource.id)
        if delete_option(inner["publicIPAddress"]):
            self._owns.append(target.resource.id)

    async def _add_private(
        self, name: str, inner: Body, path: str, range_: AddressRange, *, known: bool
    ) -> None:
        static = str(inner["privateIPAllocationMethod"]).lower() == "static"
        address = typed_value(inner, "privateIPAddress", str)
        if static and address is None:
            where = f"{path}.privateIPAddress"
            raise documents.invalid_value(where, "", "an IPv4 address if it is Static")
        if static and known:
            reservations.check_static(address, f"{path}.privateIPAddress", range_.net)
        wanted = address or self._address_so_far(name, inner)
        reservation = await self._reserve(range_, wanted) if wanted else None
        if reservation is None and static:
            raise reservations.allocated(address, f"{self._referrer.id}/ipConfigurations/{name}")
        if reservation is None:
            user, spread = self._referrer.store_id, self._referrer.attempt > 0
            reservation = await reservations.choose(
                self._referrer.context, range_, user, self._uses, spread=spread
            )
        inner["privateIPAddress"] = reservation.address
        self._uses.append(reservation.id)
        self._owns.append(reservation.id)
        self._commands += reservation.commands

    def _address_so_far(self, name: str, inner: Body) -> str:
        """Return the address that the configuration had in the same subnet."""
        stored = self._stored.get(name.lower(), {})
        unchanged = stored.get("subnet") == inner.get("subnet")
        return str(stored.get("privateIPAddress", "")) if unchanged else ""

    async def _reserve(self, range_: AddressRange, address: str) -> Reservation | None:
        if range_.reservation(address) in self._uses:
            return None
        user = self._referrer.store_id
        return await reservations.reserve(self._referrer.context, range_, address, user)


def delete_option(member: Body) -> bool:
    """Whether a reference says that its target is deleted with the resource that uses it."""
    properties = member.get("properties")
    inner = properties if isinstance(properties, dict) else member
    choices = {"Delete": True, "Detach": False}
    deletes: bool = documents.choice(inner, "deleteOption", choices, default=False)
    return deletes


def public_address_in_use(configuration: str, address: str) -> ArmError:
    """The error for a public address that another resource has."""
    text = (
        f"Resource {configuration} is referencing public IP address {address} that is already "
        "allocated to another resource."
    )
    return ArmError("PublicIPAddressInUse", text)


# --- Of a machine ---------------------------------------------------------------------------------


def links_of(machine: Body) -> list[Body]:
    """Return the references of a machine's body to its interfaces, the primary one first."""
    profile = typed_value(machine, "properties.networkProfile", dict, {})
    listed = profile.get("networkInterfaces")
    links = (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )
    return sorted(links, key=lambda entry: not _is_primary(entry))


def _is_primary(entry: Body) -> bool:
    inner = entry.get("properties", entry)
    return isinstance(inner, dict) and str(inner.get("primary")).lower() == "true"


def primary_configuration(interface: Body) -> Body:
    """Return the properties of an interface's primary configuration; nothing if there is none."""
    listed = interface.get("properties", {}).get("ipConfigurations", ())
    configurations = [entry.get("properties", {}) for entry in listed]
    return min(configurations, key=lambda inner: not inner.get("primary"), default={})

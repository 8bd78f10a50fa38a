"""Network interfaces: their private addresses and defaults."""

from collections.abc import Sequence

from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.network import addresses, subnets
from fairwarning.arm.types import documents, references
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import Command
from fairwarning.core.model import Resource

_COMPUTED = ("primary", "hostedWorkloads", "resourceGuid")
_LIST = "properties.ipConfigurations"
_CONFIGURATIONS_MAX = 256  # of an interface, as on Azure


async def plan(write: ResourceWrite, body: Body) -> DesiredResource:
    """Add the addresses of an interface, and Azure's defaults."""
    properties = body["properties"]
    for name in _COMPUTED:
        properties.pop(name, None)
    properties["dnsSettings"] = {"dnsServers": [], **properties.get("dnsSettings", {})}
    properties.setdefault("macAddress", addresses.mac(write.path))
    properties.setdefault("enableIPForwarding", False)
    properties.setdefault("enableAcceleratedNetworking", False)
    private = _PrivateAddresses(write)
    configurations = properties.get("ipConfigurations", [])
    if len(configurations) > _CONFIGURATIONS_MAX:
        allowed = f"a list of at most {_CONFIGURATIONS_MAX} IP configurations"
        raise documents.invalid_value(_LIST, len(configurations), allowed)
    for number, configuration in enumerate(configurations):
        inner = configuration["properties"]
        inner.setdefault("primary", number == 0)
        inner.setdefault("privateIPAddressVersion", "IPv4")
        inner.setdefault("privateIPAllocationMethod", "Dynamic")
        where = f"{_LIST}[{number}].properties"
        address, version = inner.get("privateIPAddress"), inner["privateIPAddressVersion"]
        addresses.check(address, version, f"{where}.privateIPAddress")
        if version == "IPv4":
            await private.add(configuration["name"], inner, where)
    used = tuple(private.uses)
    return DesiredResource(body, tuple(private.commands), uses=used, owns=used)


class _PrivateAddresses:
    """The private addresses of an interface, each of which is reserved in its subnet."""

    def __init__(self, write: ResourceWrite) -> None:
        self._write = write
        properties = documents.stored_body(write.existing).get("properties", {})
        self._stored: dict[str, Body] = {
            entry["name"].lower(): entry.get("properties", {})
            for entry in properties.get("ipConfigurations", ())
        }
        self.uses: dict[str, None] = {}
        self.commands: list[Command] = []

    async def add(self, name: str, inner: Body, path: str) -> None:
        """Give a configuration an address: the one it asks for, the one it had, or a free one."""
        range_, known = await self._range(inner)
        static = str(inner["privateIPAllocationMethod"]).lower() == "static"
        address = typed_value(inner, "privateIPAddress", str)
        if static and not address:
            where = f"{path}.privateIPAddress"
            raise documents.invalid_value(where, "", "an IPv4 address if it is Static")
        if static and known:
            subnets.check_static(address, range_.net)
        before = self._stored.get(name.lower(), {})
        so_far = (
            before.get("privateIPAddress") if before.get("subnet") == inner.get("subnet") else ""
        )
        wanted = address or so_far
        context, user = self._write.context, self._write.store_id
        reservation = None
        if wanted and range_.reservation(wanted) not in self.uses:
            reservation = await subnets.reserve(context, range_, wanted, user)
        if reservation is None and static:
            path = f"{self._write.path}/ipConfigurations/{name}"
            raise azure_error("PrivateIPAddressIsAllocated", configuration=path, address=address)
        if reservation is None:
            spread = self._write.attempt > 0
            reservation = await subnets.choose(context, range_, user, self.uses, spread=spread)
        inner["privateIPAddress"] = reservation.address
        self.uses[reservation.id] = None
        self.commands += reservation.commands

    async def _range(self, inner: Body) -> tuple[subnets.AddressRange, bool]:
        """Return the addresses of a configuration's subnet, and whether the subnet has some."""
        id_ = parse_id(inner.get("subnet", {}).get("id"))
        if id_ is None:
            return subnets.AddressRange(self._write.id.group, "-", subnets.DEFAULT_RANGE), False
        net = await subnets.address_range(self._write.context, id_)
        return subnets.AddressRange(
            id_.group, id_.name, net or subnets.DEFAULT_RANGE
        ), net is not None


async def complete(context: ArmContext, rows: Sequence[Resource], shown: list[Body]) -> None:
    """Add what depends on the machine that has an interface."""
    users = await context.read_all(Resource, (row.used_by for row in rows))
    scopes = await context.scopes(users.values())
    for row, document in zip(rows, shown, strict=True):
        properties = document["properties"]
        if user := users.get(row.used_by):
            links = links_of(documents.stored_body(user))
            properties["primary"] = not links or references.same(links[0], document)
            scope = scopes.get(user.scope)
            machine = scope.machines.get(user.machine) if scope else None
            if properties["primary"] and machine and machine.address:
                # In a host run the machine has its address from the subnet of the host (M22).
                primary_configuration(document)["privateIPAddress"] = machine.address


async def address_of_machine(context: ArmContext, body: Body) -> tuple[str, str]:
    """Return the subnet of a new machine, and its address if its interface has a static one.

    Both are empty unless addresses identify machines (M22).
    """
    links = links_of(body)
    id_ = parse_id(links[0].get("id")) if links else None
    if id_ is None or not context.settings.by_address:
        return "", ""
    interface = documents.stored_body(await context.get_id(id_))
    configuration = primary_configuration(interface)
    static = str(configuration.get("privateIPAllocationMethod")).lower() == "static"
    address = str(configuration.get("privateIPAddress", "")) if static else ""
    return await subnets.of_configuration(context, configuration), address


def links_of(machine: Body) -> list[Body]:
    """Return the references of a machine's body to its interfaces, the primary one first."""
    links = typed_value(machine, "properties.networkProfile.networkInterfaces", list, [])
    return sorted(links, key=lambda link: not link.get("properties", link).get("primary"))


def primary_configuration(interface: Body) -> Body:
    """Return the properties of an interface's primary configuration; nothing if there is none."""
    listed = interface.get("properties", {}).get("ipConfigurations", ())
    configurations = [entry.get("properties", {}) for entry in listed]
    return min(configurations, key=lambda inner: not inner.get("primary"), default={})

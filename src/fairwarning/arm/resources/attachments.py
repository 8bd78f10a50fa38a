"""What a machine uses: its network interfaces, its disks and its proximity placement group.

An interface and a disk have one machine at most. Disks that the machine's storage profile describes
and that do not exist are created together with the machine.
"""

from dataclasses import replace

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import disks, documents, interfaces, references, subnets, writing
from fairwarning.arm.resources.documents import choice, invalid_value, typed_value
from fairwarning.arm.resources.interfaces import delete_option
from fairwarning.arm.resources.references import (
    DISK,
    INTERFACE,
    PROXIMITY_GROUP,
    Referrer,
    Target,
)
from fairwarning.arm.resources.writing import DesiredResource, ResourceWrite
from fairwarning.core.commands import Command
from fairwarning.service import resources
from fairwarning.service.resources import MACHINE, Resource

_STORAGE = "properties.storageProfile"
_INTERFACES = "properties.networkProfile.networkInterfaces"
_OPTIONS = {name: name for name in ("FromImage", "Empty", "Attach", "Copy", "Restore")}
_CACHING = {name: name for name in ("None", "ReadOnly", "ReadWrite")}
_UNITS = 64  # logical units of a machine


def referrer_of(
    context: ArmContext, group: Resource, write: ResourceWrite, existing: Resource | None = None
) -> Referrer:
    """Return a machine as the referrer of its attachments."""
    store_id = resources.resource_id(MACHINE, group.name, write.name)
    path = context.arm_id(MACHINE, group.name, existing.name if existing else write.name)
    return Referrer(context, path, store_id, existing, write.confined)


async def address_of(referrer: Referrer, body: Body) -> tuple[str, str]:
    """Return the subnet of a new machine, and its address if its interface has a static one.

    Both are empty unless addresses identify machines (M22).
    """
    links = interfaces.links_of(body)
    if not links or not referrer.context.settings.by_address:
        return "", ""
    target = await referrer.require(links[0], f"{_INTERFACES}[0].id", INTERFACE)
    interface = documents.stored_body(target.resource)
    configuration = interfaces.primary_configuration(interface)
    static = str(configuration.get("privateIPAllocationMethod")).lower() == "static"
    address = str(configuration.get("privateIPAddress", "")) if static else ""
    return await subnets.of_configuration(referrer, configuration), address


async def attach(referrer: Referrer, group: Resource, desired: DesiredResource) -> DesiredResource:
    """Check what the machine uses, and add new disks and the resources in use."""
    body = desired.body
    if typed_value(body, "properties.proximityPlacementGroup", dict) is not None:
        path = "properties.proximityPlacementGroup.id"
        link = body["properties"]["proximityPlacementGroup"]
        await referrer.require(link, path, PROXIMITY_GROUP)
    attached = _Attachments(referrer, group)
    await attached.add_interfaces(body)
    profile = typed_value(body, _STORAGE, dict)
    if profile is not None:
        # A copy: the body of the request is planned again if another request comes first.
        body = {**body, "properties": {**body["properties"], "storageProfile": _copy(profile)}}
        await attached.add_disks(body)
    return replace(
        desired,
        body=body,
        commands=(*desired.commands, *attached.commands),
        uses=tuple(attached.uses),
        owns=tuple(attached.owns),
    )


def _copy(profile: Body) -> Body:
    copied: Body = documents.sanitize(profile)
    return copied


class _Attachments:
    """The resources that a machine uses, as they are found in its body."""

    def __init__(self, referrer: Referrer, group: Resource) -> None:
        self._referrer = referrer
        self._group = group
        self._machine: Body = {}
        stored = documents.stored_body(referrer.existing)
        self._stored = typed_value(stored, _STORAGE, dict, {})
        self.uses: list[str] = []
        self.owns: list[str] = []
        self.commands: list[Command] = []

    def _use(self, resource: str, path: str, *, owned: bool) -> None:
        if resource in self.uses:
            raise invalid_value(path, resource.rpartition(":")[2], "attached once")
        self.uses.append(resource)
        if owned:
            self.owns.append(resource)

    # --- Interfaces ---

    async def add_interfaces(self, body: Body) -> None:
        """Add the interfaces of the network profile."""
        for number, entry in enumerate(typed_value(body, _INTERFACES, list, [])):
            path = f"{_INTERFACES}[{number}].id"
            target = await self._referrer.require(entry, path, INTERFACE)
            if not self._referrer.is_free(target.resource):
                user = await self._user_of(target)
                text = f"Network Interface {target.id} is used by existing VM {user}."
                raise ArmError("NicInUse", text)
            self._use(target.resource.id, path, owned=delete_option(entry))

    async def _user_of(self, target: Target) -> str:
        """Return the Azure id of the resource that uses a target."""
        context, user = self._referrer.context, target.resource.used_by
        row = (await references.read_all(context, [user])).get(user)
        return references.user_id(context, row) if row else "that is being deleted"

    # --- Disks ---

    async def add_disks(self, body: Body) -> None:
        """Add the disks of the storage profile, and complete their entries."""
        self._machine = body
        profile = body["properties"]["storageProfile"]
        system: Body = typed_value(profile, "osDisk", dict, {})
        stored = typed_value(self._stored, "osDisk", dict, {})
        # A machine of a fleet file has no disks; writing it back does not create one.
        if not self._referrer.existing or "id" in typed_value(system, "managedDisk", dict, {}):
            system.setdefault("osType", disks.os_type(body["properties"]))
            await self._add_disk(system, stored, f"{_STORAGE}.osDisk", lun=None)
            profile["osDisk"] = system
        entries = [
            entry
            for entry in typed_value(profile, "dataDisks", list, [])
            if not (isinstance(entry, dict) and typed_value(entry, "toBeDetached", bool))
        ]
        units: set[int] = set()
        for number, entry in enumerate(entries):
            path = f"{_STORAGE}.dataDisks[{number}]"
            lun = _unit(entry, path, units)
            await self._add_disk(entry, self._stored_unit(entry, lun), path, lun=lun)
        profile["dataDisks"] = entries

    def _stored_unit(self, entry: Body, lun: int) -> Body:
        """Return the stored entry of the same disk: it has the same name, or the same unit."""
        name = entry.get("name")
        for stored in typed_value(self._stored, "dataDisks", list, []):
            same = stored["name"] == name if name else stored["lun"] == lun
            if same and stored.get("managedDisk"):
                unit: Body = stored
                return unit
        return {}

    async def _add_disk(self, entry: Body, stored: Body, path: str, *, lun: int | None) -> None:
        if typed_value(entry, "vhd.uri", str):  # an unmanaged disk is a file of the client's own
            return
        entry.pop("vhd", None)  # Ansible sends an empty one with a managed disk
        default = "FromImage" if lun is None else "Empty"
        entry["createOption"] = choice(entry, "createOption", _OPTIONS, default)
        caching = "ReadWrite" if lun is None else "None"
        entry["caching"] = choice(entry, "caching", _CACHING, caching)
        entry.setdefault("deleteOption", "Detach")
        managed: Body = {
            **stored.get("managedDisk", {}),
            **typed_value(entry, "managedDisk", dict, {}),
        }
        entry["managedDisk"] = managed
        if "id" in managed:
            await self._attach_disk(entry, stored, path)
        elif entry["createOption"] == "Attach":
            raise invalid_value(f"{path}.managedDisk.id", "", "the id of the disk to attach")
        else:
            await self._create_disk(entry, path, lun)

    async def _attach_disk(self, entry: Body, stored: Body, path: str) -> None:
        managed = entry["managedDisk"]
        target = await self._referrer.require(managed, f"{path}.managedDisk.id", DISK)
        if not self._referrer.is_free(target.resource):
            user = await self._user_of(target)
            text = (
                f"Disk '{target.resource.name}' cannot be attached as the disk is already owned by "
                f"VM '{user}'."
            )
            raise ArmError("ConflictingUserInput", text, 409)
        name = typed_value(entry, "name", str, target.resource.name)
        if name.lower() != target.resource.name.lower() and "managedDisk" in stored:
            same = references.same(managed, stored["managedDisk"].get("id", ""))
            if same:
                writing.refuse_change(f"{path.rpartition('.')[2]}.name")
        body = documents.stored_body(target.resource)
        self._use(target.resource.id, f"{path}.managedDisk.id", owned=delete_option(entry))
        entry["name"] = target.resource.name
        managed["id"] = target.id
        managed["storageAccountType"] = body["sku"]["name"]
        self._resize(entry, stored, target.resource, body)

    def _resize(self, entry: Body, stored: Body, disk: Resource, body: Body) -> None:
        """Give a disk the size that the machine's entry asks for; show the disk's otherwise."""
        size, current = entry.get("diskSizeGB"), body["properties"].get("diskSizeGB")
        if size in {None, current, stored.get("diskSizeGB")}:
            if current is not None:
                entry["diskSizeGB"] = current
            return
        wanted = typed_value(entry, "diskSizeGB", int)
        disks.check_size(wanted, "diskSizeGB")
        if current is not None and wanted < current:
            text = f"Disk '{disk.name}' has {current} GB; the size of a disk cannot be reduced."
            raise ArmError("ResizeDiskError", text, 409)
        entry["diskSizeGB"] = body["properties"]["diskSizeGB"] = wanted
        self.commands.append(disks.rewrite(disk, body))

    async def _create_disk(self, entry: Body, path: str, lun: int | None) -> None:
        context, group = self._referrer.context, self._group
        machine = self._referrer.id.rpartition("/")[2]
        name = typed_value(entry, "name", str) or disks.default_name(machine, lun)
        writing.check_name(name)
        if await context.find(DISK, group.name, name):
            text = (
                f"Disk {name} already exists in resource group {group.name}. Only "
                "CreateOption.Attach is supported."
            )
            raise ArmError("ConflictingUserInput", text, 409)
        size = typed_value(entry, "diskSizeGB", int)
        if size is None and entry["createOption"] == "Empty":
            raise invalid_value(f"{path}.diskSizeGB", "", "the size of the new disk in gigabytes")
        system = disks.os_type(self._machine["properties"])
        entry["diskSizeGB"] = disks.image_size(system) if size is None else size
        disks.check_size(entry["diskSizeGB"], f"{path}.diskSizeGB")
        entry["name"] = name
        managed = entry["managedDisk"]
        managed["storageAccountType"] = typed_value(
            managed, "storageAccountType", str, disks.DEFAULT_SKU
        )
        managed["id"] = context.arm_id(DISK, group.name, name)
        command = disks.create(context, group, self._machine, name, entry)
        self._use(command.resource, f"{path}.name", owned=delete_option(entry))
        self.commands.append(command)


def _unit(entry: object, path: str, units: set[int]) -> int:
    """Return the logical unit of a data disk; no two disks have the same."""
    if not isinstance(entry, dict):
        raise invalid_value(path, entry, "an object")
    lun: int | None = typed_value(entry, "lun", int)
    if lun is None or not 0 <= lun < _UNITS or lun in units:
        allowed = f"a whole number from 0 to {_UNITS - 1} that no other data disk has"
        raise invalid_value(f"{path}.lun", "" if lun is None else lun, allowed)
    units.add(lun)
    entry["lun"] = lun
    return lun

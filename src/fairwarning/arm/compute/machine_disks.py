"""The disks of a machine: attached to one machine at most, or created together with it."""

from dataclasses import replace

from fairwarning.arm.compute import disks
from fairwarning.arm.compute.profile import os_type
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, references, writing
from fairwarning.arm.types.documents import choice, invalid_value, typed_value
from fairwarning.arm.types.names import DISK
from fairwarning.arm.types.references import delete_option
from fairwarning.arm.types.resource_type import DesiredResource
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import Command
from fairwarning.core.model import Resource

_STORAGE = "properties.storageProfile"
_OPTIONS = {name: name for name in ("FromImage", "Empty", "Attach", "Copy", "Restore")}
_CACHING = {name: name for name in ("None", "ReadOnly", "ReadWrite")}
_UNITS = 64  # logical units of a machine


async def attach(write: ResourceWrite, desired: DesiredResource) -> DesiredResource:
    """Check the disks of a machine's storage profile, and create those that do not exist."""
    if typed_value(desired.body, _STORAGE, dict) is None:
        return desired
    attached = _Disks(write, desired.body)
    await attached.add_all()
    return replace(
        desired,
        commands=(*desired.commands, *attached.commands),
        uses=tuple(attached.uses),
        owns=tuple(attached.owns),
    )


class _Disks:
    """The disks that a machine uses, as they are found in its body."""

    def __init__(self, write: ResourceWrite, machine: Body) -> None:
        self._write = write
        self._machine = machine
        stored = documents.stored_body(write.existing)
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

    async def add_all(self) -> None:
        """Add the disks of the storage profile, and complete their entries."""
        profile = self._machine["properties"]["storageProfile"]
        system: Body = typed_value(profile, "osDisk", dict, {})
        stored = typed_value(self._stored, "osDisk", dict, {})
        # A machine of a fleet file has no disks; writing it back does not create one.
        if not self._write.existing or "id" in typed_value(system, "managedDisk", dict, {}):
            system.setdefault("osType", os_type(self._machine["properties"]))
            await self._add_disk(system, stored, f"{_STORAGE}.osDisk", lun=None)
            profile["osDisk"] = system
        entries = [
            entry
            for entry in typed_value(profile, "dataDisks", list, [])
            if not typed_value(entry, "toBeDetached", bool)
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
            same = stored.get("name") == name if name else stored.get("lun") == lun
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
        disk = await self._find(managed, f"{path}.managedDisk.id")
        name = typed_value(entry, "name", str, disk.name)
        if name.lower() != disk.name.lower() and references.same(
            managed, stored.get("managedDisk")
        ):
            writing.refuse_changes({f"{path.rpartition('.')[2]}.name": (disk.name, name)})
        body = documents.stored_body(disk)
        self._use(disk.id, f"{path}.managedDisk.id", owned=delete_option(entry))
        entry["name"] = disk.name
        managed["id"] = self._write.context.arm_id(DISK, disk.group, disk.name)
        managed["storageAccountType"] = typed_value(body, "sku.name", str, disks.DEFAULT_SKU)
        self._check_size(entry, stored, disk, body["properties"].get("diskSizeGB"))

    async def _find(self, managed: Body, path: str) -> Resource:
        """Return the disk that an entry names, which exists; refuse one of another machine."""
        context, id_ = self._write.context, parse_id(managed["id"])
        if id_ is None or id_.kind.lower() != DISK.lower():
            raise references.invalid_id(managed["id"], path, DISK)
        disk = await context.get_id(id_)
        if self._write.is_free(disk):
            return disk
        owner = await references.user_path(context, disk)
        raise azure_error("ConflictingUserInput/disk in use", name=disk.name, owner=owner)

    def _check_size(self, entry: Body, stored: Body, disk: Resource, size: int | None) -> None:
        """Show the size of the disk; refuse another one."""
        if entry.get("diskSizeGB") not in {None, size, stored.get("diskSizeGB")}:
            raise azure_error("ResizeDiskError", name=disk.name, size=size)
        if size is not None:
            entry["diskSizeGB"] = size

    async def _create_disk(self, entry: Body, path: str, lun: int | None) -> None:
        context, group = self._write.context, self._write.group
        name = typed_value(entry, "name", str) or disks.default_name(self._write.name, lun)
        writing.check_name(name)
        if await context.find(DISK, group.name, name):
            raise azure_error("ConflictingUserInput/disk exists", name=name, group=group.name)
        size = typed_value(entry, "diskSizeGB", int)
        if size is None and entry["createOption"] == "Empty":
            raise invalid_value(f"{path}.diskSizeGB", "", "the size of the new disk in gigabytes")
        system = os_type(self._machine["properties"])
        entry["diskSizeGB"] = (
            disks.IMAGE_SIZES.get(system, disks.IMAGE_SIZES["Linux"]) if size is None else size
        )
        disks.check_size(entry, "diskSizeGB")
        entry["name"] = name
        managed = entry["managedDisk"]
        managed["storageAccountType"] = typed_value(
            managed, "storageAccountType", str, disks.DEFAULT_SKU
        )
        managed["id"] = context.arm_id(DISK, group.name, name)
        command = disks.create(context, group, self._machine, name, entry)
        self._use(command.resource, f"{path}.name", owned=delete_option(entry))
        self.commands.append(command)


def _unit(entry: Body, path: str, units: set[int]) -> int:
    """Return the logical unit of a data disk; no two disks have the same."""
    lun: int | None = typed_value(entry, "lun", int)
    if lun is None or not 0 <= lun < _UNITS or lun in units:
        allowed = f"a whole number from 0 to {_UNITS - 1} that no other data disk has"
        raise invalid_value(f"{path}.lun", "" if lun is None else lun, allowed)
    units.add(lun)
    entry["lun"] = lun
    return lun

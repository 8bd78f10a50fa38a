"""Managed disks, as `az vm create`, `az vm disk` and `az disk` need them (C6)."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from fairwarning.arm.compute.profile import os_type
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.compute.views import system_of
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, references, writing
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import choice, invalid_value, typed_value
from fairwarning.arm.types.names import DISK
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import Command, Write
from fairwarning.core.model import Power, Resource, guid
from fairwarning.core.times import iso
from fairwarning.service import resources

_GIGABYTE = 2**30
_LARGEST = 65_536  # gigabytes
_COMPUTED = ("diskState", "uniqueId", "diskSizeBytes")
_DEFAULTS = {
    "networkAccessPolicy": "AllowAll",
    "publicNetworkAccess": "Enabled",
    "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
}
_DEFAULT_SKU = "Premium_LRS"
_IMAGE_SIZES = {"Linux": 30, "Windows": 127}  # gigabytes of a disk that an image gives no size


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    properties = body["properties"]
    for name in _COMPUTED:
        properties.pop(name, None)
    body.pop("managedBy", None)
    body.setdefault("sku", {"name": _DEFAULT_SKU})
    if "diskSizeGB" in properties:
        _check_size(body, "properties.diskSizeGB")
    before = documents.stored_body(write.existing).get("properties", {})
    now = iso(int(write.context.fleet.clock.now()))
    properties["timeCreated"] = before.get("timeCreated", now)
    properties.setdefault("creationData", {"createOption": "Empty"})
    return DesiredResource({**body, "properties": {**_DEFAULTS, **properties}})


def _check_size(body: Body, path: str) -> None:
    """Refuse a size in gigabytes that no disk has."""
    documents.number(body, path, range(1, _LARGEST + 1), 1)


async def _complete(context: ArmContext, rows: Sequence[Resource], shown: list[Body]) -> None:
    """Add the machine that has a disk, and what follows from that."""
    users = await context.read_all(Resource, (row.used_by for row in rows))
    scopes = await context.scopes(users.values())
    for row, document in zip(rows, shown, strict=True):
        properties, user = document["properties"], users.get(row.used_by)
        created = str(properties.get("timeCreated"))
        properties["uniqueId"] = guid("disk", document["id"].lower(), created).lower()
        if isinstance(size := properties.get("diskSizeGB"), int):
            properties["diskSizeBytes"] = size * _GIGABYTE
        properties["diskState"] = "Attached" if user else "Unattached"
        if user:
            document["managedBy"] = context.path_of(user)
            scope = scopes.get(user.scope)
            machine = scope.machines.get(user.machine) if scope else None
            if machine and machine.power is Power.DEALLOCATED:
                properties["diskState"] = "Reserved"


TYPE = ResourceType(
    name=DISK,
    purpose="is created, attached and deleted with machines; it has no content",
    new_status=200,
    plan=_plan,
    complete=_complete,
)


def instance_storage(context: ArmContext, group: str, target: ActionTarget, model: Body) -> Body:
    """Return the storage profile of a set's instance from the set's; its disks are no resources."""
    system: Body = typed_value(model, "osDisk", dict, {})
    data = [
        _instance_disk(context, group, target, f"DataDisk_{place}", entry)
        for place, entry in enumerate(typed_value(model, "dataDisks", list, []))
    ]
    disk = _instance_disk(context, group, target, "OsDisk_1", system)
    return {**model, "osDisk": disk, "dataDisks": data}


def of_flexible_instance(context: ArmContext, target: ActionTarget) -> Body:
    """Return the storage of a Flexible set's instance as a machine; nothing for another machine."""
    if not target.scale_set or not target.machine.model:  # a machine that joined has its own
        return {}
    system = {"osDisk": {"osType": system_of(target.machine)}}
    return {"storageProfile": instance_storage(context, target.group, target, system)}


def _instance_disk(
    context: ArmContext, group: str, target: ActionTarget, use: str, entry: Body
) -> Body:
    machine = target.machine.name
    unique = guid("disk", target.scope.id, machine, use).replace("-", "").lower()
    name = f"{machine}_{use}_{unique}"
    sku = typed_value(entry, "managedDisk.storageAccountType", str, _DEFAULT_SKU)
    disk = {"storageAccountType": sku, "id": context.arm_id(DISK, group, name)}
    return {**entry, "name": name, "managedDisk": disk}


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
        listed: list[Body] = typed_value(self._stored, "dataDisks", list, [])
        for stored in listed:
            same = stored.get("name") == name if name else stored.get("lun") == lun
            if same and stored.get("managedDisk"):
                return stored
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
        managed: Body = {**stored.get("managedDisk", {}), **entry.get("managedDisk", {})}
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
        self._use(disk.id, f"{path}.managedDisk.id", owned=references.delete_option(entry))
        entry["name"] = disk.name
        managed["id"] = self._write.context.arm_id(DISK, disk.group, disk.name)
        managed["storageAccountType"] = typed_value(body, "sku.name", str, _DEFAULT_SKU)
        size = body["properties"].get("diskSizeGB")
        if entry.get("diskSizeGB") not in {None, size, stored.get("diskSizeGB")}:
            raise azure_error("ResizeDiskError", name=disk.name, size=size)
        if size is not None:
            entry["diskSizeGB"] = size

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

    async def _create_disk(self, entry: Body, path: str, lun: int | None) -> None:
        context, group = self._write.context, self._write.group
        kind = "OsDisk_1" if lun is None else f"DataDisk_{lun}"
        default = f"{self._write.name}_{kind}_{uuid.uuid4().hex}"
        name = typed_value(entry, "name", str) or default
        writing.check_name(name)
        if await context.find(DISK, group.name, name):
            raise azure_error("ConflictingUserInput/disk exists", name=name, group=group.name)
        size = typed_value(entry, "diskSizeGB", int)
        if size is None and entry["createOption"] == "Empty":
            raise invalid_value(f"{path}.diskSizeGB", "", "the size of the new disk in gigabytes")
        system = os_type(self._machine["properties"])
        default_size = _IMAGE_SIZES.get(system, _IMAGE_SIZES["Linux"])
        entry["diskSizeGB"] = default_size if size is None else size
        _check_size(entry, "diskSizeGB")
        entry["name"] = name
        managed = entry["managedDisk"]
        managed.setdefault("storageAccountType", _DEFAULT_SKU)
        managed["id"] = context.arm_id(DISK, group.name, name)
        command = self._creation(name, entry)
        self._use(command.resource, f"{path}.name", owned=references.delete_option(entry))
        self.commands.append(command)

    def _creation(self, name: str, disk: Body) -> Write:
        """Return the command that creates a disk from its entry in the storage profile."""
        context, group, machine = self._write.context, self._write.group, self._machine
        sku = disk["managedDisk"]["storageAccountType"]
        option = disk["createOption"]
        image = typed_value(machine, "properties.storageProfile.imageReference", dict, {})
        from_image = {"imageReference": image} if option == "FromImage" and image else {}
        body: Body = {
            "location": machine.get("location", context.cloud.location),
            **({"zones": machine["zones"]} if machine.get("zones") else {}),
            "sku": {"name": sku, "tier": sku.partition("_")[0]},
            "properties": {
                **({"osType": disk["osType"]} if "osType" in disk else {}),
                "creationData": {"createOption": option, **from_image},
                "diskSizeGB": disk["diskSizeGB"],
                "timeCreated": iso(int(context.fleet.clock.now())),
                **_DEFAULTS,
            },
        }
        return Write(
            resource=resources.resource_id(DISK, group.name, name),
            group=group.name,
            name=name,
            body=documents.encode(body),
            within=group.id,
            at=0,
        )


def _unit(entry: Body, path: str, units: set[int]) -> int:
    """Return the logical unit of a data disk; no two disks have the same."""
    lun: int | None = typed_value(entry, "lun", int)
    if lun is None or not 0 <= lun < _UNITS or lun in units:
        allowed = f"a whole number from 0 to {_UNITS - 1} that no other data disk has"
        raise invalid_value(f"{path}.lun", "" if lun is None else lun, allowed)
    units.add(lun)
    return lun

"""Managed disks: their defaults, their names, and those that are created with a machine."""

import uuid

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.arm.resources.references import DISK, Links, Referrer
from fairwarning.arm.resources.targets import ActionTarget
from fairwarning.core.commands import Write
from fairwarning.core.model import Machine, guid
from fairwarning.core.times import iso
from fairwarning.service import resources
from fairwarning.service.resources import Resource

_GIGABYTE = 2**30
_LARGEST = 65_536  # gigabytes
_COMPUTED = ("diskState", "uniqueId", "diskSizeBytes")
DEFAULT_SKU = "Premium_LRS"
_IMAGE_SIZES = {"Linux": 30, "Windows": 127}  # gigabytes of a disk that an image gives no size


async def fill(referrer: Referrer, body: Body) -> Links:
    """Check a disk, and add Azure's defaults."""
    properties = body["properties"]
    for name in _COMPUTED:
        properties.pop(name, None)
    body.pop("managedBy", None)
    body.setdefault("sku", {"name": DEFAULT_SKU})
    size = typed_value(body, "properties.diskSizeGB", int)
    if size is not None:
        check_size(size, "properties.diskSizeGB")
        properties["diskSizeGB"] = size
    stored = documents.stored_body(referrer.existing).get("properties", {})
    now = iso(int(referrer.context.fleet.clock.now()))
    properties["timeCreated"] = stored.get("timeCreated", now)
    properties.setdefault("creationData", {"createOption": "Empty"})
    properties.setdefault("networkAccessPolicy", "AllowAll")
    properties.setdefault("publicNetworkAccess", "Enabled")
    properties.setdefault("encryption", {"type": "EncryptionAtRestWithPlatformKey"})
    return Links()


def check_size(size: int, path: str) -> None:
    """Refuse a size that no disk has."""
    if not 1 <= size <= _LARGEST:
        raise invalid_value(path, size, f"a whole number of gigabytes from 1 to {_LARGEST}")


def computed_properties(path: str, body: Body) -> Body:
    """Return the properties that the service computes for the disk with this Azure id."""
    properties = body["properties"]
    size = properties.get("diskSizeGB")
    return {
        "uniqueId": guid("disk", path.lower(), str(properties.get("timeCreated"))).lower(),
        **({"diskSizeBytes": size * _GIGABYTE} if isinstance(size, int) else {}),
    }


# --- Of a machine ---------------------------------------------------------------------------------


def os_type(body: Body) -> str:
    """Return the operating system of a machine or a scale set's model."""
    sent: str | None = typed_value(body, "storageProfile.osDisk.osType", str)
    if sent:
        return sent
    publisher = typed_value(body, "storageProfile.imageReference.publisher", str, "")
    windows = typed_value(body, "osProfile.windowsConfiguration", dict) is not None
    return "Windows" if windows or "windows" in publisher.lower() else "Linux"


def default_name(machine: str, lun: int | None) -> str:
    """Return a new name for a machine's disk: that of the system (None) or of a unit."""
    kind = "OsDisk_1" if lun is None else f"DataDisk_{lun}"
    return f"{machine}_{kind}_{uuid.uuid4().hex}"


def instance_storage(
    context: ArmContext, group: str, scope: str, machine: Machine, model: Body
) -> Body:
    """Return the storage profile of a set's instance from the set's; its disks are no resources."""
    system: Body = typed_value(model, "osDisk", dict, {})
    data = [
        _instance_disk(context, group, (scope, machine.name, f"DataDisk_{place}"), entry)
        for place, entry in enumerate(typed_value(model, "dataDisks", list, []))
        if isinstance(entry, dict)
    ]
    disk = _instance_disk(context, group, (scope, machine.name, "OsDisk_1"), system)
    return {**model, "osDisk": disk, "dataDisks": data}


def of_flexible_instance(context: ArmContext, target: ActionTarget, group: str) -> Body:
    """Return the storage of a Flexible set's instance as a machine; nothing for another machine."""
    if not target.scale_set or not target.machine.model:  # a machine may join a set without one
        return {}
    storage = instance_storage(context, group, target.scope.id, target.machine, {})
    return {"storageProfile": storage}


def _instance_disk(
    context: ArmContext, group: str, parts: tuple[str, str, str], entry: Body
) -> Body:
    _, machine, use = parts
    name = f"{machine}_{use}_{guid('disk', *parts).replace('-', '').lower()}"
    sku = typed_value(entry, "managedDisk.storageAccountType", str, DEFAULT_SKU)
    disk = {"storageAccountType": sku, "id": context.arm_id(DISK, group, name)}
    return {**entry, "name": name, "managedDisk": disk}


def image_size(system: str) -> int:
    """Return the size of a disk whose size nobody has said."""
    return _IMAGE_SIZES.get(system, _IMAGE_SIZES["Linux"])


def rewrite(disk: Resource, body: Body) -> Write:
    """Return the command that changes the body of an existing disk."""
    return Write(
        resource=disk.id,
        group=disk.group,
        name=disk.name,
        body=documents.encode(body),
        at=disk.version,
    )


def create(context: ArmContext, group: Resource, machine: Body, name: str, disk: Body) -> Write:
    """Return the command that creates a machine's disk from its entry in the storage profile."""
    sku = disk["managedDisk"]["storageAccountType"]
    option = disk["createOption"]
    image = typed_value(machine, "properties.storageProfile.imageReference", dict, {})
    from_image = {"imageReference": image} if option == "FromImage" and image else {}
    body: Body = {
        "location": machine["location"],
        **({"zones": machine["zones"]} if machine.get("zones") else {}),
        "sku": {"name": sku, "tier": sku.partition("_")[0]},
        "properties": {
            **({"osType": disk["osType"]} if "osType" in disk else {}),
            "creationData": {"createOption": option, **from_image},
            "diskSizeGB": disk["diskSizeGB"],
            "timeCreated": iso(int(context.fleet.clock.now())),
            "networkAccessPolicy": "AllowAll",
            "publicNetworkAccess": "Enabled",
            "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
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

"""Managed disks: their defaults, their names, and those that are created with a machine."""

import uuid

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.arm.resources.references import DISK, Links, Referrer
from fairwarning.core.commands import Write
from fairwarning.core.model import guid
from fairwarning.core.times import iso
from fairwarning.service import resources
from fairwarning.service.resources import Resource

_GIGABYTE = 2**30
_LARGEST = 65_536  # gigabytes
_COMPUTED = ("diskState", "uniqueId", "diskSizeBytes")
_DEFAULT_SKU = "Premium_LRS"
_IMAGE_SIZES = {"Linux": 30, "Windows": 127}  # gigabytes of a disk that an image gives no size


async def fill(referrer: Referrer, body: Body) -> Links:
    """Check a disk, and add Azure's defaults."""
    properties = body["properties"]
    for name in _COMPUTED:
        properties.pop(name, None)
    body.pop("managedBy", None)
    body.setdefault("sku", {"name": _DEFAULT_SKU})
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


def instance_disk(context: ArmContext, group: str, machine: str, number: str, sku: str) -> Body:
    """Return the system disk that an instance of a scale set shows; it has no resource."""
    digits = guid("disk", machine, number).replace("-", "").lower()
    name = f"{machine}_OsDisk_1_{digits}"
    disk = {"storageAccountType": sku, "id": context.arm_id(DISK, group, name)}
    return {"name": name, "managedDisk": disk}


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

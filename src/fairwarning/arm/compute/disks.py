"""Managed disks, as `az vm create`, `az vm disk` and `az disk` need them (C6)."""

import uuid
from collections.abc import Sequence

from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.compute.views import system_of
from fairwarning.arm.http.request import Body
from fairwarning.arm.types import documents, references
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import DISK
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import Write
from fairwarning.core.model import Machine, Power, Resource, guid
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
DEFAULT_SKU = "Premium_LRS"
IMAGE_SIZES = {"Linux": 30, "Windows": 127}  # gigabytes of a disk that an image gives no size


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    properties = body["properties"]
    for name in _COMPUTED:
        properties.pop(name, None)
    body.pop("managedBy", None)
    body.setdefault("sku", {"name": DEFAULT_SKU})
    if "diskSizeGB" in properties:
        check_size(body, "properties.diskSizeGB")
    before = documents.stored_body(write.existing).get("properties", {})
    now = iso(int(write.context.fleet.clock.now()))
    properties["timeCreated"] = before.get("timeCreated", now)
    properties.setdefault("creationData", {"createOption": "Empty"})
    return DesiredResource({**body, "properties": {**_DEFAULTS, **properties}})


def check_size(body: Body, path: str) -> None:
    """Refuse a size in gigabytes that no disk has."""
    documents.number(body, path, range(1, _LARGEST + 1), 1)


async def _complete(context: ArmContext, rows: Sequence[Resource], shown: list[Body]) -> None:
    """Add the machine that has a disk, and what follows from that."""
    users = await references.read_all(context, (row.used_by for row in rows))
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
    ]
    disk = _instance_disk(context, group, (scope, machine.name, "OsDisk_1"), system)
    return {**model, "osDisk": disk, "dataDisks": data}


def of_flexible_instance(context: ArmContext, target: ActionTarget) -> Body:
    """Return the storage of a Flexible set's instance as a machine; nothing for another machine."""
    if not target.scale_set or not target.machine.model:  # a machine that joined has its own
        return {}
    system = {"osDisk": {"osType": system_of(target.machine)}}
    storage = instance_storage(context, target.group, target.scope.id, target.machine, system)
    return {"storageProfile": storage}


def _instance_disk(
    context: ArmContext, group: str, parts: tuple[str, str, str], entry: Body
) -> Body:
    _, machine, use = parts
    name = f"{machine}_{use}_{guid('disk', *parts).replace('-', '').lower()}"
    sku = typed_value(entry, "managedDisk.storageAccountType", str, DEFAULT_SKU)
    disk = {"storageAccountType": sku, "id": context.arm_id(DISK, group, name)}
    return {**entry, "name": name, "managedDisk": disk}


def create(context: ArmContext, group: Resource, machine: Body, name: str, disk: Body) -> Write:
    """Return the command that creates a machine's disk from its entry in the storage profile."""
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

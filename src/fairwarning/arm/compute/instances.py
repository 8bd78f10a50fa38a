"""Instances of scale sets: `.../virtualMachineScaleSets/{set}/virtualMachines/{id}` (C1)."""

from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.compute import (
    actions,
    disks,
    machine_listing,
    set_interfaces,
    set_network,
    targets,
    views,
)
from fairwarning.arm.compute.profile import SET_PROFILE
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.types import documents, handlers, writing
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import INSTANCE, MACHINE, SCALE_SET
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite, WriteResult
from fairwarning.core.commands import ProtectInstances, Reimage
from fairwarning.core.model import Ref, Resource
from fairwarning.service import resources

_EXPANDED = ("instanceView", "userData")  # there is never user data
_NO_MODEL = 0  # of a machine that joined the set
_MODELS = {_NO_MODEL: "VirtualMachine"}
_MODEL_PROPERTIES = (
    "diagnosticsProfile", "licenseType", "osProfile", "securityProfile",
)  # fmt: skip
_FROM_SCALE_IN = "properties.protectionPolicy.protectFromScaleIn"
_FROM_ACTIONS = "properties.protectionPolicy.protectFromScaleSetActions"


def document(
    context: ArmContext, target: ActionTarget, owner: Resource, body: Body, *, view: bool = False
) -> Body:
    """Return an instance of the set `owner` in Azure's form; `body` is its stored body."""
    machine, scope, scale_set = target.machine, target.scope, target.scale_set
    assert scale_set is not None
    computed = {
        **views.read_only_properties(scope, machine),
        "latestModelApplied": machine.model in {_NO_MODEL, scale_set.model},
        "modelDefinitionApplied": _MODELS.get(machine.model, "VirtualMachineScaleSet"),
        "protectionPolicy": {
            "protectFromScaleIn": machine.protected,
            "protectFromScaleSetActions": machine.shielded,
        },
    }
    if view:
        computed["instanceView"] = views.instance_view(scope, machine, context.fleet.clock.now())
    number, model = str(machine.instance), documents.stored_body(owner)
    path = context.arm_id(INSTANCE, owner.group, f"{owner.name}/{number}")
    defaults: Body = {
        "name": machine.name,
        "id": path,
        "type": INSTANCE,
        "location": model.get("location", context.cloud.location),
        "instanceId": number,
        "sku": {"name": machine.size or context.cloud.size, "tier": "Standard"},
        **({"tags": dict(machine.tags)} if machine.tags else {}),
        **({"zones": [machine.zone]} if machine.zone else {}),
        "properties": views.default_properties(context.cloud, machine),
    }
    inherited = _network_of(context, target, owner, model)
    if machine.model != _NO_MODEL:
        latest = machine.model == scale_set.model  # older models are not stored
        inherited |= _from_model(context, target, owner.group, model if latest else {})
    defaults = documents.merge(defaults, {"properties": inherited})
    return documents.merge(documents.merge(defaults, body), {"properties": computed})


def _from_model(context: ArmContext, target: ActionTarget, group: str, body: Body) -> Body:
    """Return the properties that an instance has from the model of its set, with its disks."""
    model = typed_value(body, SET_PROFILE, dict, {})
    properties: Body = {name: model[name] for name in _MODEL_PROPERTIES if name in model}
    storage = typed_value(model, "storageProfile", dict, {})
    scope, machine = target.scope.id, target.machine
    storage = disks.instance_storage(context, group, scope, machine, storage)
    properties["storageProfile"] = storage
    return documents.without(properties, "osProfile", "computerNamePrefix")


def _network_of(context: ArmContext, target: ActionTarget, owner: Resource, model: Body) -> Body:
    """Return the network interfaces of an instance."""
    profile = typed_value(model, f"{SET_PROFILE}.networkProfile", dict, {})
    configurations = profile.get("networkInterfaceConfigurations")
    if not configurations:
        return {}
    return {
        "networkProfileConfiguration": {"networkInterfaceConfigurations": configurations},
        "networkProfile": {"networkInterfaces": set_network.links(context, target, owner)},
    }


# --- Reading --------------------------------------------------------------------------------------


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    """List a page of the instances, in the order of their ids."""
    resource = await context.get(SCALE_SET, request.id.group, request.id.name)
    scale_set = await context.scale_set(resource)
    page, token = await machine_listing.list_instances(context, request, scale_set)
    view = "instanceView" in parse_expand(request, _EXPANDED)
    value = await _documents(context, resource, page, view=view)
    return list_response(request, value, token)


async def _documents(
    context: ArmContext, owner: Resource, page: list[ActionTarget], *, view: bool
) -> list[Body]:
    refs: list[Ref] = [(Resource, t.machine.resource) for t in page if t.machine.resource]
    entities = (await context.fleet.reader.read_all(refs)).values()
    bodies = {row.id: documents.stored_body(row) for row in entities if isinstance(row, Resource)}
    return [
        document(context, target, owner, bodies.get(target.machine.resource, {}), view=view)
        for target in page
    ]


async def _document(
    context: ArmContext, request: ArmRequest, target: ActionTarget, *, view: bool = False
) -> Body:
    resource = await context.fleet.reader.read(Resource, target.machine.resource)
    owner = await context.get(SCALE_SET, request.group, request.id.names[0])
    return document(context, target, owner, documents.stored_body(resource), view=view)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    view = "instanceView" in parse_expand(request, _EXPANDED)
    return json_response(
        await _document(context, request, await targets.find(context, request.id), view=view)
    )


# --- Writing --------------------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Set the protection of an instance, and store the rest of the body."""
    target = await targets.find(context, request.id)
    assert target.scale_set is not None
    scale_set, machine = target.scale_set, target.machine
    kind, name = _stored_as(target)
    write = await writing.parse_write(context, request, replace(request.id, kind=kind, name=name))
    # The instance exists, even if no client has written a body for it.
    write = replace(write, must_exist=False)

    async def plan(_: ResourceWrite, body: Body) -> DesiredResource:
        protect = ProtectInstances(
            set=scale_set.id,
            instances=(machine.instance,),
            protected=typed_value(body, _FROM_SCALE_IN, bool, default=False),
            shielded=typed_value(body, _FROM_ACTIONS, bool, default=False),
        )
        kept = documents.without_read_only(body)
        return DesiredResource(kept, (protect,), scope=target.scope.id, machine=machine.name)

    result: WriteResult = await writing.write_resource(write, plan)
    shown = await _document(context, request, await targets.find(context, request.id))
    return handlers.write_response(context, request, replace(result, created=False), shown)


def _stored_as(target: ActionTarget) -> tuple[str, str]:
    """Return the kind and name of the resource that stores the body of an instance."""
    machine, scale_set = target.machine, target.scale_set
    assert scale_set is not None
    if machine.resource.startswith(resources.id_prefix(MACHINE)):  # a machine that joined the set
        return MACHINE, machine.name
    return INSTANCE, f"{scale_set.name}/{machine.instance}"


TYPE = ResourceType(
    name=INSTANCE,
    purpose="is a machine of a scale set",
    versions="compute",
    listed=False,
    put=_put,
    get=_get,
    list=_list,
    remove=actions.delete,
    exists=targets.exists,
    actions={**actions.HANDLERS, "reimageall": partial(actions.act, Reimage)},
    views={
        "instanceview": actions.show_view,
        "networkinterfaces": set_interfaces.list_of_instance,
    },
    refused={"runcommand": actions.NO_ACCESS},
)

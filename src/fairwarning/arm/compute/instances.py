"""Instances of scale sets: `.../virtualMachineScaleSets/{set}/virtualMachines/{id}` (C1)."""

from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.compute import actions, disks, set_network, targets, views
from fairwarning.arm.compute.profile import SET_PROFILE
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.types import documents, registered, writing
from fairwarning.arm.types.context import PAGE_CHARACTERS, ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import INSTANCE, MACHINE, SCALE_SET
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import ProtectInstances, Reimage
from fairwarning.core.model import Resource

_EXPANDED = ("instanceView", "userData")  # there is never user data
_MODEL_PROPERTIES = ("diagnosticsProfile", "licenseType", "osProfile", "securityProfile")
_FROM_SCALE_IN = "properties.protectionPolicy.protectFromScaleIn"
_FROM_ACTIONS = "properties.protectionPolicy.protectFromScaleSetActions"


def document(
    context: ArmContext,
    target: ActionTarget,
    owner: Resource,
    model: Body,
    *,
    view: bool = False,
) -> Body:
    """Return an instance of the set `owner`, whose body is `model`, in Azure's form."""
    machine, scope, scale_set = target.machine, target.scope, target.set
    joined = not machine.model  # as a machine with a name and a resource of its own
    latest = machine.model == scale_set.model  # older models are not stored
    computed = {
        **views.read_only_properties(scope, machine),
        "latestModelApplied": latest or joined,
        "modelDefinitionApplied": "VirtualMachine" if joined else "VirtualMachineScaleSet",
        "protectionPolicy": {
            "protectFromScaleIn": machine.protected,
            "protectFromScaleSetActions": machine.shielded,
        },
    }
    if view:
        computed["instanceView"] = views.instance_view(scope, machine, context.fleet.clock.now())
    number = str(machine.instance)
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
    if not joined:
        inherited = {
            **_network_of(context, target, owner, model),
            **_from_model(context, target, owner.group, model if latest else {}),
        }
        defaults = documents.merge(defaults, {"properties": inherited})
    body = documents.merge(defaults, documents.stored_body(target.resource))
    return documents.merge(body, {"properties": computed})


def _from_model(context: ArmContext, target: ActionTarget, group: str, body: Body) -> Body:
    """Return the properties that an instance has from the model of its set, with its disks."""
    model = typed_value(body, SET_PROFILE, dict, {})
    properties: Body = {name: model[name] for name in _MODEL_PROPERTIES if name in model}
    storage = typed_value(model, "storageProfile", dict, {})
    properties["storageProfile"] = disks.instance_storage(context, group, target, storage)
    return documents.without(properties, "osProfile", "computerNamePrefix")


def _network_of(context: ArmContext, target: ActionTarget, owner: Resource, model: Body) -> Body:
    profile = typed_value(model, f"{SET_PROFILE}.networkProfile", dict, {})
    configurations = profile.get("networkInterfaceConfigurations")
    if not configurations:
        return {}
    return {
        "networkProfileConfiguration": {"networkInterfaceConfigurations": configurations},
        "networkProfile": {
            "networkInterfaces": [
                {"id": context.interface_id(owner, target.set, target.machine, entry["name"])}
                for entry in configurations
            ]
        },
    }


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.get(SCALE_SET, request.id.group, request.id.name)
    scale_set = await context.scale_set(resource)
    most = PAGE_CHARACTERS // len(resource.body)  # each instance shows the model
    page, token = await targets.list_instances(context, request, scale_set, most)
    view = "instanceView" in parse_expand(request, _EXPANDED)
    model = documents.stored_body(resource)
    build = partial(document, context, owner=resource, model=model, view=view)
    value = await context.fleet.reader.share.map(build, page, step=targets.AT_ONCE)
    return list_response(request, value, token)


async def _document(
    context: ArmContext, request: ArmRequest, target: ActionTarget, *, view: bool = False
) -> Body:
    owner = await context.get(SCALE_SET, request.group, request.id.names[0])
    return document(context, target, owner, documents.stored_body(owner), view=view)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    view = "instanceView" in parse_expand(request, _EXPANDED)
    return json_response(
        await _document(context, request, await targets.find(context, request.id), view=view)
    )


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Set the protection of an instance, and store the rest of the body."""
    target = await targets.find(context, request.id)
    scale_set, machine = target.set, target.machine
    own = replace(request.id, kind=MACHINE, name=machine.name)  # of a machine that joined the set
    id_ = request.id if machine.model else own
    write = await writing.parse_write(context, request, id_)

    async def plan(_: ResourceWrite, body: Body) -> DesiredResource:
        protect = ProtectInstances(
            set=scale_set.id,
            instances=(machine.instance,),
            protected=typed_value(body, _FROM_SCALE_IN, bool, default=False),
            shielded=typed_value(body, _FROM_ACTIONS, bool, default=False),
        )
        kept = documents.without_read_only(body)
        return DesiredResource(kept, (protect,), scope=target.scope.id, machine=machine.name)

    result = await writing.write_instance(write, plan)
    shown = await _document(context, request, await targets.find(context, request.id))
    return registered.write_response(context, request, result, shown)


TYPE = ResourceType(
    name=INSTANCE,
    purpose="is a machine of a scale set",
    listed=False,
    put=_put,
    get=_get,
    list=_list,
    remove=actions.delete,
    exists=targets.find_any,
    actions={**actions.HANDLERS, "reimageall": partial(actions.act, Reimage)},
    views={"instanceview": actions.show_view, "networkinterfaces": set_network.list_of_instance},
    refused={"runcommand": actions.NO_ACCESS},
)

"""Instances of scale sets: `.../virtualMachineScaleSets/{set}/virtualMachines/{id}` (C1)."""

from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import (
    disks,
    documents,
    instance_query,
    set_network,
    targets,
    views,
    writing,
)
from fairwarning.arm.resources.documents import typed_value
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget
from fairwarning.arm.resources.writing import DesiredResource, WriteResult, write_response
from fairwarning.core.commands import Operate, ProtectInstances, Reimage
from fairwarning.core.model import Ref
from fairwarning.service import resources
from fairwarning.service.resources import INSTANCE, MACHINE, SCALE_SET, Resource

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
    inherited = _network_of(model, path)
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


def _network_of(body: Body, path: str) -> Body:
    """Return the network interfaces of the instance with this id."""
    configurations = set_network.interface_configurations(body)
    if not configurations:
        return {}
    links = [{"id": f"{path}/networkInterfaces/{nic['name']}"} for nic in configurations]
    return {
        "networkProfileConfiguration": {"networkInterfaceConfigurations": configurations},
        "networkProfile": {"networkInterfaces": links},
    }


# --- Reading --------------------------------------------------------------------------------------


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    """List a page of the instances, in the order of their ids."""
    resource = await context.get(SCALE_SET, request.group, request.params["set"])
    scale_set = await context.scale_set(resource)
    query = instance_query.parse_query(request, scale_set)
    page, token = await instance_query.list_instances(context, request, scale_set, query.matches)
    view = bool(query.selected) or "instanceView" in parse_expand(request, _EXPANDED)
    instances = await _documents(context, resource, page, view=view)
    value = [query.select(instance) for instance in instances]
    if query.matches is None:
        return list_response(context, request, value, token)
    return json_response({"value": value, **context.next_link(request, token)})


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
    owner = await context.get(SCALE_SET, request.group, request.params["set"])
    return document(context, target, owner, documents.stored_body(resource), view=view)


async def _target(context: ArmContext, request: ArmRequest) -> ActionTarget:
    return await targets.find_instance(context, request.group, request.params["set"], request.name)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    view = "instanceView" in parse_expand(request, _EXPANDED)
    return json_response(
        await _document(context, request, await _target(context, request), view=view)
    )


async def _view(context: ArmContext, request: ArmRequest) -> Response:
    target = await _target(context, request)
    return json_response(
        views.instance_view(target.scope, target.machine, context.fleet.clock.now())
    )


# --- Writing and actions --------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Set the protection of an instance, and store the rest of the body."""
    target = await _target(context, request)
    assert target.scale_set is not None
    scale_set, machine = target.scale_set, target.machine
    kind, name = _stored_as(target)
    write = await writing.parse_write(request, name=name)
    # The instance exists, even if no client has written a body for it.
    write = replace(write, must_exist=False)

    async def plan(_: Resource | None, body: Body, __: Resource) -> DesiredResource:
        protect = ProtectInstances(
            set=scale_set.id,
            instances=(machine.instance,),
            protected=typed_value(body, _FROM_SCALE_IN, bool, default=False),
            shielded=typed_value(body, _FROM_ACTIONS, bool, default=False),
        )
        stored = documents.without_read_only(body)
        return DesiredResource(stored, (protect,), scope=target.scope.id, machine=machine.name)

    resource, _, operation = await writing.write_resource(context, kind, write, plan)
    document_ = await _document(context, request, await _target(context, request))
    return write_response(
        request, context, WriteResult(resource, document_, created=False, operation=operation)
    )


def _stored_as(target: ActionTarget) -> tuple[str, str]:
    """Return the kind and name of the resource that stores the body of an instance."""
    machine, scale_set = target.machine, target.scale_set
    assert scale_set is not None
    if machine.resource.startswith(resources.id_prefix(MACHINE)):  # a machine that joined the set
        return MACHINE, machine.name
    return INSTANCE, f"{scale_set.name}/{machine.instance}"


async def _act(kind: type[Operate], context: ArmContext, request: ArmRequest) -> Response:
    return await targets.submit_action(context, request, await _target(context, request), kind)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    try:
        target = await _target(context, request)
    except ArmError as error:
        if error.code != "ResourceNotFound":
            raise
        return await writing.no_content(context, request)
    return await targets.delete(context, request, target)


async def _evict(context: ArmContext, request: ArmRequest) -> Response:
    return await targets.evict(context, request, await _target(context, request))


async def _maintain(context: ArmContext, request: ArmRequest) -> Response:
    return await targets.maintain(context, request, [await _target(context, request)])


_COLLECTION = f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines"
_ITEM = f"{_COLLECTION}/{{name}}"
ROUTES = (
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("PATCH", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
    Route("GET", f"{_ITEM}/instanceView", _view),
    Route("POST", f"{_ITEM}/simulateEviction", _evict),
    Route("POST", f"{_ITEM}/performMaintenance", _maintain),
    Route("POST", f"{_ITEM}/reimageall", partial(_act, Reimage)),
    *(Route("POST", f"{_ITEM}/{name}", partial(_act, kind)) for name, kind in ACTIONS.items()),
)

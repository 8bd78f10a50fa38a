"""Instances of scale sets: `.../virtualMachineScaleSets/{set}/virtualMachines/{id}` (C1)."""

from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import PAGE, ArmContext, invalid_skip_token
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import disks, documents, targets, views, writing
from fairwarning.arm.resources.documents import typed_value
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget
from fairwarning.arm.resources.writing import DesiredResource, WriteResult, write_response
from fairwarning.core.commands import Operate, ProtectInstances, Reimage
from fairwarning.core.model import Machine, Ref, ScaleSet, Scope
from fairwarning.service import resources
from fairwarning.service.resources import INSTANCE, MACHINE, SCALE_SET, Resource

_EXPANDED = ("instanceView", "userData")  # there is never user data
_NO_MODEL = 0  # of a machine that joined the set
_MODELS = {_NO_MODEL: "VirtualMachine"}
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
    number = str(machine.instance)
    defaults: Body = {
        "name": machine.name,
        "id": context.arm_id(INSTANCE, owner.group, f"{owner.name}/{number}"),
        "type": INSTANCE,
        "location": documents.stored_body(owner).get("location", context.cloud.location),
        "instanceId": number,
        "sku": {"name": machine.size or context.cloud.size, "tier": "Standard"},
        **({"tags": dict(machine.tags)} if machine.tags else {}),
        **({"zones": [machine.zone]} if machine.zone else {}),
        "properties": views.default_properties(context.cloud, machine),
    }
    if machine.model != _NO_MODEL:
        defaults = documents.merge(defaults, _storage(context, target, owner))
    return documents.merge(documents.merge(defaults, body), {"properties": computed})


def _storage(context: ArmContext, target: ActionTarget, owner: Resource) -> Body:
    """Return the storage profile of an instance, with the ids of its disks."""
    body = documents.stored_body(owner)
    model = typed_value(body, f"{SET_PROFILE}.storageProfile", dict, {})
    storage = disks.instance_storage(context, owner.group, target.scope.id, target.machine, model)
    return {"properties": {"storageProfile": storage}}


# --- Reading --------------------------------------------------------------------------------------


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    """List a page of the instances, in the order of their ids."""
    resource = await context.get(SCALE_SET, request.group, request.params["set"])
    scale_set = await context.scale_set(resource)
    after = _after(request.query("$skiptoken"))
    later = [
        (machine.instance, machine, scope)
        for scope in await targets.placement_groups(context, scale_set)
        for machine in scope.machines.values()
        if machine.instance > after
    ]
    later.sort(key=lambda entry: entry[0])
    page = [(machine, scope) for _, machine, scope in later[:PAGE]]
    token = str(page[-1][0].instance) if len(later) > PAGE else ""
    view = "instanceView" in parse_expand(request, _EXPANDED)
    value = await _documents(context, resource, scale_set, page, view=view)
    return list_response(context, request, value, token)


async def _documents(
    context: ArmContext,
    resource: Resource,
    scale_set: ScaleSet,
    page: list[tuple[Machine, Scope]],
    *,
    view: bool,
) -> list[Body]:
    refs: list[Ref] = [(Resource, machine.resource) for machine, _ in page if machine.resource]
    entities = (await context.fleet.reader.read_all(refs)).values()
    bodies = {row.id: documents.stored_body(row) for row in entities if isinstance(row, Resource)}
    return [
        document(
            context,
            ActionTarget(scope, machine, scale_set),
            resource,
            bodies.get(machine.resource, {}),
            view=view,
        )
        for machine, scope in page
    ]


def _after(token: str) -> int:
    if not token:
        return -1
    if not token.isascii() or not token.isdigit() or len(token) > len(str(10**9)):
        raise invalid_skip_token()
    return int(token)


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

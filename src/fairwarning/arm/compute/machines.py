"""Virtual machines: `Microsoft.Compute/virtualMachines` (C1)."""

from collections.abc import Sequence
from dataclasses import replace

from starlette.responses import Response

from fairwarning.arm.compute import (
    actions,
    availability,
    disks,
    images,
    profile,
    set_network,
    targets,
    views,
)
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.listing import RESOURCE_FIELDS, Field, list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.network import interfaces
from fairwarning.arm.types import documents, registered, writing
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import AVAILABILITY_SET, INSTANCE, MACHINE, SCALE_SET
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import (
    AddMachines,
    Command,
    Configure,
    CreateScope,
    JoinSet,
    UpdateMachine,
)
from fairwarning.core.joining import group_with_room
from fairwarning.core.model import Machine, Priority, Resource, Rules, ScopeKind
from fairwarning.core.record import changed

_EXPANDED = ("instanceView", "userData", "resiliencyView")  # there is never user data
_FIELDS = {
    **RESOURCE_FIELDS,
    "virtualMachineScaleSet/id": Field(
        lambda document: [document["properties"].get("virtualMachineScaleSet", {}).get("id", "")]
    ),
}
"""The fields of a `$filter` of machines."""
_OF_INSTANCES = (("sku",), ("properties", "protectionPolicy"))
"""Members of an instance that a machine does not have."""
_OWNERS = {"availabilitySet": AVAILABILITY_SET, "virtualMachineScaleSet": SCALE_SET}


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Write a machine; of an instance of a Flexible set, write the body of the instance."""
    target = await targets.find_flexible_instance(context, request.group, request.name)
    if target is None:
        return await registered.put(TYPE, context, request)

    async def plan(write: ResourceWrite, body: Body) -> DesiredResource:
        body = _normalize(write, documents.without_read_only(body))
        return await _change(write, replace(target, resource=write.existing), body)

    name = f"{target.set.name}/{target.machine.instance}"
    write = await writing.parse_write(context, request, request.id)
    write = replace(write, id=replace(write.id, kind=INSTANCE, name=name))
    result = await writing.write_instance(write, plan)
    written = await targets.find_machine(context, request.group, request.name)
    (shown,) = await _documents(context, [written])
    return registered.write_response(context, request, result, shown)


def _normalize(write: ResourceWrite, body: Body) -> Body:
    profile.check_api_version(write.body, write.version, profile.MACHINE_PROFILE)
    return profile.normalize(body, profile.MACHINE_PROFILE)


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    body = _normalize(write, body)
    if write.existing is None:
        desired = await _create(write, body)
    else:
        target = await targets.find_machine(write.context, write.group.name, write.existing.name)
        desired = await _change(write, target, body)
    return await disks.attach(write, desired)


async def _create(write: ResourceWrite, body: Body) -> DesiredResource:
    context, group = write.context, write.group
    if naming := await targets.find_naming_set(context, group.name, write.name):
        raise azure_error("Conflict/name of instance", name=write.name, set=naming.name)
    subnet, address = await interfaces.address_of_machine(context, body)
    machine = changed(profile.parse_machine(write.name, body), address=address, subnet=subnet)
    owner = await _owner_of_new(write, body)
    if owner and owner.set:
        return await _join(write, body, machine, owner)
    if owner:
        scope = await context.scope(owner)
        if machine.priority is Priority.SPOT:
            raise azure_error("AzureSpotVMNotSupportedInAvailabilitySet")
        _check_policy(scope.rules, body)
        placed = availability.place(machine, owner, scope)
        add = AddMachines(scope=scope.id, machines=(placed,))
        return DesiredResource(body, (add,), scope=scope.id, machine=write.name)
    name = f"{group.name}:{write.name}"
    create = CreateScope(
        scope=name,
        kind=ScopeKind.STANDALONE,
        machines=(machine,),
        group=group.name,
        rules=profile.with_policy(context.settings.rules, body),
    )
    return DesiredResource(body, (create,), scope=name, machine=write.name)


async def _join(
    write: ResourceWrite, body: Body, machine: Machine, owner: Resource
) -> DesiredResource:
    """Add a new machine to the Flexible set that it names (`az vm create --vmss`)."""
    scale_set = await write.context.scale_set(owner)
    if not scale_set.flexible:
        raise azure_error("OperationNotAllowed/set is Uniform", name=owner.name)
    _check_policy(scale_set.rules, body)
    groups = {scope.id: scope for scope in await write.context.placement_groups(scale_set)}
    scope = group_with_room(scale_set, groups)
    join = JoinSet(set=scale_set.id, machine=machine, scope=scope, resource=write.store_id)
    return DesiredResource(body, (join,), scope=scope, machine=write.name)


async def _owner_of_new(write: ResourceWrite, body: Body) -> Resource | None:
    """Return the availability set or scale set that a body names; None if it names none."""
    owner = None
    for member, kind in _OWNERS.items():
        path = f"properties.{member}.id"
        text = typed_value(body, path, str)
        id_ = parse_id(text)
        if id_ is None:
            continue
        if owner or id_.group.lower() != write.id.group.lower():
            allowed = f"the only set of the machine, a {kind} in the same resource group"
            raise documents.invalid_value(path, text, allowed)
        owner = await write.context.get_id(id_)
    return owner


async def _change(write: ResourceWrite, target: ActionTarget, body: Body) -> DesiredResource:
    context, scope, machine = write.context, target.scope, target.machine
    defaults, before = _defaults(context, target), documents.stored_body(target.resource)
    before, after = (documents.merge(defaults, each) for each in (before, body))
    updated = profile.parse_machine(machine.name, after)
    fixed = profile.immutable_values(profile.parse_machine(machine.name, before), updated)
    fixed["location"] = writing.location_of(before), writing.location_of(after)
    for member in _OWNERS:
        own = _owner(context, target).get(member, {"id": ""})["id"]
        sent = typed_value(body, f"properties.{member}.id", str) or own
        fixed[f"{member}.id"] = own.lower(), sent.lower()
    writing.refuse_changes(fixed)
    update = UpdateMachine(
        scope=scope.id,
        machine=machine.name,
        terminate_seconds=updated.terminate_seconds,
        # Clients send back the size that they read; the default of the cloud stays a default.
        size=None if updated.size == (machine.size or context.cloud.size) else updated.size,
        tags=updated.tags if "tags" in body else None,
    )
    commands: list[Command] = [update]
    rules = profile.with_policy(scope.rules, body)
    if rules != scope.rules:
        if scope.kind is not ScopeKind.STANDALONE:
            raise azure_error("OperationNotAllowed/policy of owner")
        commands.append(Configure(scope=scope.id, rules=rules))
    return DesiredResource(body, tuple(commands), scope=scope.id, machine=machine.name)


def _check_policy(rules: Rules, body: Body) -> None:
    if profile.with_policy(rules, body) != rules:
        raise azure_error("OperationNotAllowed/policy of owner")


async def _documents(
    context: ArmContext, page: Sequence[ActionTarget], *, view: bool = False
) -> list[Body]:
    """Return machines in Azure's form; those of Flexible sets with their interfaces."""
    links = {
        (target.scope.id, target.machine.name): network.links(target)
        for target, network in await set_network.of_instances(context, page)
    }

    def build(target: ActionTarget) -> Body:
        machine, scope = target.machine, target.scope
        computed = {**views.read_only_properties(scope, machine), **_owner(context, target)}
        if view:
            now = context.fleet.clock.now()
            computed["instanceView"] = views.instance_view(scope, machine, now)
        own = documents.stored_body(target.resource)
        for path in _OF_INSTANCES:
            own = documents.without(own, *path)
        defaults = _defaults(context, target)
        if listed := links.get((scope.id, machine.name)):
            defaults["properties"]["networkProfile"] = {"networkInterfaces": listed}
        body = profile.fill_defaults(documents.merge(defaults, own), profile.MACHINE_PROFILE)
        return documents.merge(body, {"properties": computed})

    return await context.fleet.reader.share.map(build, page, step=targets.AT_ONCE)


def _defaults(context: ArmContext, target: ActionTarget) -> Body:
    """Return the members that a machine has unless a client wrote others."""
    machine, resource = target.machine, target.resource
    return {
        "name": machine.name,
        "id": context.arm_id(MACHINE, target.group, machine.name),
        "type": MACHINE,
        "location": context.cloud.location,
        **({"tags": dict(machine.tags)} if machine.tags else {}),
        **({"zones": [machine.zone]} if machine.zone else {}),
        **({"etag": documents.etag(resource)} if resource else {}),
        "properties": documents.merge(
            views.default_properties(context.cloud, machine),
            disks.of_flexible_instance(context, target),
        ),
    }


def _owner(context: ArmContext, target: ActionTarget) -> Body:
    """Return the reference of a machine to its availability set or scale set, if it has one."""
    if target.scale_set:
        owner = context.arm_id(SCALE_SET, target.group, target.scale_set.name)
        return {"virtualMachineScaleSet": {"id": owner}}
    if target.scope.kind is ScopeKind.AVAILABILITY_SET:
        name = target.scope.id.rpartition(":")[2]  # of as:{group}:{name}
        return {"availabilitySet": {"id": context.arm_id(AVAILABILITY_SET, target.group, name)}}
    return {}


async def _of_rows(context: ArmContext, rows: Sequence[Resource]) -> list[Body]:
    return await _documents(context, await targets.machines_of(context, rows))


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    view = "instanceView" in parse_expand(request, _EXPANDED)
    (shown,) = await _documents(context, [target], view=view)
    return json_response(shown)


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    rows, instances, token = await targets.with_instances(context, request, MACHINE)
    view = (
        "instanceView" in parse_expand(request, _EXPANDED)
        or request.query("statusonly").lower() == "true"
    )
    machines = [*await targets.machines_of(context, rows), *instances]
    value = await _documents(context, machines, view=view)
    return list_response(request, value, token, fields=_FIELDS)


async def _reapply(context: ArmContext, request: ArmRequest) -> Response:
    """Do nothing: the state of a machine is always the one that was written."""
    await targets.find_machine(context, request.group, request.name)
    return Response(b"", 200)


TYPE = ResourceType(
    name=MACHINE,
    purpose="is restarted, redeployed, evicted, ... and told before",
    plan=_plan,
    merges=True,
    documents=_of_rows,
    put=_put,
    get=_get,
    list=_list,
    remove=actions.delete,
    exists=targets.find_any,
    actions={**actions.HANDLERS, "reapply": _reapply},
    views={"instanceview": actions.show_view, "vmsizes": images.list_sizes},
    refused={
        "assesspatches": actions.NO_ACCESS,
        "capture": "A machine here has no disk to make an image of.",
        "converttomanageddisks": "All disks are managed.",
        "generalize": "A machine here has no disk to make an image of.",
        "installpatches": actions.NO_ACCESS,
        "retrievebootdiagnosticsdata": "A machine here writes no boot diagnostics.",
        "runcommand": actions.NO_ACCESS,
    },
)

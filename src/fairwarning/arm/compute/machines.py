"""Virtual machines: `Microsoft.Compute/virtualMachines` (C1)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.compute import (
    actions,
    availability,
    disks,
    images,
    machine_disks,
    machine_listing,
    machine_model,
    profile,
    set_network,
    targets,
    views,
)
from fairwarning.arm.compute.profile import MACHINE_PROFILE
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.azure_id import parse_id
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.odata import RESOURCE_FIELDS, Field
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.network import interfaces
from fairwarning.arm.types import documents, handlers, registered, writing
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import AVAILABILITY_SET, INSTANCE, MACHINE, SCALE_SET
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite, WriteResult
from fairwarning.core.commands import (
    AddMachines,
    Command,
    Configure,
    CreateScope,
    JoinSet,
    UpdateMachine,
    Write,
)
from fairwarning.core.joining import group_with_room
from fairwarning.core.model import Machine, Priority, Resource, Scope, ScopeKind
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
_OWNERS = {AVAILABILITY_SET: "availabilitySet", SCALE_SET: "virtualMachineScaleSet"}


# --- Writing --------------------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    """Create a machine, or change its mutable properties."""
    writing.check_name(request.name)
    write = await writing.parse_write(context, request, request.id)
    profile.check_api_version(write.body, write.version, MACHINE_PROFILE)
    if instance := await targets.find_flexible_instance(context, request.group, request.name):
        result = await _put_instance(write, instance)
    else:
        result = await writing.write_resource(write, partial(registered.plan, TYPE))
    target = await targets.find_machine(context, request.group, request.name)
    (shown,) = await _documents(context, [target])
    return handlers.write_response(context, request, result, shown)


async def _put_instance(write: ResourceWrite, target: ActionTarget) -> WriteResult:
    """Change an instance of a Flexible set; its body is stored as that of the instance."""
    assert target.scale_set is not None
    if write.must_be_new:
        raise writing.precondition_failed(write.name)
    name = f"{target.scale_set.name}/{target.machine.instance}"

    async def plan(write: ResourceWrite, body: Body) -> DesiredResource:
        return await _change(write, replace(target, resource=write.existing), _normalize(body))

    id_ = replace(write.id, kind=INSTANCE, name=name)
    result = await writing.write_resource(replace(write, id=id_, must_exist=False), plan)
    return replace(result, created=False)


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    body = _normalize(body)
    if write.existing is None:
        desired = await _create(write, body)
    else:
        target = await targets.find_machine(write.context, write.group.name, write.existing.name)
        desired = await _change(write, target, body)
    return await machine_disks.attach(write, desired)


def _normalize(body: Body) -> Body:
    return profile.normalize(documents.without_read_only(body), MACHINE_PROFILE)


async def _create(write: ResourceWrite, body: Body) -> DesiredResource:
    context, group = write.context, write.group
    if naming := await targets.find_naming_set(context, group.name, write.name):
        text = f"Names such as '{write.name}' are for the instances of the set '{naming.name}'."
        raise ArmError("Conflict", text, 409)
    subnet, address = await interfaces.address_of_machine(context, body)
    machine = changed(machine_model.parse_machine(write.name, body), address=address, subnet=subnet)
    if await _owner(write, body, SCALE_SET):
        return await _join(write, body, machine)
    if resource := await _owner(write, body, AVAILABILITY_SET):
        scope = await context.scope(resource)
        if machine.priority is Priority.SPOT:
            text = "Azure Spot Virtual Machine is not supported in Availability Set."
            raise ArmError("AzureSpotVMNotSupportedInAvailabilitySet", text)
        if profile.with_policy(scope.rules, body) != scope.rules:
            _check_standalone(scope)
        placed = availability.place(machine, resource, scope)
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


async def _join(write: ResourceWrite, body: Body, machine: Machine) -> DesiredResource:
    """Add a new machine to the Flexible set that it names."""
    if await _owner(write, body, AVAILABILITY_SET):
        text = "A machine is in an availability set or in a scale set, not in both."
        raise ArmError("InvalidParameter", text)
    resource = await _owner(write, body, SCALE_SET)
    assert resource is not None
    scale_set = await write.context.scale_set(resource)
    if not scale_set.flexible:
        text = (
            f"The machine cannot join the scale set '{resource.name}': only sets with the "
            "orchestration mode Flexible have machines with names of their own."
        )
        raise ArmError("OperationNotAllowed", text, 409)
    if profile.with_policy(scale_set.rules, body) != scale_set.rules:
        raise _policy_of_owner()
    groups = {scope.id: scope for scope in await write.context.placement_groups(scale_set)}
    scope = group_with_room(scale_set, groups)
    join = JoinSet(set=scale_set.id, machine=machine, scope=scope, resource=write.store_id)
    return DesiredResource(body, (join,), scope=scope, machine=write.name)


async def _owner(write: ResourceWrite, body: Body, kind: str) -> Resource | None:
    """Return the availability set or scale set that a body names; None if it names none."""
    path = f"properties.{_OWNERS[kind]}.id"
    text = typed_value(body, path, str)
    owner = parse_id(text)
    if owner is None:
        return None
    if owner.group.lower() != write.id.group.lower():
        raise documents.invalid_value(path, text, f"the id of a {kind} in the same resource group")
    return await write.context.get_id(owner)


async def _change(write: ResourceWrite, target: ActionTarget, body: Body) -> DesiredResource:
    context, scope, machine = write.context, target.scope, target.machine
    defaults, before = _defaults(context, target), documents.stored_body(target.resource)
    before, after = (documents.merge(defaults, each) for each in (before, body))
    updated = machine_model.parse_machine(machine.name, after)
    machine_model.check_immutable(machine_model.parse_machine(machine.name, before), updated)
    owners = {
        f"{_OWNERS[kind]}.id": (own.lower(), (typed_value(body, path, str) or own).lower())
        for kind, own in _owner_ids(context, target).items()
        for path in (f"properties.{_OWNERS[kind]}.id",)
    }
    locations = {"location": (writing.location_of(before), writing.location_of(after))}
    writing.refuse_changes({**locations, **owners})
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
        _check_standalone(scope)
        commands.append(Configure(scope=scope.id, rules=rules))
    return DesiredResource(body, tuple(commands), scope=scope.id, machine=machine.name)


def _check_standalone(scope: Scope) -> None:
    if scope.kind is not ScopeKind.STANDALONE:
        raise _policy_of_owner()


def _policy_of_owner() -> ArmError:
    text = "Set scheduledEventsPolicy on the availability set or scale set of the machine instead."
    return ArmError("OperationNotAllowed", text, 409)


# --- Reading --------------------------------------------------------------------------------------


async def _documents(
    context: ArmContext, page: Sequence[ActionTarget], *, view: bool = False
) -> list[Body]:
    """Return machines in Azure's form; those of Flexible sets with their interfaces."""
    links = {
        (target.scope.id, target.machine.name): set_network.links(context, target, network.owner)
        for target, network in await set_network.of_instances(context, page)
    }
    return [
        _document(context, target, links.get((target.scope.id, target.machine.name)), view=view)
        for target in page
    ]


def _document(
    context: ArmContext, target: ActionTarget, links: list[Body] | None, *, view: bool
) -> Body:
    machine, scope = target.machine, target.scope
    computed = views.read_only_properties(scope, machine)
    for kind, owner in _owner_ids(context, target).items():
        if owner:
            computed[_OWNERS[kind]] = {"id": owner}
    if view:
        computed["instanceView"] = views.instance_view(scope, machine, context.fleet.clock.now())
    own = documents.stored_body(target.resource)
    for path in _OF_INSTANCES:
        own = documents.without(own, *path)
    defaults = _defaults(context, target)
    if links:
        defaults["properties"]["networkProfile"] = {"networkInterfaces": links}
    body = documents.merge(defaults, own)
    return documents.merge(profile.fill_defaults(body, MACHINE_PROFILE), {"properties": computed})


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


def _owner_ids(context: ArmContext, target: ActionTarget) -> dict[str, str]:
    """Return the Azure ids of the machine's availability set and scale set; "" for none."""
    group, scope, scale_set = target.group, target.scope, target.scale_set
    in_set = scope.kind is ScopeKind.AVAILABILITY_SET
    name = availability.name_of(scope) if in_set else ""
    return {
        AVAILABILITY_SET: context.arm_id(AVAILABILITY_SET, group, name) if name else "",
        SCALE_SET: context.arm_id(SCALE_SET, group, scale_set.name) if scale_set else "",
    }


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    view = "instanceView" in parse_expand(request, _EXPANDED)
    (shown,) = await _documents(context, [target], view=view)
    return json_response(shown)


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await machine_listing.list_machines(context, request, request.id.group)
    view = (
        "instanceView" in parse_expand(request, _EXPANDED)
        or request.query("statusonly").lower() == "true"
    )
    value = await _documents(context, page, view=view)
    return list_response(request, value, token, fields=_FIELDS)


# --- Actions --------------------------------------------------------------------------------------


async def _reapply(context: ArmContext, request: ArmRequest) -> Response:
    """Accept the request: the state of a machine is always the one that was written."""
    resource = (await targets.find_machine(context, request.group, request.name)).resource
    if resource is None:  # an instance of a Flexible set, which no client has written
        return Response(b"", 200)
    command = Write(
        resource=resource.id,
        body=resource.body,
        group=resource.group,
        name=resource.name,
        at=resource.version,
        scope=resource.scope,
        machine=resource.machine,
        uses=resource.uses,
        owns=resource.owns,
        operation=new_operation(),
        actor=request.actor,
    )
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


TYPE = ResourceType(
    name=MACHINE,
    purpose="is restarted, redeployed, evicted, ... and told before",
    versions="compute",
    plan=_plan,
    merges=True,
    put=_put,
    get=_get,
    list=_list,
    remove=actions.delete,
    exists=targets.exists,
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

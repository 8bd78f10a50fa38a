"""Virtual machines: `Microsoft.Compute/virtualMachines` (C1)."""

import re
from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.odata import RESOURCE_FIELDS, Field
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import (
    attachments,
    availability,
    disks,
    documents,
    machine_items,
    machine_listing,
    machine_model,
    profile,
    targets,
    views,
    writing,
)
from fairwarning.arm.resources.documents import typed_value
from fairwarning.arm.resources.profile import MACHINE_PROFILE
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
from fairwarning.core.commands import (
    AddMachines,
    Command,
    Configure,
    CreateScope,
    JoinSet,
    Operate,
    UpdateMachine,
)
from fairwarning.core.joining import group_with_room
from fairwarning.core.model import (
    Machine,
    Priority,
    Scope,
    ScopeKind,
)
from fairwarning.core.record import changed
from fairwarning.service import resources
from fairwarning.service.resources import AVAILABILITY_SET, INSTANCE, MACHINE, SCALE_SET, Resource

_EXPANDED = ("instanceView", "userData", "resiliencyView")  # there is never user data
_FIELDS = {
    **RESOURCE_FIELDS,
    "virtualMachineScaleSet/id": Field(
        lambda document: [document["properties"].get("virtualMachineScaleSet", {}).get("id", "")]
    ),
}
"""The fields of a `$filter` of machines."""
_OWNER = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/(?P<kind>[^/]+/[^/]+)"
    r"/(?P<name>[^/]+)/?",
    re.IGNORECASE | re.ASCII,
)
_OF_INSTANCES = (("sku",), ("properties", "protectionPolicy"))
"""Members of an instance that a machine does not have."""
_OWNERS = {AVAILABILITY_SET: "availabilitySet", SCALE_SET: "virtualMachineScaleSet"}


# --- Writing --------------------------------------------------------------------------------------


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create a machine, or change its mutable properties."""
    write = writing.normalized(MACHINE, write)
    profile.check_api_version(write.body, write.version, MACHINE_PROFILE)
    instance = await targets.find_flexible_instance(context, write.group, write.name)
    if instance:
        return await _put_instance(context, write, instance)

    async def plan(existing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        body = _normalize(body)
        if existing is None:
            desired = await _create(context, write, body, group)
        else:
            target = await targets.find_machine(context, existing.group, existing.name)
            desired = await _change(context, target, body)
        referrer = attachments.referrer_of(context, group, write, existing)
        return await attachments.attach(referrer, group, desired)

    resource, created, operation = await writing.write_resource(context, MACHINE, write, plan)
    target = await targets.find_machine(context, write.group, resource.name)
    body = document(context, target)
    await machine_items.add_extensions(context, [(target, body)])
    return WriteResult(resource, body, created, operation)


async def _put_instance(
    context: ArmContext, write: ResourceWrite, target: ActionTarget
) -> WriteResult:
    """Change an instance of a Flexible set; its body is stored as that of the instance."""
    assert target.scale_set is not None
    name = f"{target.scale_set.name}/{target.machine.instance}"
    if write.must_be_new:
        raise ArmError("PreconditionFailed", f"The machine '{write.name}' already exists.", 412)

    async def plan(existing: Resource | None, body: Body, _group: Resource) -> DesiredResource:
        return await _change(context, replace(target, resource=existing), _normalize(body))

    resource, _, operation = await writing.write_resource(
        context, INSTANCE, replace(write, name=name, must_exist=False), plan
    )
    target = await targets.find_machine(context, write.group, write.name)
    result = document(context, target)
    await machine_items.add_extensions(context, [(target, result)])
    return WriteResult(resource, result, created=False, operation=operation)


def _normalize(body: Body) -> Body:
    return profile.normalize(documents.without_read_only(body), MACHINE_PROFILE)


async def _create(
    context: ArmContext, write: ResourceWrite, body: Body, group: Resource
) -> DesiredResource:
    writing.check_location(body)
    if naming := await targets.find_naming_set(context, write.group, write.name):
        text = f"Names such as '{write.name}' are for the instances of the set '{naming.name}'."
        raise ArmError("Conflict", text, 409)
    referrer = attachments.referrer_of(context, group, write)
    subnet, address = await attachments.address_of(referrer, body)
    machine = changed(machine_model.parse_machine(write.name, body), address=address, subnet=subnet)
    if await _owner(context, write, body, SCALE_SET):
        return await _join(context, write, body, machine)
    if resource := await _owner(context, write, body, AVAILABILITY_SET):
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


async def _join(
    context: ArmContext, write: ResourceWrite, body: Body, machine: Machine
) -> DesiredResource:
    """Add a new machine to the Flexible set that it names."""
    if await _owner(context, write, body, AVAILABILITY_SET):
        text = "A machine is in an availability set or in a scale set, not in both."
        raise ArmError("InvalidParameter", text)
    resource = await _owner(context, write, body, SCALE_SET)
    assert resource is not None
    scale_set = await context.scale_set(resource)
    if not scale_set.flexible:
        text = (
            f"The machine cannot join the scale set '{resource.name}': only sets with the "
            "orchestration mode Flexible have machines with names of their own."
        )
        raise ArmError("OperationNotAllowed", text, 409)
    if profile.with_policy(scale_set.rules, body) != scale_set.rules:
        raise _policy_of_owner()
    groups = {scope.id: scope for scope in await targets.placement_groups(context, scale_set)}
    scope = group_with_room(scale_set, groups)
    own = resources.resource_id(MACHINE, write.group, write.name)
    join = JoinSet(set=scale_set.id, machine=machine, scope=scope, resource=own)
    return DesiredResource(body, (join,), scope=scope, machine=write.name)


async def _owner(
    context: ArmContext, write: ResourceWrite, body: Body, kind: str
) -> Resource | None:
    """Return the availability set or scale set that a body names; None if it names none."""
    path = f"properties.{_OWNERS[kind]}.id"
    owner = typed_value(body, path, str)
    if owner is None:
        return None
    matched = _OWNER.fullmatch(owner)
    expected = (write.group.lower(), kind.lower())
    if matched is None or (matched["group"].lower(), matched["kind"].lower()) != expected:
        raise documents.invalid_value(path, owner, f"the id of a {kind} in the same resource group")
    return await context.get(kind, write.group, matched["name"])


async def _change(context: ArmContext, target: ActionTarget, body: Body) -> DesiredResource:
    scope, machine = target.scope, target.machine
    defaults, stored = _defaults(context, target), documents.stored_body(target.resource)
    before, after = (documents.merge(defaults, b) for b in (stored, body))
    updated = machine_model.parse_machine(machine.name, after)
    machine_model.check_immutable(machine_model.parse_machine(machine.name, before), updated)
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")
    _check_owner(context, target, body)
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


def _check_owner(context: ArmContext, target: ActionTarget, body: Body) -> None:
    for kind, current in _owner_ids(context, target).items():
        requested = typed_value(body, f"properties.{_OWNERS[kind]}.id", str)
        if requested is not None and requested.lower() != current.lower():
            writing.refuse_change(f"{_OWNERS[kind]}.id")


def _check_standalone(scope: Scope) -> None:
    if scope.kind is not ScopeKind.STANDALONE:
        raise _policy_of_owner()


def _policy_of_owner() -> ArmError:
    text = "Set scheduledEventsPolicy on the availability set or scale set of the machine instead."
    return ArmError("OperationNotAllowed", text, 409)


# --- Reading --------------------------------------------------------------------------------------


def document(context: ArmContext, target: ActionTarget, *, view: bool = False) -> Body:
    """Return a machine in Azure's form."""
    machine, scope = target.machine, target.scope
    computed = views.read_only_properties(scope, machine)
    for kind, owner in _owner_ids(context, target).items():
        if owner:
            computed[_OWNERS[kind]] = {"id": owner}
    if view:
        computed["instanceView"] = views.instance_view(scope, machine, context.fleet.clock.now())
    stored = documents.stored_body(target.resource)
    for path in _OF_INSTANCES:
        stored = documents.without(stored, *path)
    body = documents.merge(_defaults(context, target), stored)
    return documents.merge(profile.fill_defaults(body, MACHINE_PROFILE), {"properties": computed})


def _defaults(context: ArmContext, target: ActionTarget) -> Body:
    """Return the members that a machine has unless a client wrote others."""
    machine, resource = target.machine, target.resource
    return {
        "name": machine.name,
        "id": context.arm_id(MACHINE, _group(target), machine.name),
        "type": MACHINE,
        "location": context.cloud.location,
        **({"tags": dict(machine.tags)} if machine.tags else {}),
        **({"zones": [machine.zone]} if machine.zone else {}),
        **({"etag": writing.etag(resource)} if resource else {}),
        "properties": documents.merge(
            views.default_properties(context.cloud, machine),
            disks.of_flexible_instance(context, target, _group(target)),
        ),
    }


def _group(target: ActionTarget) -> str:
    return target.resource.group if target.resource else target.scope.group


def _owner_ids(context: ArmContext, target: ActionTarget) -> dict[str, str]:
    """Return the Azure ids of the machine's availability set and scale set; "" for none."""
    group, scope, scale_set = _group(target), target.scope, target.scale_set
    in_set = scope.kind is ScopeKind.AVAILABILITY_SET
    name = availability.name_of(scope) if in_set else ""
    return {
        AVAILABILITY_SET: context.arm_id(AVAILABILITY_SET, group, name) if name else "",
        SCALE_SET: context.arm_id(SCALE_SET, group, scale_set.name) if scale_set else "",
    }


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    view = "instanceView" in parse_expand(request, _EXPANDED)
    body = document(context, target, view=view)
    await machine_items.add_extensions(context, [(target, body)])
    return json_response(body)


async def _view(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    view = views.instance_view(target.scope, target.machine, context.fleet.clock.now())
    return json_response({**view, **await machine_items.extension_views(context, target)})


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    group = request.params.get("group", "")
    page, token = await machine_listing.list_machines(context, request, group)
    view = (
        "instanceView" in parse_expand(request, _EXPANDED)
        or request.query("statusonly").lower() == "true"
    )
    value = [document(context, target, view=view) for target in page]
    await machine_items.add_extensions(context, zip(page, value, strict=True))
    return list_response(context, request, value, token, fields=_FIELDS)


# --- Actions --------------------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    return write_response(request, context, await put(context, await writing.parse_write(request)))


async def _act(kind: type[Operate], context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    return await targets.submit_action(context, request, target, kind)


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    try:
        target = await targets.find_machine(context, request.group, request.name)
    except ArmError as error:
        if error.code != "ResourceNotFound":
            raise
        return await writing.no_content(context, request)
    return await targets.delete(context, request, target)


async def _evict(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    return await targets.evict(context, request, target)


async def _maintain(context: ArmContext, request: ArmRequest) -> Response:
    return await targets.maintain(
        context, request, [await targets.find_machine(context, request.group, request.name)]
    )


_COLLECTION = f"{COMPUTE}/virtualMachines"
_ITEM = f"{_COLLECTION}/{{name}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/virtualMachines", _list),
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("PATCH", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
    Route("GET", f"{_ITEM}/instanceView", _view),
    Route("POST", f"{_ITEM}/simulateEviction", _evict),
    Route("POST", f"{_ITEM}/performMaintenance", _maintain),
    *(Route("POST", f"{_ITEM}/{name}", partial(_act, kind)) for name, kind in ACTIONS.items()),
)

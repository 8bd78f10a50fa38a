"""Virtual machines: `Microsoft.Compute/virtualMachines` (C1)."""

import re
from collections.abc import Iterable
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import (
    availability,
    documents,
    machine_items,
    profile,
    subnets,
    targets,
    views,
    writing,
)
from fairwarning.arm.resources.documents import Choices, choice, tags_of, typed_value
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
    Operate,
    UpdateMachine,
)
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    Priority,
    Scope,
    ScopeKind,
)
from fairwarning.core.record import changed
from fairwarning.service.resources import AVAILABILITY_SET, MACHINE, SCALE_SET, Resource

PRIORITIES = {"Regular": Priority.REGULAR, "Spot": Priority.SPOT, "Low": Priority.SPOT}
EVICTIONS = {policy.value: policy for policy in EvictionPolicy}
_CHOICES: Choices = {"properties.priority": PRIORITIES, "properties.evictionPolicy": EVICTIONS}
_SET = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute"
    r"/availabilitySets/(?P<name>[^/]+)/?",
    re.IGNORECASE | re.ASCII,
)


# --- Writing --------------------------------------------------------------------------------------


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create a machine, or change its mutable properties."""
    profile.check_api_version(write.body, write.version, MACHINE_PROFILE)

    async def plan(existing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        body = documents.normalize_case(
            profile.normalize(documents.without_read_only(body), MACHINE_PROFILE), _CHOICES
        )
        if existing is None:
            return await _create(context, write, body, group)
        return await _change(context, existing, body)

    resource, created, operation = await writing.write_resource(context, MACHINE, write, plan)
    target = await targets.find_machine(context, write.group, resource.name)
    body = document(context, target)
    await machine_items.add_extensions(context, [(target, body)])
    return WriteResult(resource, body, created, operation)


async def _create(
    context: ArmContext, write: ResourceWrite, body: Body, group: Resource
) -> DesiredResource:
    writing.check_location(body)
    if await targets.find_flexible_instance(context, write.group, write.name):
        text = f"'{write.name}' is an instance of a scale set; write it as an instance of that set."
        raise ArmError("Conflict", text, 409)
    subnet, address = await subnets.of_machine(context, body, group.name)
    machine = changed(_machine(write.name, body), address=address, subnet=subnet)
    if owner := typed_value(body, "properties.availabilitySet.id", str):
        resource = await _availability_set(context, write, owner)
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


def _machine(name: str, body: Body) -> Machine:
    priority = choice(body, "properties.priority", PRIORITIES, Priority.REGULAR)
    check_eviction(body, "properties", priority)
    return Machine(
        name=name,
        host_name=typed_value(body, "properties.osProfile.computerName", str, ""),
        size=typed_value(body, "properties.hardwareProfile.vmSize", str, ""),
        priority=priority,
        eviction=choice(body, "properties.evictionPolicy", EVICTIONS, EvictionPolicy.DEALLOCATE),
        terminate_seconds=profile.terminate_seconds(body, MACHINE_PROFILE),
        zone=zone_of(body),
        tags=tags_of(body),
    )


def check_eviction(body: Body, at: str, priority: Priority) -> None:
    """Refuse an eviction policy on a machine that is not a Spot machine."""
    if priority is not Priority.SPOT and typed_value(body, f"{at}.evictionPolicy", str) is not None:
        text = "Eviction policy can be set only on Azure Spot Virtual Machines."
        raise ArmError("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", text)


def zone_of(body: Body) -> str:
    """Return the first zone of a body; "" without zones."""
    zones = typed_value(body, "zones", list, [])
    if not all(isinstance(zone, str) for zone in zones):
        raise documents.invalid_value("zones", zones, "a list of strings")
    return zones[0] if zones else ""


async def _availability_set(context: ArmContext, write: ResourceWrite, owner: str) -> Resource:
    matched = _SET.fullmatch(owner)
    if matched is None or matched["group"].lower() != write.group.lower():
        text = "the id of an availability set in the same resource group"
        raise documents.invalid_value("properties.availabilitySet.id", owner, text)
    return await context.get(AVAILABILITY_SET, write.group, matched["name"])


async def _change(context: ArmContext, existing: Resource, body: Body) -> DesiredResource:
    scope = await context.scope(existing)
    machine = scope.machines.get(existing.machine)
    if machine is None:
        raise errors.resource_not_found(MACHINE, existing.name, existing.group)
    defaults = _defaults(context, ActionTarget(scope, machine, resource=existing))
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    updated = _machine(existing.name, after)
    _check_immutable(_machine(existing.name, before), updated)
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")
    _check_set(context, scope, existing, body)
    update = UpdateMachine(
        scope=scope.id,
        machine=existing.machine,
        terminate_seconds=updated.terminate_seconds,
        size=updated.size,
        tags=updated.tags if "tags" in body else None,
    )
    commands: list[Command] = [update]
    rules = profile.with_policy(scope.rules, body)
    if rules != scope.rules:
        _check_standalone(scope)
        commands.append(Configure(scope=scope.id, rules=rules))
    return DesiredResource(body, tuple(commands), scope=existing.scope, machine=existing.machine)


def _check_immutable(before: Machine, after: Machine) -> None:
    for name, old, new in (
        ("priority", before.priority, after.priority),
        ("evictionPolicy", before.eviction, after.eviction),
        ("zones", before.zone, after.zone),
        ("osProfile.computerName", before.host_name, after.host_name),
    ):
        if old != new:
            writing.refuse_change(name)


def _check_set(context: ArmContext, scope: Scope, existing: Resource, body: Body) -> None:
    requested = typed_value(body, "properties.availabilitySet.id", str)
    current = _set_id(context, scope, existing.group)
    if requested is not None and requested.lower() != current.lower():
        writing.refuse_change("availabilitySet.id")


def _check_standalone(scope: Scope) -> None:
    if scope.kind is not ScopeKind.STANDALONE:
        text = "Set scheduledEventsPolicy on the availability set of the machine instead."
        raise ArmError("OperationNotAllowed", text, 409)


# --- Reading --------------------------------------------------------------------------------------


def document(context: ArmContext, target: ActionTarget, *, view: bool = False) -> Body:
    """Return a machine in Azure's form."""
    machine, scope = target.machine, target.scope
    computed = views.read_only_properties(scope, machine)
    group = _group(target)
    if target.scale_set:
        name = target.scale_set.name
        computed["virtualMachineScaleSet"] = {"id": context.arm_id(SCALE_SET, group, name)}
    if scope.kind is ScopeKind.AVAILABILITY_SET:
        computed["availabilitySet"] = {"id": _set_id(context, scope, group)}
    if view:
        computed["instanceView"] = views.instance_view(scope, machine, context.fleet.clock.now())
    body = documents.merge(_defaults(context, target), documents.stored_body(target.resource))
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
        "properties": views.default_properties(context.cloud, machine),
    }


def _group(target: ActionTarget) -> str:
    return target.resource.group if target.resource else target.scope.group


def _set_id(context: ArmContext, scope: Scope, group: str) -> str:
    """Return the Azure id of a scope's availability set; "" for another kind of scope."""
    if scope.kind is not ScopeKind.AVAILABILITY_SET:
        return ""
    return context.arm_id(AVAILABILITY_SET, group, availability.name_of(scope))


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    view = "instanceview" in request.query("$expand").lower()
    body = document(context, target, view=view)
    await machine_items.add_extensions(context, [(target, body)])
    return json_response(body)


async def _view(context: ArmContext, request: ArmRequest) -> Response:
    target = await targets.find_machine(context, request.group, request.name)
    view = views.instance_view(target.scope, target.machine, context.fleet.clock.now())
    return json_response({**view, **await machine_items.extension_views(context, target)})


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, MACHINE, request.params.get("group", ""))
    view = (
        "instanceview" in request.query("$expand").lower()
        or request.query("statusonly").lower() == "true"
    )
    rows = await _targets(context, page)
    value = [document(context, target, view=view) for target in rows]
    await machine_items.add_extensions(context, zip(rows, value, strict=True))
    return json_response({"value": value, **context.next_link(request, token)})


async def _targets(context: ArmContext, page: Iterable[Resource]) -> list[ActionTarget]:
    page = list(page)
    scopes = await context.scopes(page)
    return [
        ActionTarget(scope, machine, resource=resource)
        for resource in page
        if (scope := scopes.get(resource.scope))
        and (machine := scope.machines.get(resource.machine))
    ]


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

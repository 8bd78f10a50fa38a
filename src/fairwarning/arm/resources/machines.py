"""Virtual machines: `Microsoft.Compute/virtualMachines` (C1)."""

import re
from collections.abc import Iterable
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, answer
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import availability, documents, profile, targets, views, writing
from fairwarning.arm.resources.documents import Words, strict, tags_of, word
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
from fairwarning.service.resources import AVAILABILITY_SET, MACHINE, SCALE_SET, Resource

PRIORITIES = {"Regular": Priority.REGULAR, "Spot": Priority.SPOT, "Low": Priority.SPOT}
EVICTIONS = {one.value: one for one in EvictionPolicy}
_WORDS: Words = {"properties.priority": PRIORITIES, "properties.evictionPolicy": EVICTIONS}
_SET = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute"
    r"/availabilitySets/(?P<name>[^/]+)/?",
    re.IGNORECASE | re.ASCII,
)


# --- Writing --------------------------------------------------------------------------------------


async def put(plane: ArmContext, ask: ResourceWrite) -> WriteResult:
    """Create a machine, or change what may be changed of it."""
    profile.check_versions(ask.body, ask.version, MACHINE_PROFILE)

    async def plan(standing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        body = documents.spelt(profile.spelt(documents.kept(body), MACHINE_PROFILE), _WORDS)
        if standing is None:
            return await _creation(plane, ask, body, group)
        return await _change(plane, standing, body)

    resource, created, operation = await writing.write(plane, MACHINE, ask, plan)
    target = await targets.machine(plane, ask.group, resource.name)
    return WriteResult(resource, document(plane, target), created, operation)


async def _creation(
    plane: ArmContext, ask: ResourceWrite, body: Body, group: Resource
) -> DesiredResource:
    writing.check_location(body)
    if await targets.flexible(plane, ask.group, ask.name):
        text = f"'{ask.name}' is an instance of a scale set; it is written there."
        raise ArmError("Conflict", text, 409)
    machine = _machine(ask.name, body)
    if owner := strict(body, "properties.availabilitySet.id", str):
        resource = await _availability_set(plane, ask, owner)
        scope = await plane.scope(resource)
        if machine.priority is Priority.SPOT:
            text = "Azure Spot Virtual Machine is not supported in Availability Set."
            raise ArmError("AzureSpotVMNotSupportedInAvailabilitySet", text)
        if profile.with_policy(scope.rules, body) != scope.rules:
            _check_alone(scope)
        placed = availability.placed(machine, resource, scope)
        add = AddMachines(scope=scope.id, machines=(placed,))
        return DesiredResource(body, (add,), scope=scope.id, machine=ask.name)
    name = f"{group.name}:{ask.name}"
    create = CreateScope(
        scope=name,
        kind=ScopeKind.STANDALONE,
        machines=(machine,),
        group=group.name,
        rules=profile.with_policy(plane.settings.rules, body),
    )
    return DesiredResource(body, (create,), scope=name, machine=ask.name)


def _machine(name: str, body: Body) -> Machine:
    priority = word(body, "properties.priority", PRIORITIES, Priority.REGULAR)
    check_eviction(body, "properties", priority)
    return Machine(
        name=name,
        host_name=strict(body, "properties.osProfile.computerName", str, ""),
        size=strict(body, "properties.hardwareProfile.vmSize", str, ""),
        priority=priority,
        eviction=word(body, "properties.evictionPolicy", EVICTIONS, EvictionPolicy.DEALLOCATE),
        terminate_seconds=profile.terminate_seconds(body, MACHINE_PROFILE),
        zone=zone_of(body),
        tags=tags_of(body),
    )


def check_eviction(body: Body, at: str, priority: Priority) -> None:
    """An eviction policy is for those that can be evicted."""
    if priority is not Priority.SPOT and strict(body, f"{at}.evictionPolicy", str) is not None:
        text = "Eviction policy can be set only on Azure Spot Virtual Machines."
        raise ArmError("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", text)


def zone_of(body: Body) -> str:
    """The first zone that is named."""
    zones = strict(body, "zones", list, [])
    if not all(isinstance(zone, str) for zone in zones):
        raise documents.wrong_value("zones", zones, "a list of strings")
    return zones[0] if zones else ""


async def _availability_set(plane: ArmContext, ask: ResourceWrite, owner: str) -> Resource:
    matched = _SET.fullmatch(owner)
    if matched is None or matched["group"].lower() != ask.group.lower():
        text = "the id of an availability set in the same resource group"
        raise documents.wrong_value("properties.availabilitySet.id", owner, text)
    return await plane.get(AVAILABILITY_SET, ask.group, matched["name"])


async def _change(plane: ArmContext, standing: Resource, body: Body) -> DesiredResource:
    scope = await plane.scope(standing)
    machine = scope.machines.get(standing.machine)
    if machine is None:
        raise errors.missing(MACHINE, standing.name, standing.group)
    granted = _granted(plane, ActionTarget(scope, machine, resource=standing))
    before, after = (documents.merged(granted, b) for b in (documents.written(standing), body))
    becomes = _machine(standing.name, after)
    _check_for_life(_machine(standing.name, before), becomes)
    if writing.location_of(before) != writing.location_of(after):
        writing.refuse_change("location")
    _check_set(plane, scope, standing, body)
    update = UpdateMachine(
        scope=scope.id,
        machine=standing.machine,
        terminate_seconds=becomes.terminate_seconds,
        size=becomes.size,
        tags=becomes.tags if "tags" in body else None,
    )
    follow: list[Command] = [update]
    rules = profile.with_policy(scope.rules, body)
    if rules != scope.rules:
        _check_alone(scope)
        follow.append(Configure(scope=scope.id, rules=rules))
    return DesiredResource(body, tuple(follow), scope=standing.scope, machine=standing.machine)


def _check_for_life(before: Machine, after: Machine) -> None:
    for name, was, becomes in (
        ("priority", before.priority, after.priority),
        ("evictionPolicy", before.eviction, after.eviction),
        ("zones", before.zone, after.zone),
        ("osProfile.computerName", before.host_name, after.host_name),
    ):
        if was != becomes:
            writing.refuse_change(name)


def _check_set(plane: ArmContext, scope: Scope, standing: Resource, body: Body) -> None:
    named = strict(body, "properties.availabilitySet.id", str)
    here = _set_path(plane, scope, standing.group)
    if named is not None and named.lower() != here.lower():
        writing.refuse_change("availabilitySet.id")


def _check_alone(scope: Scope) -> None:
    if scope.kind is not ScopeKind.STANDALONE:
        text = "Set scheduledEventsPolicy on the availability set that the machine is in."
        raise ArmError("OperationNotAllowed", text, 409)


# --- Reading --------------------------------------------------------------------------------------


def document(plane: ArmContext, target: ActionTarget, *, view: bool = False) -> Body:
    """A machine as Azure shows it."""
    machine, scope = target.machine, target.scope
    known = views.known(scope, machine)
    group = _group(target)
    if target.scale_set:
        name = target.scale_set.name
        known["virtualMachineScaleSet"] = {"id": plane.path(SCALE_SET, group, name)}
    if scope.kind is ScopeKind.AVAILABILITY_SET:
        known["availabilitySet"] = {"id": _set_path(plane, scope, group)}
    if view:
        known["instanceView"] = views.instance_view(scope, machine, plane.fleet.clock.now())
    body = documents.merged(_granted(plane, target), documents.written(target.resource))
    return documents.merged(profile.whole(body, MACHINE_PROFILE), {"properties": known})


def _granted(plane: ArmContext, target: ActionTarget) -> Body:
    """What a machine is where nobody wrote anything else."""
    machine, resource = target.machine, target.resource
    return {
        "name": machine.name,
        "id": plane.path(MACHINE, _group(target), machine.name),
        "type": MACHINE,
        "location": plane.cloud.location,
        **({"tags": dict(machine.tags)} if machine.tags else {}),
        **({"zones": [machine.zone]} if machine.zone else {}),
        **({"etag": writing.etag(resource)} if resource else {}),
        "properties": views.granted(plane.cloud, machine),
    }


def _group(target: ActionTarget) -> str:
    return target.resource.group if target.resource else target.scope.group


def _set_path(plane: ArmContext, scope: Scope, group: str) -> str:
    """The availability set that a scope is; none, if it is none."""
    if scope.kind is not ScopeKind.AVAILABILITY_SET:
        return ""
    return plane.path(AVAILABILITY_SET, group, availability.name_of(scope))


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    target = await targets.machine(plane, call.group, call.name)
    view = "instanceview" in call.query("$expand").lower()
    return answer(document(plane, target, view=view))


async def _view(plane: ArmContext, call: ArmRequest) -> Response:
    target = await targets.machine(plane, call.group, call.name)
    return answer(views.instance_view(target.scope, target.machine, plane.fleet.clock.now()))


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    found, token = await plane.page(call, MACHINE, call.params.get("group", ""))
    view = (
        "instanceview" in call.query("$expand").lower()
        or call.query("statusonly").lower() == "true"
    )
    shown = [document(plane, one, view=view) for one in await _targets(plane, found)]
    return answer({"value": shown, **plane.next_link(call, token)})


async def _targets(plane: ArmContext, found: Iterable[Resource]) -> list[ActionTarget]:
    found = list(found)
    scopes = await plane.scopes(found)
    return [
        ActionTarget(scope, machine, resource=one)
        for one in found
        if (scope := scopes.get(one.scope)) and (machine := scope.machines.get(one.machine))
    ]


# --- Doing ----------------------------------------------------------------------------------------


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    return write_response(call, plane, await put(plane, await writing.parse_write(call)))


async def _act(kind: type[Operate], plane: ArmContext, call: ArmRequest) -> Response:
    target = await targets.machine(plane, call.group, call.name)
    return await targets.act(plane, call, target, kind)


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    try:
        target = await targets.machine(plane, call.group, call.name)
    except ArmError as wrong:
        if wrong.code != "ResourceNotFound":
            raise
        return await writing.nothing(plane, call)
    return await targets.delete(plane, call, target)


async def _evict(plane: ArmContext, call: ArmRequest) -> Response:
    target = await targets.machine(plane, call.group, call.name)
    return await targets.evict(plane, call, target)


async def _maintain(plane: ArmContext, call: ArmRequest) -> Response:
    return await targets.maintain(
        plane, call, [await targets.machine(plane, call.group, call.name)]
    )


_ALL = f"{COMPUTE}/virtualMachines"
_ONE = f"{_ALL}/{{name}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/virtualMachines", _list),
    Route("GET", _ALL, _list),
    Route("GET", _ONE, _get),
    Route("PUT", _ONE, _put),
    Route("PATCH", _ONE, _put),
    Route("DELETE", _ONE, _delete),
    Route("GET", f"{_ONE}/instanceView", _view),
    Route("POST", f"{_ONE}/simulateEviction", _evict),
    Route("POST", f"{_ONE}/performMaintenance", _maintain),
    *(Route("POST", f"{_ONE}/{name}", partial(_act, kind)) for name, kind in ACTIONS.items()),
)

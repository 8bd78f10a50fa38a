"""Scale sets: `Microsoft.Compute/virtualMachineScaleSets` (C1, T1 to T4)."""

from collections import Counter
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.request import ArmRequest, Body, accepted, answer
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import documents, machines, profile, targets, views, writing
from fairwarning.arm.resources.documents import Words, strict, tags_of, word
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget, chosen
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
from fairwarning.core import limits
from fairwarning.core.commands import (
    Command,
    CreateSet,
    Delete,
    DeleteSet,
    Operate,
    OperateInstances,
    Reimage,
    Scale,
    UpdateSet,
    UpgradeInstances,
)
from fairwarning.core.errors import NotFound
from fairwarning.core.model import (
    EvictionPolicy,
    ImpactKind,
    Priority,
    ScaleInRule,
    ScaleSet,
    Scope,
    UpgradeMode,
    guid,
)
from fairwarning.service.resources import SCALE_SET, Resource

# Rolling is the platform's own upgrade, a part at a time; here all get the new model at once.
_UPGRADES = {
    "Manual": UpgradeMode.MANUAL,
    "Automatic": UpgradeMode.AUTOMATIC,
    "Rolling": UpgradeMode.AUTOMATIC,
}
_RULES = {one.value: one for one in ScaleInRule}
_MODES = {"Uniform": False, "Flexible": True}
_WORDS: Words = {
    "properties.upgradePolicy.mode": _UPGRADES,
    "properties.orchestrationMode": _MODES,
    f"{SET_PROFILE}.priority": machines.PRIORITIES,
    f"{SET_PROFILE}.evictionPolicy": machines.EVICTIONS,
}
_FAULT_DOMAINS = "properties.platformFaultDomainCount"
_FAULT_DOMAINS_MAX = 5


# --- Writing --------------------------------------------------------------------------------------


async def put(plane: ArmContext, ask: ResourceWrite) -> WriteResult:
    """Create a set, or merge something into what it is: `az vmss scale` sends its size alone."""
    profile.check_versions(ask.body, ask.version, SET_PROFILE)

    async def plan(standing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        # How many there are is known; a number that was once asked for must not come back.
        kept = documents.without(documents.kept(body), "sku", "capacity")
        kept = documents.spelt(profile.spelt(kept, SET_PROFILE), _WORDS)
        if standing is None:
            return _creation(plane, ask, kept, group)
        return await _change(plane, ask, standing, kept)

    resource, created, operation = await writing.write(plane, SCALE_SET, ask, plan)
    shown = await _document(plane, resource)
    return WriteResult(resource, shown, created, operation)


def _creation(
    plane: ArmContext, ask: ResourceWrite, body: Body, group: Resource
) -> DesiredResource:
    writing.check_location(body)
    priority = _priority(body)
    name = f"{group.name}:{ask.name}"
    create = CreateSet(
        set=name,
        name=ask.name,
        group=group.name,
        capacity=_capacity(ask.body) or 0,
        prefix=_prefix(body),
        terminate_seconds=profile.terminate_seconds(body, SET_PROFILE),
        upgrade=_upgrade(body),
        scale_in=_scale_in(body),
        priority=priority,
        eviction=_eviction(body),
        fault_domains=_fault_domains(body),
        rules=profile.with_policy(plane.settings.rules, body),
        size=strict(body, "sku.name", str, ""),
        zone=machines.zone_of(body),
        tags=tags_of(body),
        flexible=_flexible(body),
    )
    return DesiredResource(body, (create,), set=name)


async def _change(
    plane: ArmContext, ask: ResourceWrite, standing: Resource, body: Body
) -> DesiredResource:
    scale_set = await plane.scale_set(standing)
    granted = _granted(plane, scale_set)
    before, after = (documents.merged(granted, b) for b in (documents.written(standing), body))
    _check_for_life(before, after)
    rules = profile.with_policy(scale_set.rules, after)
    size = strict(after, "sku.name", str)
    update = UpdateSet(
        set=scale_set.id,
        terminate_seconds=profile.terminate_seconds(after, SET_PROFILE),
        upgrade=_upgrade(after),
        scale_in=_scale_in(after),
        rules=rules if rules != scale_set.rules else None,
        size=None if size == (scale_set.size or plane.cloud.size) else size,
        tags=tags_of(body) if "tags" in body else None,
        renewed=_model(before) != _model(after),
    )
    follow: list[Command] = [update]
    capacity = _capacity(ask.body)
    if capacity is not None:
        follow.append(Scale(set=scale_set.id, capacity=capacity, operation=ask.operation))
    return DesiredResource(body, tuple(follow), set=standing.set)


def _check_for_life(before: Body, after: Body) -> None:
    for name, was, becomes in (
        ("orchestrationMode", _flexible(before), _flexible(after)),
        ("priority", _priority(before), _priority(after)),
        ("zones", machines.zone_of(before), machines.zone_of(after)),
        ("platformFaultDomainCount", _fault_domains(before), _fault_domains(after)),
        ("evictionPolicy", _eviction(before), _eviction(after)),
        ("computerNamePrefix", _prefix(before), _prefix(after)),
        ("location", *(writing.location_of(body) for body in (before, after))),
    ):
        if was != becomes:
            writing.refuse_change(name)


def _model(body: Body) -> Body:
    """What an instance is made from; the notice of a delete is compared by itself."""
    found = strict(body, SET_PROFILE, dict, {})
    return {key: part for key, part in found.items() if key != "scheduledEventsProfile"}


def _capacity(body: Body) -> int | None:
    capacity: int | None = strict(body, "sku.capacity", int)
    if capacity is not None and not 0 <= capacity <= limits.SET_INSTANCES:
        text = f"a whole number from 0 to {limits.SET_INSTANCES}"
        raise documents.wrong_value("sku.capacity", capacity, text)
    return capacity


def _priority(body: Body) -> Priority:
    found: Priority = word(body, f"{SET_PROFILE}.priority", machines.PRIORITIES, Priority.REGULAR)
    machines.check_eviction(body, SET_PROFILE, found)
    return found


def _eviction(body: Body) -> EvictionPolicy:
    policy: EvictionPolicy = word(
        body, f"{SET_PROFILE}.evictionPolicy", machines.EVICTIONS, EvictionPolicy.DEALLOCATE
    )
    return policy


def _prefix(body: Body) -> str:
    prefix: str = strict(body, f"{SET_PROFILE}.osProfile.computerNamePrefix", str, "")
    return prefix


def _upgrade(body: Body) -> UpgradeMode:
    mode: UpgradeMode = word(body, "properties.upgradePolicy.mode", _UPGRADES, UpgradeMode.MANUAL)
    return mode


def _flexible(body: Body) -> bool:
    flexible: bool = word(body, "properties.orchestrationMode", _MODES, default=False)
    return flexible


def _scale_in(body: Body) -> ScaleInRule:
    rules = strict(body, "properties.scaleInPolicy.rules", list, [])
    named = {"rule": rules[0]} if rules else {}
    rule: ScaleInRule = word(named, "rule", _RULES, ScaleInRule.DEFAULT)
    return rule


def _fault_domains(body: Body) -> int:
    count: int = strict(body, _FAULT_DOMAINS, int, limits.FAULT_DOMAINS)
    if not 1 <= count <= _FAULT_DOMAINS_MAX:
        text = f"a whole number from 1 to {_FAULT_DOMAINS_MAX}"
        raise documents.wrong_value(_FAULT_DOMAINS, count, text)
    return count


# --- Reading --------------------------------------------------------------------------------------


def _granted(plane: ArmContext, scale_set: ScaleSet) -> Body:
    """What a set is where nobody wrote anything else."""
    model: Body = {
        "osProfile": {"computerNamePrefix": scale_set.prefix},
        "storageProfile": {"osDisk": {"osType": "Linux", "createOption": "FromImage"}},
        **profile.events_profile(scale_set.terminate_seconds),
    }
    if scale_set.priority is Priority.SPOT:
        model |= {"priority": "Spot", "evictionPolicy": scale_set.eviction.value}
    return {
        "location": plane.cloud.location,
        "sku": {"name": scale_set.size or plane.cloud.size, "tier": "Standard"},
        **({"tags": dict(scale_set.tags)} if scale_set.tags else {}),
        **({"zones": [scale_set.zone]} if scale_set.zone else {}),
        "properties": {
            "orchestrationMode": "Flexible" if scale_set.flexible else "Uniform",
            "upgradePolicy": {"mode": scale_set.upgrade.value},
            "scaleInPolicy": {"rules": [scale_set.scale_in.value]},
            "platformFaultDomainCount": scale_set.fault_domains,
            "overprovision": False,
            "virtualMachineProfile": model,
        },
    }


def document(
    plane: ArmContext, resource: Resource, scale_set: ScaleSet, placement: list[Scope]
) -> Body:
    """A set as Azure shows it."""
    busy = [impact.kind for scope in placement for impact in scope.impacts.values()]
    leaving = busy.count(ImpactKind.DELETE)
    state = "Deleting" if scale_set.deleting else "Updating" if busy else "Succeeded"
    known: Body = {
        "name": resource.name,
        "id": plane.path(SCALE_SET, resource.group, resource.name),
        "type": SCALE_SET,
        "etag": writing.etag(resource),
        "sku": {"capacity": sum(len(scope.machines) for scope in placement) - leaving},
        "properties": {
            "provisioningState": state,
            "uniqueId": guid("set", scale_set.id).lower(),
            "singlePlacementGroup": len(scale_set.groups) <= 1,
        },
    }
    body = documents.merged(_granted(plane, scale_set), documents.written(resource))
    return documents.merged(profile.whole(body, SET_PROFILE), known)


async def _document(plane: ArmContext, resource: Resource) -> Body:
    scale_set = await plane.scale_set(resource)
    return document(plane, resource, scale_set, await targets.groups(plane, scale_set))


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    return answer(await _document(plane, await plane.get(SCALE_SET, call.group, call.name)))


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    found, token = await plane.page(call, SCALE_SET, call.params.get("group", ""))
    shown = []
    for resource in found:
        if scale_set := await plane.fleet.reader.read(ScaleSet, resource.set):
            placement = await targets.groups(plane, scale_set)
            shown.append(document(plane, resource, scale_set, placement))
    return answer({"value": shown, **plane.next_link(call, token)})


async def _view(plane: ArmContext, call: ArmRequest) -> Response:
    """How many instances are how."""
    scale_set = await _scale_set(plane, call)
    counts: Counter[str] = Counter()
    for scope in await targets.groups(plane, scale_set):
        for machine in scope.machines.values():
            counts[f"ProvisioningState/{views.provisioning(scope, machine).lower()}"] += 1
            counts[f"PowerState/{machine.power.value}"] += 1
    summary = [{"code": code, "count": count} for code, count in sorted(counts.items())]
    done = views.status("ProvisioningState/succeeded", "Provisioning succeeded")
    return answer({"virtualMachine": {"statusesSummary": summary}, "statuses": [done]})


# --- Doing ----------------------------------------------------------------------------------------


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    ask = await writing.parse_write(call, operation=new_operation())
    return write_response(call, plane, await put(plane, ask))


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    resource = await plane.find(SCALE_SET, call.group, call.name)
    if resource is None:
        return await writing.nothing(plane, call)
    scale_set = await plane.scale_set(resource)
    if scale_set.deleting:
        return await targets.under_way(plane, call, scale_set.deleting)
    delete = DeleteSet(set=resource.set, operation=new_operation(), actor=call.actor)
    return accepted(call, await plane.fleet.submit(delete), plane.cloud.location)


async def _scale_set(plane: ArmContext, call: ArmRequest) -> ScaleSet:
    return await plane.scale_set(await plane.get(SCALE_SET, call.group, call.name))


async def _act(kind: type[Operate], plane: ArmContext, call: ArmRequest) -> Response:
    scale_set = await _scale_set(plane, call)
    command = OperateInstances(
        set=scale_set.id,
        action=kind,
        instances=await chosen(call, scale_set, needed=kind is Delete),
        operation=new_operation(),
        actor=call.actor,
    )
    return accepted(call, await plane.fleet.submit(command), plane.cloud.location)


async def _upgrade_instances(plane: ArmContext, call: ArmRequest) -> Response:
    """Bring instances to the present model: done at once (T3)."""
    scale_set = await _scale_set(plane, call)
    instances = await chosen(call, scale_set, needed=True)
    command = UpgradeInstances(set=scale_set.id, instances=instances, actor=call.actor)
    await plane.fleet.submit(command)
    return Response(b"", 200)


async def _maintain(plane: ArmContext, call: ArmRequest) -> Response:
    scale_set = await _scale_set(plane, call)
    instances = await chosen(call, scale_set)
    named = [
        ActionTarget(scope, machine, scale_set)
        for scope in await targets.groups(plane, scale_set)
        for machine in scope.machines.values()
        if (not machine.shielded if instances is None else machine.instance in instances)
    ]
    if instances is not None and len(named) < len(instances):
        raise NotFound("UnknownInstance", f"scale set '{call.name}' has not all of {instances}")
    return await targets.maintain(plane, call, named)


_ALL = f"{COMPUTE}/virtualMachineScaleSets"
_ONE = f"{_ALL}/{{name}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/virtualMachineScaleSets", _list),
    Route("GET", _ALL, _list),
    Route("GET", _ONE, _get),
    Route("PUT", _ONE, _put),
    Route("PATCH", _ONE, _put),
    Route("DELETE", _ONE, _delete),
    Route("GET", f"{_ONE}/instanceView", _view),
    Route("POST", f"{_ONE}/manualupgrade", _upgrade_instances),
    Route("POST", f"{_ONE}/performMaintenance", _maintain),
    Route("POST", f"{_ONE}/delete", partial(_act, Delete)),
    Route("POST", f"{_ONE}/reimageall", partial(_act, Reimage)),
    *(Route("POST", f"{_ONE}/{name}", partial(_act, kind)) for name, kind in ACTIONS.items()),
)

"""Scale sets: `Microsoft.Compute/virtualMachineScaleSets` (C1, T1 to T4)."""

from collections import Counter
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import (
    documents,
    machines,
    profile,
    subnets,
    targets,
    views,
    writing,
)
from fairwarning.arm.resources.documents import Choices, choice, tags_of, typed_value
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget, parse_instance_ids
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

# On Azure, Rolling upgrades the instances in batches; here all get the new model at once.
_UPGRADES = {
    "Manual": UpgradeMode.MANUAL,
    "Automatic": UpgradeMode.AUTOMATIC,
    "Rolling": UpgradeMode.AUTOMATIC,
}
_RULES = {rule.value: rule for rule in ScaleInRule}
_MODES = {"Uniform": False, "Flexible": True}
_CHOICES: Choices = {
    "properties.upgradePolicy.mode": _UPGRADES,
    "properties.orchestrationMode": _MODES,
    f"{SET_PROFILE}.priority": machines.PRIORITIES,
    f"{SET_PROFILE}.evictionPolicy": machines.EVICTIONS,
}
_FAULT_DOMAINS = "properties.platformFaultDomainCount"
_FAULT_DOMAINS_MAX = 5


# --- Writing --------------------------------------------------------------------------------------


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create a scale set, or merge the body into it: `az vmss scale` sends only the capacity."""
    profile.check_api_version(write.body, write.version, SET_PROFILE)

    async def plan(existing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        # The capacity is not stored: the set has it, and an old value must not be restored.
        stored = documents.without(documents.without_read_only(body), "sku", "capacity")
        stored = documents.normalize_case(profile.normalize(stored, SET_PROFILE), _CHOICES)
        if existing is None:
            return await _create(context, write, stored, group)
        return await _change(context, write, existing, stored)

    resource, created, operation = await writing.write_resource(context, SCALE_SET, write, plan)
    return WriteResult(resource, await _document(context, resource), created, operation)


async def _create(
    context: ArmContext, write: ResourceWrite, body: Body, group: Resource
) -> DesiredResource:
    writing.check_location(body)
    priority = _priority(body)
    name = f"{group.name}:{write.name}"
    create = CreateSet(
        set=name,
        name=write.name,
        group=group.name,
        capacity=_capacity(write.body) or 0,
        prefix=_prefix(body),
        terminate_seconds=profile.terminate_seconds(body, SET_PROFILE),
        upgrade=_upgrade(body),
        scale_in=_scale_in(body),
        priority=priority,
        eviction=_eviction(body),
        fault_domains=_fault_domains(body),
        rules=profile.with_policy(context.settings.rules, body),
        size=typed_value(body, "sku.name", str, ""),
        zones=machines.zones_of(body),
        tags=tags_of(body),
        flexible=_flexible(body),
        subnet=await subnets.of_set(context, body, group.name),
    )
    return DesiredResource(body, (create,), set=name)


async def _change(
    context: ArmContext, write: ResourceWrite, existing: Resource, body: Body
) -> DesiredResource:
    scale_set = await context.scale_set(existing)
    defaults = _defaults(context, scale_set)
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    _check_immutable(before, after)
    rules = profile.with_policy(scale_set.rules, after)
    size = typed_value(after, "sku.name", str)
    update = UpdateSet(
        set=scale_set.id,
        terminate_seconds=profile.terminate_seconds(after, SET_PROFILE),
        upgrade=_upgrade(after),
        scale_in=_scale_in(after),
        rules=rules if rules != scale_set.rules else None,
        size=None if size == (scale_set.size or context.cloud.size) else size,
        tags=tags_of(body) if "tags" in body else None,
        renewed=_model(before) != _model(after),
    )
    commands: list[Command] = [update]
    capacity = _capacity(write.body)
    if capacity is not None:
        commands.append(Scale(set=scale_set.id, capacity=capacity, operation=write.operation))
    return DesiredResource(body, tuple(commands), set=existing.set)


def _check_immutable(before: Body, after: Body) -> None:
    for name, old, new in (
        ("orchestrationMode", _flexible(before), _flexible(after)),
        ("priority", _priority(before), _priority(after)),
        ("zones", machines.zones_of(before), machines.zones_of(after)),
        ("platformFaultDomainCount", _fault_domains(before), _fault_domains(after)),
        ("evictionPolicy", _eviction(before), _eviction(after)),
        ("computerNamePrefix", _prefix(before), _prefix(after)),
        ("location", *(writing.location_of(body) for body in (before, after))),
    ):
        if old != new:
            writing.refuse_change(name)


def _model(body: Body) -> Body:
    """Return the model of the instances without the notice of a delete, which has its own check."""
    model = typed_value(body, SET_PROFILE, dict, {})
    return {key: part for key, part in model.items() if key != "scheduledEventsProfile"}


def _capacity(body: Body) -> int | None:
    capacity: int | None = typed_value(body, "sku.capacity", int)
    if capacity is not None and not 0 <= capacity <= limits.SET_INSTANCES:
        text = f"a whole number from 0 to {limits.SET_INSTANCES}"
        raise documents.invalid_value("sku.capacity", capacity, text)
    return capacity


def _priority(body: Body) -> Priority:
    priority: Priority = choice(
        body, f"{SET_PROFILE}.priority", machines.PRIORITIES, Priority.REGULAR
    )
    machines.check_eviction(body, SET_PROFILE, priority)
    return priority


def _eviction(body: Body) -> EvictionPolicy:
    policy: EvictionPolicy = choice(
        body, f"{SET_PROFILE}.evictionPolicy", machines.EVICTIONS, EvictionPolicy.DEALLOCATE
    )
    return policy


def _prefix(body: Body) -> str:
    prefix: str = typed_value(body, f"{SET_PROFILE}.osProfile.computerNamePrefix", str, "")
    return prefix


def _upgrade(body: Body) -> UpgradeMode:
    mode: UpgradeMode = choice(body, "properties.upgradePolicy.mode", _UPGRADES, UpgradeMode.MANUAL)
    return mode


def _flexible(body: Body) -> bool:
    flexible: bool = choice(body, "properties.orchestrationMode", _MODES, default=False)
    return flexible


def _scale_in(body: Body) -> ScaleInRule:
    rules = typed_value(body, "properties.scaleInPolicy.rules", list, [])
    first = {"rule": rules[0]} if rules else {}
    rule: ScaleInRule = choice(first, "rule", _RULES, ScaleInRule.DEFAULT)
    return rule


def _fault_domains(body: Body) -> int:
    count: int = typed_value(body, _FAULT_DOMAINS, int, limits.FAULT_DOMAINS)
    if not 1 <= count <= _FAULT_DOMAINS_MAX:
        text = f"a whole number from 1 to {_FAULT_DOMAINS_MAX}"
        raise documents.invalid_value(_FAULT_DOMAINS, count, text)
    return count


# --- Reading --------------------------------------------------------------------------------------


def _defaults(context: ArmContext, scale_set: ScaleSet) -> Body:
    """Return the members that a scale set has unless a client wrote others."""
    model: Body = {
        "osProfile": {"computerNamePrefix": scale_set.prefix},
        "storageProfile": {"osDisk": {"osType": "Linux", "createOption": "FromImage"}},
        **profile.events_profile(scale_set.terminate_seconds),
    }
    if scale_set.priority is Priority.SPOT:
        model |= {"priority": "Spot", "evictionPolicy": scale_set.eviction.value}
    return {
        "location": context.cloud.location,
        "sku": {"name": scale_set.size or context.cloud.size, "tier": "Standard"},
        **({"tags": dict(scale_set.tags)} if scale_set.tags else {}),
        **({"zones": list(scale_set.zones)} if scale_set.zones else {}),
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
    context: ArmContext, resource: Resource, scale_set: ScaleSet, placement: list[Scope]
) -> Body:
    """Return a scale set in Azure's form."""
    impacts = [impact.kind for scope in placement for impact in scope.impacts.values()]
    deleting = impacts.count(ImpactKind.DELETE)
    state = "Deleting" if scale_set.deleting else "Updating" if impacts else "Succeeded"
    computed: Body = {
        "name": resource.name,
        "id": context.arm_id(SCALE_SET, resource.group, resource.name),
        "type": SCALE_SET,
        "etag": writing.etag(resource),
        "sku": {"capacity": sum(len(scope.machines) for scope in placement) - deleting},
        "properties": {
            "provisioningState": state,
            "uniqueId": guid("set", scale_set.id).lower(),
            "singlePlacementGroup": len(scale_set.groups) <= 1,
        },
    }
    body = documents.merge(_defaults(context, scale_set), documents.stored_body(resource))
    return documents.merge(profile.fill_defaults(body, SET_PROFILE), computed)


async def _document(context: ArmContext, resource: Resource) -> Body:
    scale_set = await context.scale_set(resource)
    return document(
        context, resource, scale_set, await targets.placement_groups(context, scale_set)
    )


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    return json_response(
        await _document(context, await context.get(SCALE_SET, request.group, request.name))
    )


async def _list(context: ArmContext, request: ArmRequest) -> Response:
    page, token = await context.page(request, SCALE_SET, request.params.get("group", ""))
    value = []
    for resource in page:
        if scale_set := await context.fleet.reader.read(ScaleSet, resource.set):
            placement = await targets.placement_groups(context, scale_set)
            value.append(document(context, resource, scale_set, placement))
    return json_response({"value": value, **context.next_link(request, token)})


async def _view(context: ArmContext, request: ArmRequest) -> Response:
    """Return the number of instances in each state."""
    scale_set = await _scale_set(context, request)
    counts: Counter[str] = Counter()
    for scope in await targets.placement_groups(context, scale_set):
        for machine in scope.machines.values():
            counts[f"ProvisioningState/{views.provisioning_state(scope, machine).lower()}"] += 1
            counts[f"PowerState/{machine.power.value}"] += 1
    summary = [{"code": code, "count": count} for code, count in sorted(counts.items())]
    done = views.status("ProvisioningState/succeeded", "Provisioning succeeded")
    return json_response({"virtualMachine": {"statusesSummary": summary}, "statuses": [done]})


# --- Actions --------------------------------------------------------------------------------------


async def _put(context: ArmContext, request: ArmRequest) -> Response:
    write = await writing.parse_write(request, operation=new_operation())
    return write_response(request, context, await put(context, write))


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find(SCALE_SET, request.group, request.name)
    if resource is None:
        return await writing.no_content(context, request)
    scale_set = await context.scale_set(resource)
    if scale_set.deleting:
        return await targets.accept_running(context, request, scale_set.deleting)
    delete = DeleteSet(set=resource.set, operation=new_operation(), actor=request.actor)
    return accepted(request, await context.fleet.submit(delete), context.cloud.location)


async def _scale_set(context: ArmContext, request: ArmRequest) -> ScaleSet:
    return await context.scale_set(await context.get(SCALE_SET, request.group, request.name))


async def _act(kind: type[Operate], context: ArmContext, request: ArmRequest) -> Response:
    scale_set = await _scale_set(context, request)
    command = OperateInstances(
        set=scale_set.id,
        action=kind,
        instances=await parse_instance_ids(request, scale_set, required=kind is Delete),
        operation=new_operation(),
        actor=request.actor,
    )
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


async def _upgrade_instances(context: ArmContext, request: ArmRequest) -> Response:
    """Bring instances to the current model, without an operation (T3)."""
    scale_set = await _scale_set(context, request)
    instances = await parse_instance_ids(request, scale_set, required=True)
    command = UpgradeInstances(set=scale_set.id, instances=instances, actor=request.actor)
    await context.fleet.submit(command)
    return Response(b"", 200)


async def _maintain(context: ArmContext, request: ArmRequest) -> Response:
    scale_set = await _scale_set(context, request)
    instances = await parse_instance_ids(request, scale_set)
    selected = [
        ActionTarget(scope, machine, scale_set)
        for scope in await targets.placement_groups(context, scale_set)
        for machine in scope.machines.values()
        if (not machine.shielded if instances is None else machine.instance in instances)
    ]
    if instances is not None and len(selected) < len(instances):
        numbers = ", ".join(map(str, instances))
        text = f"scale set '{request.name}' does not have all of the instances {numbers}"
        raise NotFound("UnknownInstance", text)
    return await targets.maintain(context, request, selected)


_COLLECTION = f"{COMPUTE}/virtualMachineScaleSets"
_ITEM = f"{_COLLECTION}/{{name}}"
ROUTES = (
    Route("GET", f"{ALL_COMPUTE}/virtualMachineScaleSets", _list),
    Route("GET", _COLLECTION, _list),
    Route("GET", _ITEM, _get),
    Route("PUT", _ITEM, _put),
    Route("PATCH", _ITEM, _put),
    Route("DELETE", _ITEM, _delete),
    Route("GET", f"{_ITEM}/instanceView", _view),
    Route("POST", f"{_ITEM}/manualupgrade", _upgrade_instances),
    Route("POST", f"{_ITEM}/performMaintenance", _maintain),
    Route("POST", f"{_ITEM}/delete", partial(_act, Delete)),
    Route("POST", f"{_ITEM}/reimageall", partial(_act, Reimage)),
    *(Route("POST", f"{_ITEM}/{name}", partial(_act, kind)) for name, kind in ACTIONS.items()),
)

"""Scale sets: `Microsoft.Compute/virtualMachineScaleSets` (C1, T1 to T4)."""

from collections import Counter
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext, new_operation
from fairwarning.arm.http.listing import list_response, parse_expand
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, COMPUTE, Route
from fairwarning.arm.resources import (
    documents,
    machine_model,
    profile,
    rolling_policy,
    rolling_upgrades,
    set_model,
    set_network,
    subnets,
    targets,
    views,
    writing,
)
from fairwarning.arm.resources.documents import tags_of, typed_value
from fairwarning.arm.resources.profile import SET_PROFILE
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget, parse_instance_ids
from fairwarning.arm.resources.writing import (
    DesiredResource,
    ResourceWrite,
    WriteResult,
    write_response,
)
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
    ImpactKind,
    Priority,
    ScaleSet,
    Scope,
    guid,
)
from fairwarning.service.resources import SCALE_SET, Resource

# --- Writing --------------------------------------------------------------------------------------


async def put(context: ArmContext, write: ResourceWrite) -> WriteResult:
    """Create a scale set, or merge the body into it: `az vmss scale` sends only the capacity."""
    write = writing.normalized(SCALE_SET, write)
    profile.check_api_version(write.body, write.version, SET_PROFILE)
    set_network.check(write.body)
    rolling_policy.parse(write.body)

    async def plan(existing: Resource | None, body: Body, group: Resource) -> DesiredResource:
        # The capacity is not stored: the set has it, and an old value must not be restored.
        stored = documents.without(documents.without_read_only(body), "sku", "capacity")
        stored = profile.normalize(stored, SET_PROFILE)
        if existing is None:
            return await _create(context, write, stored, group)
        return await _change(context, write, existing, stored)

    resource, created, operation = await writing.write_resource(context, SCALE_SET, write, plan)
    return WriteResult(resource, await _document(context, resource), created, operation)


async def _create(
    context: ArmContext, write: ResourceWrite, body: Body, group: Resource
) -> DesiredResource:
    writing.check_location(body)
    capacity = set_model.capacity_of(write.body) or 0
    set_model.check_single_group(body, write.name, capacity)
    name = f"{group.name}:{write.name}"
    create = CreateSet(
        set=name,
        name=write.name,
        group=group.name,
        capacity=capacity,
        prefix=set_model.prefix_of(body),
        terminate_seconds=profile.terminate_seconds(body, SET_PROFILE),
        upgrade=set_model.upgrade_mode_of(body),
        scale_in=set_model.scale_in_rule_of(body),
        priority=set_model.priority_of(body),
        eviction=set_model.eviction_of(body),
        fault_domains=set_model.fault_domains_of(body),
        rules=profile.with_policy(context.settings.rules, body),
        size=typed_value(body, "sku.name", str, ""),
        zones=machine_model.zones_of(body),
        tags=tags_of(body),
        flexible=set_model.is_flexible(body),
        subnet=await subnets.of_set(context, body, group.name, write),
    )
    return DesiredResource(body, (create,), set=name)


async def _change(
    context: ArmContext, write: ResourceWrite, existing: Resource, body: Body
) -> DesiredResource:
    scale_set = await context.scale_set(existing)
    defaults = _defaults(context, scale_set)
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    set_model.check_immutable(before, after)
    rules = profile.with_policy(scale_set.rules, after)
    size = typed_value(after, "sku.name", str)
    update = UpdateSet(
        set=scale_set.id,
        terminate_seconds=profile.terminate_seconds(after, SET_PROFILE),
        upgrade=set_model.upgrade_mode_of(after),
        scale_in=set_model.scale_in_rule_of(after),
        rules=rules if rules != scale_set.rules else None,
        size=None if size == (scale_set.size or context.cloud.size) else size,
        tags=tags_of(body) if "tags" in body else None,
        renewed=set_model.instance_model(before) != set_model.instance_model(after),
    )
    commands: list[Command] = [update]
    if set_model.upgrades_by_rolling(after) and _changes_model(scale_set, update):
        await rolling_upgrades.check_none_running(context, scale_set)
        commands.append(rolling_upgrades.start_command(scale_set, after, write.actor))
    capacity = set_model.capacity_of(write.body)
    if capacity is not None:
        set_model.check_single_group(body, existing.name, capacity)
        commands.append(Scale(set=scale_set.id, capacity=capacity, operation=write.operation))
    return DesiredResource(body, tuple(commands), set=existing.set)


def _changes_model(scale_set: ScaleSet, update: UpdateSet) -> bool:
    """Return whether a change gives the set a new model."""
    return (
        update.renewed
        or update.terminate_seconds != scale_set.terminate_seconds
        or update.size not in {None, scale_set.size}
        or (update.tags is not None and update.tags != scale_set.tags)
    )


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
            "singlePlacementGroup": not scale_set.flexible and len(scale_set.groups) <= 1,
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
    parse_expand(request, ("userData",))  # which is a secret: never stored, so there is none
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
    return list_response(context, request, value, token)


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
        instances=await parse_instance_ids(context, request, scale_set, required=kind is Delete),
        operation=new_operation(),
        actor=request.actor,
    )
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


async def _upgrade_instances(context: ArmContext, request: ArmRequest) -> Response:
    """Bring instances to the current model, without an operation (T3)."""
    scale_set = await _scale_set(context, request)
    instances = await parse_instance_ids(context, request, scale_set, required=True)
    command = UpgradeInstances(set=scale_set.id, instances=instances, actor=request.actor)
    await context.fleet.submit(command)
    return Response(b"", 200)


async def _maintain(context: ArmContext, request: ArmRequest) -> Response:
    scale_set = await _scale_set(context, request)
    instances = await parse_instance_ids(context, request, scale_set)
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

"""Scale sets: `Microsoft.Compute/virtualMachineScaleSets` (C1, T1 to T4)."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from starlette.responses import Response

from fairwarning.arm.compute import actions, images, profile, set_network, targets, views
from fairwarning.arm.http.request import ArmRequest, Body, accepted, json_response
from fairwarning.arm.network import subnets
from fairwarning.arm.types import documents, stored, writing
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.documents import tags_of
from fairwarning.arm.types.names import INTERFACE, PUBLIC_ADDRESS, SCALE_SET
from fairwarning.arm.types.resource_type import DesiredResource, ResourceType
from fairwarning.arm.types.writing import ResourceWrite
from fairwarning.core.commands import (
    Command,
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
from fairwarning.core.model import ImpactKind, Priority, Resource, ScaleSet, Scope, guid
from fairwarning.core.record import changed


async def _plan(write: ResourceWrite, body: Body) -> DesiredResource:
    """Create a scale set, or merge the body into it: `az vmss scale` sends only the capacity."""
    profile.check_api_version(write.body, write.version, profile.SET_PROFILE)
    set_network.check(body)
    # The capacity is not stored: the set has it, and an old value must not be restored.
    kept = profile.normalize(documents.without(body, "sku", "capacity"), profile.SET_PROFILE)
    if write.existing is None:
        return await _create(write, kept)
    return await _change(write, write.existing, kept)


async def _create(write: ResourceWrite, body: Body) -> DesiredResource:
    context, group = write.context, write.group
    name = f"{group.name}:{write.name}"
    create = changed(
        profile.parse_set(body),
        set=name,
        name=write.name,
        group=group.name,
        capacity=profile.capacity_of(write.body, body, write.name) or 0,
        rules=profile.with_policy(context.settings.rules, body),
        subnet=await subnets.of_set(context, body),
    )
    return DesiredResource(body, (create,), set=name)


async def _change(write: ResourceWrite, existing: Resource, body: Body) -> DesiredResource:
    context = write.context
    scale_set = await context.scale_set(existing)
    defaults = _defaults(context, scale_set)
    before, after = (documents.merge(defaults, b) for b in (documents.stored_body(existing), body))
    model = profile.parse_set(after)
    profile.check_immutable_set(before, after)
    rules = profile.with_policy(scale_set.rules, after)
    update = UpdateSet(
        set=scale_set.id,
        terminate_seconds=model.terminate_seconds,
        upgrade=model.upgrade,
        scale_in=model.scale_in,
        rules=rules if rules != scale_set.rules else None,
        size=None if model.size == (scale_set.size or context.cloud.size) else model.size,
        tags=tags_of(body) if "tags" in body else None,
        renewed=profile.instance_model(before) != profile.instance_model(after),
    )
    commands: list[Command] = [update]
    capacity = profile.capacity_of(write.body, body, existing.name)
    if capacity is not None:
        commands.append(Scale(set=scale_set.id, capacity=capacity, operation=write.operation))
    return DesiredResource(body, tuple(commands), set=existing.set)


def _defaults(context: ArmContext, scale_set: ScaleSet) -> Body:
    """Return the members that a scale set has unless a client wrote others."""
    model: Body = {
        "osProfile": {"computerNamePrefix": scale_set.prefix},
        "storageProfile": {
            "osDisk": {"osType": views.system_of(scale_set), "createOption": "FromImage"}
        },
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


def _document(
    context: ArmContext, resource: Resource, scale_set: ScaleSet, placement: list[Scope]
) -> Body:
    impacts = [impact.kind for scope in placement for impact in scope.impacts.values()]
    deleting = impacts.count(ImpactKind.DELETE)
    state = "Deleting" if scale_set.deleting else "Updating" if impacts else "Succeeded"
    computed: Body = {
        "name": resource.name,
        "id": context.arm_id(SCALE_SET, resource.group, resource.name),
        "type": SCALE_SET,
        "etag": documents.etag(resource),
        "sku": {"capacity": sum(len(scope.machines) for scope in placement) - deleting},
        "properties": {"provisioningState": state, "uniqueId": guid("set", scale_set.id).lower()},
    }
    body = documents.merge(_defaults(context, scale_set), documents.stored_body(resource))
    return documents.merge(profile.fill_defaults(body, profile.SET_PROFILE), computed)


async def _documents(context: ArmContext, rows: Sequence[Resource]) -> list[Body]:
    sets = await context.read_all(ScaleSet, (row.set for row in rows))
    return [
        _document(context, row, scale_set, await context.placement_groups(scale_set))
        for row in rows
        if (scale_set := sets.get(row.set))
    ]


async def _view(context: ArmContext, request: ArmRequest) -> Response:
    scale_set = await _scale_set(context, request)
    counts: Counter[str] = Counter()
    for scope in await context.placement_groups(scale_set):
        for machine in scope.machines.values():
            counts[f"ProvisioningState/{views.provisioning_state(scope, machine).lower()}"] += 1
            counts[f"PowerState/{machine.power.value}"] += 1
    summary = [{"code": code, "count": count} for code, count in sorted(counts.items())]
    done = views.status("ProvisioningState/succeeded", "Provisioning succeeded")
    return json_response({"virtualMachine": {"statusesSummary": summary}, "statuses": [done]})


async def _delete(context: ArmContext, request: ArmRequest) -> Response:
    resource = await context.find_id(request.id)
    if resource is None:
        return await context.no_content(request.id)
    scale_set = await context.scale_set(resource)
    if scale_set.deleting:
        return await actions.accept_running(context, request, scale_set.deleting)
    delete = DeleteSet(set=resource.set, operation=new_operation(), actor=request.actor)
    operation = await writing.remove(context, request, resource, command=delete)
    await stored.remove_below(context, request.id, request.actor)  # not if the delete is refused
    return accepted(request, operation, context.cloud.location)


async def _scale_set(context: ArmContext, request: ArmRequest) -> ScaleSet:
    return await context.scale_set(await context.get_id(request.id))


async def _act(kind: type[Operate], context: ArmContext, request: ArmRequest) -> Response:
    scale_set = await _scale_set(context, request)
    command = OperateInstances(
        set=scale_set.id,
        action=kind,
        instances=await targets.parse_instance_ids(
            context, request, scale_set, required=kind is Delete
        ),
        operation=new_operation(),
        actor=request.actor,
    )
    return accepted(request, await context.fleet.submit(command), context.cloud.location)


async def _upgrade_instances(context: ArmContext, request: ArmRequest) -> Response:
    """Bring instances to the current model, without an operation (T3)."""
    scale_set = await _scale_set(context, request)
    instances = await targets.parse_instance_ids(context, request, scale_set, required=True)
    command = UpgradeInstances(set=scale_set.id, instances=instances, actor=request.actor)
    await context.fleet.submit(command)
    return Response(b"", 200)


async def _maintain(context: ArmContext, request: ArmRequest) -> Response:
    scale_set = await _scale_set(context, request)
    instances = await targets.parse_instance_ids(context, request, scale_set)
    wanted = None if instances is None else set(instances)
    selected = [
        target
        for target in await targets.members(context, scale_set)
        if (not target.machine.shielded if wanted is None else target.machine.instance in wanted)
    ]
    if instances is not None and len(selected) < len(instances):
        numbers = ", ".join(map(str, instances))
        text = f"scale set '{request.name}' does not have all of the instances {numbers}"
        raise NotFound("UnknownInstance", text)
    return await actions.maintain(context, request, selected)


TYPE = ResourceType(
    name=SCALE_SET,
    purpose="is scaled, upgraded and deleted; with terminate notification, instances are told",
    merges=True,
    plan=_plan,
    documents=_documents,
    expands=("userData",),  # a secret: never stored
    remove=_delete,
    actions={
        "delete": partial(_act, Delete),
        "manualupgrade": _upgrade_instances,
        "performmaintenance": _maintain,
        "reimageall": partial(_act, Reimage),
        **{name.lower(): partial(_act, kind) for name, kind in actions.ACTIONS.items()},
    },
    refused=dict.fromkeys(
        ("extensionrollingupgrade", "osrollingupgrade"),
        "Bring instances to the model of their set by manualupgrade.",
    ),
    views={
        "instanceview": _view,
        "networkinterfaces": partial(set_network.list_of_set, INTERFACE),
        "publicipaddresses": partial(set_network.list_of_set, PUBLIC_ADDRESS),
        "skus": images.list_set_sizes,
    },
)

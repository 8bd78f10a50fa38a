"""Instances of scale sets: `.../virtualMachineScaleSets/{set}/virtualMachines/{id}` (C1)."""

from dataclasses import replace
from functools import partial

from starlette.responses import Response

from fairwarning.arm.http.context import PAGE, ArmContext, bad_skip_token
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, answer
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import documents, targets, views, writing
from fairwarning.arm.resources.documents import strict
from fairwarning.arm.resources.targets import ACTIONS, ActionTarget
from fairwarning.arm.resources.writing import DesiredResource, WriteResult, write_response
from fairwarning.core.commands import Operate, ProtectInstances, Reimage
from fairwarning.core.model import Machine, Ref, ScaleSet, Scope
from fairwarning.service.resources import INSTANCE, SCALE_SET, Resource

_FROM_SCALE_IN = "properties.protectionPolicy.protectFromScaleIn"
_FROM_ACTIONS = "properties.protectionPolicy.protectFromScaleSetActions"


def document(
    plane: ArmContext, target: ActionTarget, owner: Resource, body: Body, *, view: bool = False
) -> Body:
    """An instance of the set `owner` as Azure shows it; `body` is what somebody wrote of it."""
    machine, scope, scale_set = target.machine, target.scope, target.scale_set
    assert scale_set is not None
    known = {
        **views.known(scope, machine),
        "latestModelApplied": machine.model == scale_set.model,
        "modelDefinitionApplied": "VirtualMachineScaleSet",
        "protectionPolicy": {
            "protectFromScaleIn": machine.protected,
            "protectFromScaleSetActions": machine.shielded,
        },
    }
    if view:
        known["instanceView"] = views.instance_view(scope, machine, plane.fleet.clock.now())
    number = str(machine.instance)
    shown: Body = {
        "name": machine.name,
        "id": plane.path(INSTANCE, owner.group, f"{owner.name}/{number}"),
        "type": INSTANCE,
        "location": documents.written(owner).get("location", plane.cloud.location),
        "instanceId": number,
        "sku": {"name": machine.size or plane.cloud.size, "tier": "Standard"},
        **({"tags": dict(machine.tags)} if machine.tags else {}),
        **({"zones": [machine.zone]} if machine.zone else {}),
        "properties": views.granted(plane.cloud, machine),
    }
    return documents.merged(documents.merged(shown, body), {"properties": known})


# --- Reading --------------------------------------------------------------------------------------


async def _list(plane: ArmContext, call: ArmRequest) -> Response:
    """Instances in order of their ids, a page at a time."""
    resource = await plane.get(SCALE_SET, call.group, call.params["set"])
    scale_set = await plane.scale_set(resource)
    after = _after(call.query("$skiptoken"))
    later = [
        (machine.instance, machine, scope)
        for scope in await targets.groups(plane, scale_set)
        for machine in scope.machines.values()
        if machine.instance > after
    ]
    later.sort(key=lambda one: one[0])
    page = [(machine, scope) for _, machine, scope in later[:PAGE]]
    token = str(page[-1][0].instance) if len(later) > PAGE else ""
    view = "instanceview" in call.query("$expand").lower()
    shown = await _documents(plane, resource, scale_set, page, view=view)
    return answer({"value": shown, **plane.next_link(call, token)})


async def _documents(
    plane: ArmContext,
    resource: Resource,
    scale_set: ScaleSet,
    page: list[tuple[Machine, Scope]],
    *,
    view: bool,
) -> list[Body]:
    refs: list[Ref] = [(Resource, machine.resource) for machine, _ in page if machine.resource]
    found = await plane.fleet.reader.read_all(refs)
    bodies = {one.id: documents.written(one) for one in found.values() if isinstance(one, Resource)}
    return [
        document(
            plane,
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
        raise bad_skip_token()
    return int(token)


async def _shown(
    plane: ArmContext, call: ArmRequest, target: ActionTarget, *, view: bool = False
) -> Body:
    written = await plane.fleet.reader.read(Resource, target.machine.resource)
    owner = await plane.get(SCALE_SET, call.group, call.params["set"])
    return document(plane, target, owner, documents.written(written), view=view)


async def _target(plane: ArmContext, call: ArmRequest) -> ActionTarget:
    return await targets.instance(plane, call.group, call.params["set"], call.name)


async def _get(plane: ArmContext, call: ArmRequest) -> Response:
    view = "instanceview" in call.query("$expand").lower()
    return answer(await _shown(plane, call, await _target(plane, call), view=view))


async def _view(plane: ArmContext, call: ArmRequest) -> Response:
    target = await _target(plane, call)
    return answer(views.instance_view(target.scope, target.machine, plane.fleet.clock.now()))


# --- Writing and doing ----------------------------------------------------------------------------


async def _put(plane: ArmContext, call: ArmRequest) -> Response:
    """Protect an instance, or no longer; whatever else is written is kept."""
    target = await _target(plane, call)
    assert target.scale_set is not None
    scale_set, machine = target.scale_set, target.machine
    ask = await writing.parse_write(call, name=f"{scale_set.name}/{machine.instance}")
    ask = replace(ask, must_be_there=False)  # the instance is; nobody has to have written of it

    async def plan(_: Resource | None, body: Body, __: Resource) -> DesiredResource:
        protect = ProtectInstances(
            set=scale_set.id,
            instances=(machine.instance,),
            protected=strict(body, _FROM_SCALE_IN, bool, default=False),
            shielded=strict(body, _FROM_ACTIONS, bool, default=False),
        )
        kept = documents.kept(body)
        return DesiredResource(kept, (protect,), scope=target.scope.id, machine=machine.name)

    resource, _, operation = await writing.write(plane, INSTANCE, ask, plan)
    shown = await _shown(plane, call, await _target(plane, call))
    return write_response(
        call, plane, WriteResult(resource, shown, created=False, operation=operation)
    )


async def _act(kind: type[Operate], plane: ArmContext, call: ArmRequest) -> Response:
    return await targets.act(plane, call, await _target(plane, call), kind)


async def _delete(plane: ArmContext, call: ArmRequest) -> Response:
    try:
        target = await _target(plane, call)
    except ArmError as wrong:
        if wrong.code != "ResourceNotFound":
            raise
        return await writing.nothing(plane, call)
    return await targets.delete(plane, call, target)


async def _evict(plane: ArmContext, call: ArmRequest) -> Response:
    return await targets.evict(plane, call, await _target(plane, call))


async def _maintain(plane: ArmContext, call: ArmRequest) -> Response:
    return await targets.maintain(plane, call, [await _target(plane, call)])


_ALL = f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines"
_ONE = f"{_ALL}/{{name}}"
ROUTES = (
    Route("GET", _ALL, _list),
    Route("GET", _ONE, _get),
    Route("PUT", _ONE, _put),
    Route("PATCH", _ONE, _put),
    Route("DELETE", _ONE, _delete),
    Route("GET", f"{_ONE}/instanceView", _view),
    Route("POST", f"{_ONE}/simulateEviction", _evict),
    Route("POST", f"{_ONE}/performMaintenance", _maintain),
    Route("POST", f"{_ONE}/reimageall", partial(_act, Reimage)),
    *(Route("POST", f"{_ONE}/{name}", partial(_act, kind)) for name, kind in ACTIONS.items()),
)

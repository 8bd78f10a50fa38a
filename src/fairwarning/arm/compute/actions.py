"""Actions on machines and instances: restart, delete, eviction, maintenance, approvals (C1, C5)."""

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.responses import Response

from fairwarning.arm.compute import targets, views
from fairwarning.arm.compute.targets import ActionTarget
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import ArmRequest, accepted, json_response
from fairwarning.arm.http.routes import COMPUTE, Handler, Route
from fairwarning.arm.types import stored, writing
from fairwarning.arm.types.context import ArmContext, new_operation
from fairwarning.arm.types.documents import invalid_value, typed_value
from fairwarning.arm.types.names import AVAILABILITY_SET, SCALE_SET
from fairwarning.core import commands
from fairwarning.core.commands import Approve, Command, Delete, Evict, Operate, OperateInstances
from fairwarning.core.limits import APPROVAL_EVENTS
from fairwarning.core.model import ImpactKind, Operation, Scope

ACTIONS: Mapping[str, type[Operate]] = {
    "restart": commands.Restart,
    "redeploy": commands.Redeploy,
    "reimage": commands.Reimage,
    "deallocate": commands.Deallocate,
    "powerOff": commands.Stop,
    "start": commands.Start,
}
"""The actions of a machine, by Azure's name."""


def _command(target: ActionTarget, kind: type[Operate], actor: str) -> Command:
    """Return the command for an action; the commands of instances go to their scale set."""
    operation = new_operation()
    if target.scale_set:
        return OperateInstances(
            set=target.scale_set.id,
            action=kind,
            instances=(target.machine.instance,),
            operation=operation,
            actor=actor,
        )
    names = (target.machine.name,)
    return kind(scope=target.scope.id, machines=names, operation=operation, actor=actor)


async def act(kind: type[Operate], context: ArmContext, request: ArmRequest) -> Response:
    """Submit an action on the machine that the path names, and return 202."""
    target = await targets.find(context, request.id)
    operation = await context.fleet.submit(_command(target, kind, request.actor))
    return accepted(request, operation, context.cloud.location)


async def delete(context: ArmContext, request: ArmRequest) -> Response:
    """Delete a machine; if a deletion is already running, return 202 for that operation."""
    target = await targets.find_any(context, request.id)
    if target is None:
        return await context.no_content(request.id)
    impact = target.scope.impacts.get(target.machine.name)
    if impact and impact.kind is ImpactKind.DELETE:
        return await accept_running(context, request, impact.operation)
    ids = await targets.ids_of_instance(context, request.id) or [request.id]
    command = _command(target, Delete, request.actor)
    operation = await writing.remove(context, request, target.resource, command=command)
    for id_ in ids:  # not if the delete is refused
        await stored.remove_below(context, id_, request.actor)
    return accepted(request, operation, context.cloud.location)


async def accept_running(context: ArmContext, request: ArmRequest, name: str) -> Response:
    """Return 202 for an operation that an earlier request started."""
    operation = await context.fleet.reader.read(Operation, name)
    return accepted(request, operation, context.cloud.location)


async def show_view(context: ArmContext, request: ArmRequest) -> Response:
    """Return the instance view of a machine."""
    target = await targets.find(context, request.id)
    now = context.fleet.clock.now()
    return json_response(views.instance_view(target.scope, target.machine, now))


async def _evict(context: ArmContext, request: ArmRequest) -> Response:
    """Simulate the eviction of a Spot machine, and return 204 without a polling URL."""
    target = await targets.find(context, request.id)
    await context.fleet.submit(_command(target, Evict, request.actor))
    return Response(b"", 204)


async def _maintain(context: ArmContext, request: ArmRequest) -> Response:
    return await maintain(context, request, [await targets.find(context, request.id)])


async def maintain(
    context: ArmContext, request: ArmRequest, machines: Sequence[ActionTarget]
) -> Response:
    """Start the scheduled platform maintenance of these machines now."""
    events = {
        event.id: (target.scope.id, event)
        for target in machines
        if (event := views.pending_maintenance(target.scope, target.machine))
    }
    if not events:
        name = machines[0].machine.name if machines else request.name
        raise azure_error("OperationNotAllowed/no maintenance", name=name)
    for scope, event in events.values():
        await context.fleet.submit(Approve(scope=scope, events=(event.id,), actor=request.actor))
    _, first = next(iter(events.values()))
    operation = await context.fleet.reader.read(Operation, first.operation)
    return accepted(request, operation, context.cloud.location)


HANDLERS: Mapping[str, Handler] = {
    "performmaintenance": _maintain,
    "simulateeviction": _evict,
    **{name.lower(): partial(act, kind) for name, kind in ACTIONS.items()},
}
"""The actions that machines and instances have."""
NO_ACCESS = "The service has no access to the system of a machine."
"""Why actions inside a machine are not offered."""


async def _acknowledge(context: ArmContext, request: ArmRequest) -> Response:
    """Approve the event of the path, or all of the body; none if any of them is unknown."""
    if "event" in request.params:
        events = [request.params["event"]]
    else:
        events = typed_value(await request.body(), "value", list, [])
    if not 1 <= len(events) <= APPROVAL_EVENTS or not all(isinstance(e, str) for e in events):
        raise invalid_value("value", events, f"a list of 1 to {APPROVAL_EVENTS} event ids")
    scopes = await _scopes(context, request)
    requested = dict.fromkeys(event.upper() for event in events)
    for event in requested:
        if not any(event in scope.events for scope in scopes):
            raise azure_error("ResourceNotFound/event", event=event[:60], name=request.name)
    for scope in scopes:
        if known := tuple(event for event in requested if event in scope.events):
            await context.fleet.submit(Approve(scope=scope.id, events=known, actor=request.actor))
    return json_response({"value": "Successfully Approved"})


async def _scopes(context: ArmContext, request: ArmRequest) -> list[Scope]:
    kind, group, name = request.params["kind"].lower(), request.group, request.name
    if kind == "virtualmachines":
        return [(await targets.find_machine(context, group, name)).scope]
    if kind == "availabilitysets":
        return [await context.scope(await context.get(AVAILABILITY_SET, group, name))]
    if kind == "virtualmachinescalesets":
        scale_set = await context.scale_set(await context.get(SCALE_SET, group, name))
        return await context.placement_groups(scale_set)
    raise azure_error("InvalidResourceType/no events")


_EVENTS = f"{COMPUTE}/{{kind}}/{{name}}/providers/Microsoft.Maintenance/scheduledevents"
ROUTES = (
    Route("POST", f"{_EVENTS}/{{event}}/acknowledge", _acknowledge),
    Route("POST", f"{_EVENTS}/acknowledge", _acknowledge),
)

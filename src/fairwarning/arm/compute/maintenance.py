"""`Microsoft.Maintenance`: approve events from outside the machine (C5)."""

from starlette.responses import Response

from fairwarning.arm.compute import targets
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import ArmRequest, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import invalid_value, typed_value
from fairwarning.arm.types.names import AVAILABILITY_SET, SCALE_SET
from fairwarning.core.commands import Approve
from fairwarning.core.limits import APPROVAL_EVENTS
from fairwarning.core.model import Scope


async def _acknowledge(context: ArmContext, request: ArmRequest) -> Response:
    return await _approve(context, request, [request.params["event"]])


async def _acknowledge_all(context: ArmContext, request: ArmRequest) -> Response:
    """Approve all events of the body, or none if any of them is unknown."""
    events = typed_value(await request.body(), "value", list, [])
    if not 1 <= len(events) <= APPROVAL_EVENTS or not all(isinstance(e, str) for e in events):
        raise invalid_value("value", events, f"a list of 1 to {APPROVAL_EVENTS} event ids")
    return await _approve(context, request, events)


async def _approve(context: ArmContext, request: ArmRequest, events: list[str]) -> Response:
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
    Route("POST", f"{_EVENTS}/acknowledge", _acknowledge_all),
)

"""`Microsoft.Maintenance`: approve an event from outside the machine (C5)."""

from starlette.responses import Response

from fairwarning.arm.compute import targets
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.documents import typed_value
from fairwarning.arm.types.names import AVAILABILITY_SET, SCALE_SET
from fairwarning.core.commands import Approve
from fairwarning.core.limits import APPROVAL_EVENTS
from fairwarning.core.model import Scope

_APPROVED = {"value": "Successfully Approved"}


async def _acknowledge(context: ArmContext, request: ArmRequest) -> Response:
    await _approve(context, request, [request.params["event"]])
    return json_response(_APPROVED)


async def _acknowledge_all(context: ArmContext, request: ArmRequest) -> Response:
    """Approve all events of the body, or none if any of them is unknown."""
    events = typed_value(await request.body(), "value", list, [])
    if not 1 <= len(events) <= APPROVAL_EVENTS or not all(isinstance(e, str) for e in events):
        text = f"The parameter 'value' must be a list of 1 to {APPROVAL_EVENTS} event ids."
        raise ArmError("InvalidParameter", text)
    await _approve(context, request, events)
    return json_response(_APPROVED)


async def _approve(context: ArmContext, request: ArmRequest, events: list[str]) -> None:
    requested = dict.fromkeys(event.upper() for event in events)
    by_scope = {
        scope.id: known
        for scope in await _scopes(context, request)
        if (known := tuple(event for event in requested if event in scope.events))
    }
    if sum(map(len, by_scope.values())) < len(requested):
        existing = {event for known in by_scope.values() for event in known}
        unknown = next(event for event in requested if event not in existing)
        text = f"The event '{unknown[:60]}' of '{request.name}' was not found."
        raise ArmError("ResourceNotFound", text, 404)
    for scope, known in by_scope.items():
        await context.fleet.submit(Approve(scope=scope, events=known, actor=request.actor))


async def _scopes(context: ArmContext, request: ArmRequest) -> list[Scope]:
    kind = request.params["kind"].lower()
    if kind == "virtualmachines":
        return [(await targets.find_machine(context, request.group, request.name)).scope]
    if kind == "availabilitysets":
        return [
            await context.scope(await context.get(AVAILABILITY_SET, request.group, request.name))
        ]
    if kind == "virtualmachinescalesets":
        scale_set = await context.scale_set(
            await context.get(SCALE_SET, request.group, request.name)
        )
        return await context.placement_groups(scale_set)
    text = "Only virtualMachines, availabilitySets and virtualMachineScaleSets have events."
    raise ArmError("InvalidResourceType", text, 404)


_EVENTS = f"{COMPUTE}/{{kind}}/{{name}}/providers/Microsoft.Maintenance/scheduledevents"
ROUTES = (
    Route("POST", f"{_EVENTS}/{{event}}/acknowledge", _acknowledge),
    Route("POST", f"{_EVENTS}/acknowledge", _acknowledge_all),
)

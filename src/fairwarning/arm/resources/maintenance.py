"""`Microsoft.Maintenance`: approve an event from outside the machine (C5)."""

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, answer
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import targets
from fairwarning.arm.resources.documents import strict
from fairwarning.core.commands import Approve
from fairwarning.core.limits import APPROVAL_EVENTS
from fairwarning.core.model import Scope
from fairwarning.service.resources import AVAILABILITY_SET, SCALE_SET

_APPROVED = {"value": "Successfully Approved"}


async def _one(plane: ArmContext, call: ArmRequest) -> Response:
    await _approve(plane, call, [call.params["event"]])
    return answer(_APPROVED)


async def _several(plane: ArmContext, call: ArmRequest) -> Response:
    """All of them, or if one is unknown none."""
    events = strict(await call.body(), "value", list, [])
    if not 1 <= len(events) <= APPROVAL_EVENTS or not all(isinstance(e, str) for e in events):
        text = f"The parameter 'value' must be a list of 1 to {APPROVAL_EVENTS} event ids."
        raise ArmError("InvalidParameter", text)
    await _approve(plane, call, events)
    return answer(_APPROVED)


async def _approve(plane: ArmContext, call: ArmRequest, events: list[str]) -> None:
    wanted = dict.fromkeys(event.upper() for event in events)
    found = {
        scope.id: here
        for scope in await _scopes(plane, call)
        if (here := tuple(event for event in wanted if event in scope.events))
    }
    if sum(map(len, found.values())) < len(wanted):
        known = {event for here in found.values() for event in here}
        unknown = next(event for event in wanted if event not in known)
        text = f"No event '{unknown[:60]}' is planned for '{call.name}'."
        raise ArmError("ResourceNotFound", text, 404)
    for scope, here in found.items():
        await plane.fleet.submit(Approve(scope=scope, events=here, actor=call.actor))


async def _scopes(plane: ArmContext, call: ArmRequest) -> list[Scope]:
    kind = call.params["kind"].lower()
    if kind == "virtualmachines":
        return [(await targets.machine(plane, call.group, call.name)).scope]
    if kind == "availabilitysets":
        return [await plane.scope(await plane.get(AVAILABILITY_SET, call.group, call.name))]
    if kind == "virtualmachinescalesets":
        scale_set = await plane.scale_set(await plane.get(SCALE_SET, call.group, call.name))
        return await targets.groups(plane, scale_set)
    text = "Events are of virtualMachines, availabilitySets or virtualMachineScaleSets."
    raise ArmError("InvalidResourceType", text, 404)


_EVENTS = f"{COMPUTE}/{{kind}}/{{name}}/providers/Microsoft.Maintenance/scheduledevents"
ROUTES = (
    Route("POST", f"{_EVENTS}/{{event}}/acknowledge", _one),
    Route("POST", f"{_EVENTS}/acknowledge", _several),
)

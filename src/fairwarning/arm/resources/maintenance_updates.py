"""Pending host maintenance: `Microsoft.Maintenance/updates` and `applyUpdates` (C1)."""

from collections.abc import Iterable

from starlette.responses import Response

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import COMPUTE, Route
from fairwarning.arm.resources import targets
from fairwarning.arm.resources.azure_scopes import AzureScope
from fairwarning.arm.resources.documents import invalid_value
from fairwarning.arm.resources.views import pending_maintenance
from fairwarning.core.commands import Approve
from fairwarning.core.decision import FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.model import (
    Event,
    EventStatus,
    ImpactKind,
    Scope,
    Source,
)
from fairwarning.core.times import iso
from fairwarning.service.history.events import EventHistory
from fairwarning.service.history.queries import event_history
from fairwarning.service.resources import AVAILABILITY_SET, INSTANCE, MACHINE, SCALE_SET

_NAMESPACE = "Microsoft.Maintenance"
_APPLY_UPDATES = f"{_NAMESPACE}/applyUpdates"
_DEFAULT = "default"
_KINDS = {kind.partition("/")[2].lower(): kind for kind in (MACHINE, AVAILABILITY_SET, SCALE_SET)}
_IMPACTS = {
    ImpactKind.FREEZE: "Freeze",
    ImpactKind.REBOOT: "Restart",
    ImpactKind.REDEPLOY: "Redeploy",
}
_STATUSES = {EventStatus.SCHEDULED: "Pending", EventStatus.STARTED: "InProgress"}
_NOTHING = "NoUpdatesPending"


# --- Finding --------------------------------------------------------------------------------------


class MaintainedResource:
    """A machine, instance or set, with the scopes and machines that it consists of."""

    def __init__(self, scope: AzureScope, parts: Iterable[tuple[Scope, frozenset[str]]]) -> None:
        self.scope = scope
        self._parts = list(parts)

    def events(self) -> list[tuple[Scope, Event]]:
        """Return the platform maintenance of its machines that has not ended."""
        return [
            (scope, event)
            for scope, names in self._parts
            for event in scope.events.values()
            if event.source is Source.PLATFORM
            and event.impact is not None
            and event.impact in _IMPACTS
            and event.status in _STATUSES
            and not names.isdisjoint(event.resources)
        ]

    def concerns(self, history: EventHistory) -> bool:
        """Whether an event was one of its machines."""
        return any(
            scope.id == history.scope and not names.isdisjoint(history.resources)
            for scope, names in self._parts
        )

    def pending(self) -> list[tuple[Scope, Event]]:
        """Return the maintenance that a user may start now."""
        events = {
            event.id: (scope, event)
            for scope, names in self._parts
            for name in names
            if (event := pending_maintenance(scope, scope.machines[name]))
        }
        return list(events.values())


async def _maintained(context: ArmContext, request: ArmRequest) -> MaintainedResource:
    group, params = request.group, request.params
    if "set" in params:
        target = await targets.find_instance(context, group, params["set"], params["number"])
        scope = AzureScope(group, INSTANCE, f"{params['set']}/{params['number']}")
        return MaintainedResource(scope, [(target.scope, frozenset({target.machine.name}))])
    kind, name = _KINDS.get(params["kind"].lower()), params["resource"]
    if kind == MACHINE:
        target = await targets.find_machine(context, group, name)
        parts = [(target.scope, frozenset({target.machine.name}))]
    elif kind == AVAILABILITY_SET:
        own = await context.scope(await context.get(kind, group, name))
        parts = [(own, frozenset(own.machines))]
    elif kind == SCALE_SET:
        scale_set = await context.scale_set(await context.get(kind, group, name))
        groups = await targets.placement_groups(context, scale_set)
        parts = [(placement, frozenset(placement.machines)) for placement in groups]
    else:
        text = f"Only {', '.join(_KINDS.values())} have maintenance."
        raise ArmError("InvalidResourceType", text, 404)
    return MaintainedResource(AzureScope(group, kind, name), parts)


# --- Requests -------------------------------------------------------------------------------------


async def _updates(context: ArmContext, request: ArmRequest) -> Response:
    """List the pending and running maintenance of a resource."""
    maintained = await _maintained(context, request)
    path = maintained.scope.path(context)
    value = [update_document(event, path) for _, event in maintained.events()]
    return json_response({"value": value})


def update_document(event: Event, path: str) -> Body:
    """Return an event of host maintenance as an update of the resource with this id."""
    assert event.impact is not None
    return {
        "maintenanceScope": "Host",
        "impactType": _IMPACTS[event.impact],
        "status": _STATUSES[event.status],
        "impactDurationInSec": max(event.duration_seconds, 0),
        "notBefore": iso(event.not_before),
        "properties": {"resourceId": path},
    }


async def _apply(context: ArmContext, request: ArmRequest) -> Response:
    """Start the pending maintenance now, as performMaintenance does."""
    await request.body()  # it says nothing, but must be valid
    if request.name.lower() != _DEFAULT:
        raise invalid_value("applyUpdateName", request.name, f"'{_DEFAULT}'")
    maintained = await _maintained(context, request)
    pending = maintained.pending()
    for scope, event in pending:
        await context.fleet.submit(Approve(scope=scope.id, events=(event.id,), actor=request.actor))
    if not pending:
        return json_response(_document(context, maintained, _DEFAULT, _NOTHING))
    _, first = pending[0]
    return json_response(_document(context, maintained, first.id, "InProgress"), 201)


async def _get(context: ArmContext, request: ArmRequest) -> Response:
    """Return how maintenance goes: that of an event, or by `default` the current one."""
    maintained = await _maintained(context, request)
    if request.name.lower() == _DEFAULT:
        statuses = {_STATUSES[event.status] for _, event in maintained.events()}
        status = next((s for s in ("InProgress", "Pending") if s in statuses), _NOTHING)
        return json_response(_document(context, maintained, _DEFAULT, status))
    history = await _history(context, maintained, request.name)
    return json_response(_document(context, maintained, history.id, _status(history)))


async def _history(context: ArmContext, maintained: MaintainedResource, name: str) -> EventHistory:
    """Return the history of an event of this resource."""
    try:
        history, _ = await event_history(context.fleet, name)
    except NotFound:
        history = None
    if history is None or not maintained.concerns(history):
        text = f"The apply update '{name[:60]}' was not found; use '{_DEFAULT}'."
        raise ArmError("NotFound", text, 404)
    return history


def _status(history: EventHistory) -> str:
    if history.ended is None:
        return "Pending" if history.started_at is None else "InProgress"
    if history.ended is not FactType.ENDED:
        return "Cancel"
    return "RetryLater" if history.impact_failed else "Completed"


def _document(context: ArmContext, maintained: MaintainedResource, name: str, status: str) -> Body:
    path = maintained.scope.path(context)
    time = iso(int(context.fleet.clock.now()))
    return {
        "id": f"{path}/providers/{_APPLY_UPDATES}/{name}",
        "name": name,
        "type": _APPLY_UPDATES,
        "properties": {"status": status, "resourceId": path, "lastUpdateTime": time},
    }


_PATHS = (
    f"{COMPUTE}/{{kind}}/{{resource}}",
    f"{COMPUTE}/virtualMachineScaleSets/{{set}}/virtualMachines/{{number}}",
)
ROUTES = tuple(
    Route(method, f"{path}/providers/{_NAMESPACE}/{rest}", handler)
    for path in _PATHS
    for method, rest, handler in (
        ("GET", "updates", _updates),
        ("PUT", "applyUpdates/{name}", _apply),
        ("GET", "applyUpdates/{name}", _get),
    )
)

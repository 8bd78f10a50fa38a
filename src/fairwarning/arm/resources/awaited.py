"""What a running operation waits for, in sentences for its status document."""

from collections.abc import Iterable, Sequence

from fairwarning.arm.http.context import PAGE, ArmContext
from fairwarning.arm.resources import targets
from fairwarning.core.model import (
    Event,
    EventStatus,
    Impact,
    Operation,
    Ref,
    Resource,
    ScaleSet,
    Scope,
)
from fairwarning.service import resources
from fairwarning.service.history.explanations import join_names
from fairwarning.service.listing.waiting import Moments
from fairwarning.service.resources import CLOUD_SERVICE, MACHINE, SCALE_SET

_SENTENCES = 10
_PAUSED = "the clock to move on: it is paused, and `fairwarning clock` moves it"


async def waiting_for(context: ArmContext, operation: Operation) -> list[str]:
    """Return what the operation waits for: approvals, ends of notices, impacts in progress."""
    clock = context.fleet.clock
    moments = Moments(clock.now())
    sentences = [
        sentence
        for scope in await _scopes(context, operation.target)
        for sentence in _in_scope(scope, operation.id, moments)
    ]
    more = len(sentences) - _SENTENCES
    if more > 0:
        sentences = [*sentences[:_SENTENCES], f"{more} more events and impacts"]
    return [_PAUSED, *sentences] if sentences and not clock.rate else sentences


def _in_scope(scope: Scope, operation: str, moments: Moments) -> Iterable[str]:
    for event in scope.events.values():
        if event.operation == operation and event.status is EventStatus.SCHEDULED:
            yield _event_sentence(event, moments)
    impacts = [i for i in scope.impacts.values() if i.operation == operation and i.in_progress]
    if impacts:
        yield _impact_sentence(impacts, moments)


def _event_sentence(event: Event, moments: Moments) -> str:
    until = moments.text(event.not_before)
    others = " and of the other machines on its host" if event.awaits else ""
    return f"{event.type} of {join_names(event.resources)}: approval{others}, or {until}"


def _impact_sentence(impacts: Sequence[Impact], moments: Moments) -> str:
    kinds = " or ".join(sorted({impact.kind.value for impact in impacts}))
    names = join_names([impact.machine for impact in impacts])
    until = moments.text(max(impact.deadline or 0.0 for impact in impacts))
    return f"the end of the {kinds} of {names}, by {until} at the latest"


# --- Where the operation has effects --------------------------------------------------------------


async def _scopes(context: ArmContext, target: str) -> list[Scope]:
    """Return the scopes of what the command addressed: a scope, a scale set or a resource."""
    reader = context.fleet.reader
    refs: list[Ref] = [(Scope, target), (ScaleSet, target), (Resource, target)]
    scopes: list[Scope] = []
    for entity in (await reader.read_all(refs)).values():
        if isinstance(entity, Scope):
            scopes.append(entity)
        elif isinstance(entity, ScaleSet):
            scopes += await targets.placement_groups(context, entity)
        elif isinstance(entity, Resource):
            scopes += await _of_resources(context, await _with_contents(context, entity))
    return scopes


async def _with_contents(context: ArmContext, resource: Resource) -> list[Resource]:
    """Return the resource; of a resource group, the first of its machines and sets, too."""
    rows = [resource]
    if resource.id == resources.group_id(resource.name):
        for kind in (MACHINE, CLOUD_SERVICE, SCALE_SET):
            prefix = resources.id_prefix(kind, resource.name)
            rows += await context.fleet.reader.resources(prefix, prefix, PAGE)
    return rows


async def _of_resources(context: ArmContext, rows: Sequence[Resource]) -> list[Scope]:
    scopes = list((await context.scopes(rows)).values())
    refs: list[Ref] = [(ScaleSet, row.set) for row in rows if row.set]
    for entity in (await context.fleet.reader.read_all(refs)).values():
        if isinstance(entity, ScaleSet):
            scopes += await targets.placement_groups(context, entity)
    return scopes

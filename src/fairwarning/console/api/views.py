"""Conversion of entities to API responses.

Members that have the name and the form of the entity's are copied; the others are given.
"""

from typing import TypeVar

from msgspec import Struct

from fairwarning.console.api import responses
from fairwarning.core import rollout as rollouts
from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Event, ImpactKind, Machine, Operation, Rollout, ScaleSet, Scope
from fairwarning.core.times import format_duration, iso
from fairwarning.service.history.events import EventHistory, JournalEntry
from fairwarning.service.history.explanations import Explanation, detail_text
from fairwarning.service.lookup import MachineLocation

Response = TypeVar("Response", bound=Struct)


def copied(kind: type[Response], source: object, /, **others: object) -> Response:
    """Return a response with these members; the others are those of the source."""
    names = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**{name: getattr(source, name) for name in names}, **others)


def time(moment: float) -> str:
    """Format a time as the API does."""
    return iso(int(moment))


def time_or_none(moment: float | None) -> str | None:
    """Format a time that may be missing."""
    return None if moment is None else time(moment)


def _notice(seconds: int) -> str | None:
    return format_duration(seconds) if seconds else None


def event_info(event: Event, scope: str) -> responses.EventInfo:
    """Describe a live event."""
    return copied(
        responses.EventInfo,
        event,
        scope=scope,
        created_at=time(event.created_at),
        not_before=iso(event.not_before),
        opens_at=time_or_none(event.opens_at or None),
    )


def past_event_info(history: EventHistory) -> responses.EventInfo:
    """Describe an event that is over, from the journal; its first line may have been dropped."""
    times = (history.created_at, history.approved_at, history.started_at, history.ended_at)
    return copied(
        responses.EventInfo,
        history,
        type=history.type or "",
        status="Over",
        source=history.source or "",
        created_at=time(next(filter(None, times), 0.0)),
        not_before=time_or_none(history.not_before),
        opens_at=None,
        impact=None,
        duration_seconds=-1,
        description="",
        awaits=[],
    )


def machine_info(location: MachineLocation, scope: Scope, url: str | None) -> responses.MachineInfo:
    """Describe a machine of a scope."""
    machine: Machine = scope.machines.get(location.machine.name, location.machine)
    impact = scope.impacts.get(machine.name)
    return copied(
        responses.MachineInfo,
        machine,
        scope=scope.id,
        set=scope.owner,
        number=location.number,
        kind=scope.kind,
        group=scope.group,
        terminate_notice=_notice(machine.terminate_seconds),
        url=url,
        polled=scope.enabled,
        doing=impact.kind if impact and impact.in_progress else None,
        events=[
            event_info(event, scope.id)
            for event in scope.events.values()
            if machine.name in event.resources
        ],
    )


def scope_info(
    scope: Scope, locations: list[MachineLocation], urls: list[str | None], polled_at: float
) -> responses.ScopeInfo:
    """Describe a scope with its machines."""
    return copied(
        responses.ScopeInfo,
        scope,
        set=scope.owner,
        polled_at=time(polled_at) if polled_at else None,
        machines=[
            machine_info(location, scope, url)
            for location, url in zip(locations, urls, strict=True)
        ],
        events=[event_info(event, scope.id) for event in scope.events.values()],
    )


def operation_info(operation: Operation) -> responses.OperationInfo:
    """Describe an operation."""
    return copied(
        responses.OperationInfo,
        operation,
        accepted_at=time(operation.accepted_at),
        ended_at=time_or_none(operation.ended_at),
    )


def scale_set_info(scale_set: ScaleSet, groups: list[Scope]) -> responses.ScaleSetInfo:
    """Describe a scale set, with the machines of its placement groups."""
    machines = [machine for group in groups for machine in group.machines.values()]
    impacts = [impact for group in groups for impact in group.impacts.values()]
    leaving = sum(impact.kind is ImpactKind.DELETE for impact in impacts)
    return copied(
        responses.ScaleSetInfo,
        scale_set,
        name=scale_set.id,
        capacity=len(machines) - leaving,
        leaving=leaving,
        terminate_notice=_notice(scale_set.terminate_seconds),
        scopes=scale_set.groups,
        deleting=bool(scale_set.deleting),
        outdated=[machine.name for machine in machines if machine.model != scale_set.model],
    )


def rollout_info(rollout: Rollout) -> responses.RolloutInfo:
    """Describe a rollout."""
    return copied(
        responses.RolloutInfo,
        rollout,
        started_at=time(rollout.started_at),
        ended_at=time_or_none(rollout.ended_at),
        progress=rollouts.progress(rollout),
        running=len(rollout.running),
    )


def line_info(entry: JournalEntry) -> responses.JournalLineInfo:
    """Describe a journal line."""
    line: JournalLine = entry.line
    kind, name = line.entity
    return copied(
        responses.JournalLineInfo,
        line.fact,
        number=entry.number,
        at=time(line.at),
        actor=line.actor,
        about=f"{kind.__name__} {name}",
        detail=detail_text(line.fact),
    )


def explanation_info(explanation: Explanation) -> responses.ExplanationInfo:
    """Describe an explanation, with durations if it is about a single event."""
    first = explanation.steps[0].at if explanation.steps else 0.0
    history = (
        explanation.events[0] if explanation.kind == "event" else EventHistory(id="", scope="")
    )
    approvals = [(event.approved_by, event.approved_at) for event in explanation.events]
    deliveries = {
        name: at for event in reversed(explanation.events) for name, at in event.delivered.items()
    }
    return copied(
        responses.ExplanationInfo,
        explanation,
        steps=[
            copied(
                responses.ExplanationStepInfo,
                step,
                at=time(step.at),
                after_seconds=round(step.at - first, 3),
            )
            for step in explanation.steps
        ],
        deliveries=[
            responses.DeliveryInfo(machine=name, at=time(at)) for name, at in deliveries.items()
        ],
        approvals=[
            responses.ApprovalInfo(by=by, at=time(at)) for by, at in approvals if at is not None
        ],
        notice_seconds=_seconds_between(history.created_at, history.not_before),
        waited_seconds=_seconds_between(history.created_at, history.started_at),
        impact_seconds=_seconds_between(history.started_at, history.ended_at),
        events=[event.id for event in explanation.events],
    )


def _seconds_between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 3)

"""Conversion of entities to API responses."""

from fairwarning.console.api import responses
from fairwarning.core import rollout as rollouts
from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from fairwarning.core.model import Event, ImpactKind, Machine, Operation, Rollout, ScaleSet, Scope
from fairwarning.core.times import format_duration, iso
from fairwarning.service.history.events import EventHistory, JournalEntry
from fairwarning.service.history.explanations import Explanation, detail_text
from fairwarning.service.listing.lanes import LaneState, LaneSummary
from fairwarning.service.listing.progress import FailedMachine
from fairwarning.service.lookup import MachineLocation


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
    return responses.EventInfo(
        id=event.id,
        type=event.type.value,
        status=event.status.value,
        source=event.source.value,
        scope=scope,
        resources=list(event.resources),
        created_at=time(event.created_at),
        not_before=iso(event.not_before),
        operation=event.operation,
        impact=event.impact.value if event.impact else None,
        duration_seconds=event.duration_seconds,
        description=event.description,
        approved_by=event.approved_by,
        awaits=list(event.awaits),
    )


def past_event_info(history: EventHistory) -> responses.EventInfo:
    """Describe an event that is over, from the journal; its first line may have been dropped."""
    times = (history.created_at, history.approved_at, history.started_at, history.ended_at)
    return responses.EventInfo(
        id=history.id,
        type=history.type.value if history.type else "",
        status="Over",
        source=history.source.value if history.source else "",
        scope=history.scope,
        resources=list(history.resources),
        created_at=time(next(filter(None, times), 0.0)),
        not_before=time_or_none(history.not_before),
        operation=history.operation,
        impact=None,
        duration_seconds=-1,
        description="",
        approved_by=history.approved_by,
        awaits=[],
    )


def event_history_info(history: EventHistory, live: Event | None) -> responses.EventHistoryInfo:
    """Describe an event with the times of its transitions."""
    info = event_info(live, history.scope) if live else past_event_info(history)
    return responses.EventHistoryInfo(
        **{name: getattr(info, name) for name in info.__struct_fields__},
        approved_at=time_or_none(history.approved_at),
        started_at=time_or_none(history.started_at),
        ended_at=time_or_none(history.ended_at),
        cancelled=history.ended is FactType.CANCELLED,
    )


def machine_info(location: MachineLocation, scope: Scope, url: str | None) -> responses.MachineInfo:
    """Describe a machine of a scope."""
    machine: Machine = scope.machines.get(location.machine.name, location.machine)
    impact = scope.impacts.get(machine.name)
    return responses.MachineInfo(
        name=machine.name,
        scope=scope.id,
        set=scope.owner,
        instance=machine.instance,
        number=location.number,
        kind=scope.kind.value,
        group=scope.group,
        host_name=machine.host_name,
        host=machine.host,
        power=machine.power.value,
        priority=machine.priority.value,
        eviction=machine.eviction.value,
        update_domain=machine.update_domain,
        fault_domain=machine.fault_domain,
        terminate_notice=_notice(machine.terminate_seconds),
        size=machine.size,
        zone=machine.zone,
        tags=dict(machine.tags),
        address=machine.address,
        subnet=machine.subnet,
        url=url,
        polled=scope.enabled,
        doing=impact.kind.value if impact and impact.in_progress else None,
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
    return responses.ScopeInfo(
        id=scope.id,
        kind=scope.kind.value,
        set=scope.owner,
        group=scope.group,
        enabled=scope.enabled,
        incarnation=scope.incarnation,
        polled_at=time(polled_at) if polled_at else None,
        machines=[
            machine_info(location, scope, url)
            for location, url in zip(locations, urls, strict=True)
        ],
        events=[event_info(event, scope.id) for event in scope.events.values()],
    )


def operation_info(operation: Operation) -> responses.OperationInfo:
    """Describe an operation."""
    return responses.OperationInfo(
        id=operation.id,
        kind=operation.kind,
        actor=operation.actor,
        status=operation.status.value,
        accepted_at=time(operation.accepted_at),
        ended_at=time_or_none(operation.ended_at),
        planned=operation.planned,
        done=operation.done,
        failed=operation.failed,
        cancelled=operation.cancelled,
        error=operation.error,
    )


def scale_set_info(scale_set: ScaleSet, groups: list[Scope]) -> responses.ScaleSetInfo:
    """Describe a scale set, with the machines of its placement groups."""
    machines = [machine for group in groups for machine in group.machines.values()]
    impacts = [impact for group in groups for impact in group.impacts.values()]
    leaving = sum(impact.kind is ImpactKind.DELETE for impact in impacts)
    return responses.ScaleSetInfo(
        name=scale_set.id,
        group=scale_set.group,
        capacity=len(machines) - leaving,
        leaving=leaving,
        model=scale_set.model,
        terminate_notice=_notice(scale_set.terminate_seconds),
        upgrade=scale_set.upgrade.value,
        scale_in=scale_set.scale_in.value,
        priority=scale_set.priority.value,
        eviction=scale_set.eviction.value,
        size=scale_set.size,
        zones=list(scale_set.zones),
        tags=dict(scale_set.tags),
        subnet=scale_set.subnet,
        scopes=list(scale_set.groups),
        deleting=bool(scale_set.deleting),
        outdated=[machine.name for machine in machines if machine.model != scale_set.model],
    )


def rollout_info(rollout: Rollout) -> responses.RolloutInfo:
    """Describe a rollout."""
    return responses.RolloutInfo(
        id=rollout.id,
        kind=rollout.kind.value,
        actor=rollout.actor,
        status=rollout.status.value,
        why=rollout.why,
        started_at=time(rollout.started_at),
        ended_at=time_or_none(rollout.ended_at),
        machines=rollout.machines,
        done=rollout.done,
        failed=rollout.failed,
        skipped=rollout.skipped,
        progress=rollouts.progress(rollout),
        batch=rollout.batch,
        lanes=rollout.lanes,
        running=len(rollout.running),
        halt_percent=rollout.halt_percent,
    )


def failed_machine_info(failure: FailedMachine) -> responses.FailedMachineInfo:
    """Describe a machine on which a rollout failed."""
    return responses.FailedMachineInfo(
        machine=failure.machine, scope=failure.scope, error=failure.error, at=time(failure.at)
    )


def lane_info(lane: LaneSummary) -> responses.LaneInfo:
    """Describe a lane of a rollout."""
    steps = []
    for position, step in enumerate(lane.steps):
        state = "Done" if position < lane.position else "ToCome"
        if position == lane.position and lane.state is not LaneState.NOT_STARTED:
            state = "Current"
        machines = {scope: list(names) for scope, names in step.items()}
        steps.append(responses.LaneStepInfo(state=state, machines=machines))
    return responses.LaneInfo(
        number=lane.number,
        state=lane.state.value,
        scopes=lane.scopes,
        steps=steps,
        waits_for=list(lane.waits_for),
    )


def line_info(entry: JournalEntry) -> responses.JournalLineInfo:
    """Describe a journal line."""
    line: JournalLine = entry.line
    kind, name = line.entity
    return responses.JournalLineInfo(
        number=entry.number,
        at=time(line.at),
        actor=line.actor,
        about=f"{kind.__name__} {name}",
        type=line.fact.type.value,
        event=line.fact.event,
        machines=list(line.fact.machines),
        operation=line.fact.operation,
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
    return responses.ExplanationInfo(
        kind=explanation.kind,
        id=explanation.id,
        title=explanation.title,
        summary=explanation.summary,
        awaits=explanation.awaits,
        steps=[
            responses.ExplanationStepInfo(
                at=time(step.at),
                after_seconds=round(step.at - first, 3),
                type=step.type.value,
                actor=step.actor,
                machines=list(step.machines),
                text=step.text,
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

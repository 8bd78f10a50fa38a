"""Entities as the API shows them."""

from fairwarning.console.api import responses
from fairwarning.core import rollout as rollouts
from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from fairwarning.core.model import Event, ImpactKind, Machine, Operation, Rollout, ScaleSet, Scope
from fairwarning.core.times import format_duration, iso
from fairwarning.service.history.events import EventHistory, JournalEntry
from fairwarning.service.history.explanations import Explanation, detail_text
from fairwarning.service.lookup import MachineLocation


def time(moment: float) -> str:
    """A moment as the API writes it."""
    return iso(int(moment))


def time_or_none(moment: float | None) -> str | None:
    """The same, if there is one."""
    return None if moment is None else time(moment)


def _notice(seconds: int) -> str | None:
    return format_duration(seconds) if seconds else None


def event(one: Event, scope: str) -> responses.EventInfo:
    """An event that is there."""
    return responses.EventInfo(
        id=one.id,
        type=one.type.value,
        status=one.status.value,
        source=one.source.value,
        scope=scope,
        resources=list(one.resources),
        created_at=time(one.created_at),
        not_before=iso(one.not_before),
        operation=one.operation,
        impact=one.impact.value if one.impact else None,
        duration_seconds=one.duration_seconds,
        description=one.description,
        approved_by=one.approved_by,
        awaits=list(one.awaits),
    )


def past_event(life: EventHistory) -> responses.EventInfo:
    """An event that is over, as far as the journal tells."""
    return responses.EventInfo(
        id=life.id,
        type=life.type.value if life.type else "",
        status="Over",
        source=life.source.value if life.source else "",
        scope=life.scope,
        resources=list(life.resources),
        created_at=time(life.created_at or 0.0),
        not_before=time_or_none(life.not_before),
        operation=life.operation,
        impact=None,
        duration_seconds=-1,
        description="",
        approved_by=life.approved_by,
        awaits=[],
    )


def event_history(life: EventHistory, live: Event | None) -> responses.EventHistoryInfo:
    """An event on the timeline."""
    shown = event(live, life.scope) if live else past_event(life)
    return responses.EventHistoryInfo(
        **{name: getattr(shown, name) for name in shown.__struct_fields__},
        approved_at=time_or_none(life.approved_at),
        started_at=time_or_none(life.started_at),
        ended_at=time_or_none(life.ended_at),
        cancelled=life.ended is FactType.CANCELLED,
    )


def machine(place: MachineLocation, scope: Scope) -> responses.MachineInfo:
    """A machine of a scope."""
    one: Machine = scope.machines.get(place.machine.name, place.machine)
    impact = scope.impacts.get(one.name)
    return responses.MachineInfo(
        name=one.name,
        scope=scope.id,
        set=scope.owner,
        instance=one.instance,
        number=place.number,
        kind=scope.kind.value,
        group=scope.group,
        host_name=one.host_name,
        host=one.host,
        power=one.power.value,
        priority=one.priority.value,
        eviction=one.eviction.value,
        update_domain=one.update_domain,
        fault_domain=one.fault_domain,
        terminate_notice=_notice(one.terminate_seconds),
        size=one.size,
        zone=one.zone,
        tags=dict(one.tags),
        address=one.address,
        polled=scope.enabled,
        doing=impact.kind.value if impact and impact.deadline is not None else None,
        events=[event(e, scope.id) for e in scope.events.values() if one.name in e.resources],
    )


def scope(one: Scope, places: list[MachineLocation]) -> responses.ScopeInfo:
    """A scope with its machines."""
    return responses.ScopeInfo(
        id=one.id,
        kind=one.kind.value,
        set=one.owner,
        group=one.group,
        enabled=one.enabled,
        incarnation=one.incarnation,
        polled_at=time(one.polled_at) if one.polled_at else None,
        machines=[machine(place, one) for place in places],
        events=[event(e, one.id) for e in one.events.values()],
    )


def operation(one: Operation) -> responses.OperationInfo:
    """An operation."""
    return responses.OperationInfo(
        id=one.id,
        kind=one.kind,
        actor=one.actor,
        status=one.status.value,
        accepted_at=time(one.accepted_at),
        ended_at=time_or_none(one.ended_at),
        planned=one.planned,
        done=one.done,
        failed=one.failed,
        cancelled=one.cancelled,
        error=one.error,
    )


def scale_set(one: ScaleSet, groups: list[Scope]) -> responses.ScaleSetInfo:
    """A scale set with what its placement groups hold."""
    machines = [machine for group in groups for machine in group.machines.values()]
    impacts = [impact for group in groups for impact in group.impacts.values()]
    leaving = sum(impact.kind is ImpactKind.DELETE for impact in impacts)
    return responses.ScaleSetInfo(
        name=one.id,
        group=one.group,
        capacity=len(machines) - leaving,
        leaving=leaving,
        model=one.model,
        terminate_notice=_notice(one.terminate_seconds),
        upgrade=one.upgrade.value,
        scale_in=one.scale_in.value,
        priority=one.priority.value,
        eviction=one.eviction.value,
        size=one.size,
        zone=one.zone,
        tags=dict(one.tags),
        scopes=list(one.groups),
        deleting=bool(one.deleting),
        outdated=[machine.name for machine in machines if machine.model != one.model],
    )


def rollout(one: Rollout) -> responses.RolloutInfo:
    """A rollout."""
    return responses.RolloutInfo(
        id=one.id,
        kind=one.kind.value,
        actor=one.actor,
        status=one.status.value,
        why=one.why,
        started_at=time(one.started_at),
        ended_at=time_or_none(one.ended_at),
        machines=one.machines,
        done=one.done,
        failed=one.failed,
        skipped=one.skipped,
        progress=rollouts.progress(one),
        batch=one.batch,
        lanes=one.lanes,
        running=len(one.running),
        halt_percent=one.halt_percent,
    )


def line(entry: JournalEntry) -> responses.JournalLineInfo:
    """A line of the journal."""
    told: JournalLine = entry.line
    kind, name = told.entity
    return responses.JournalLineInfo(
        number=entry.number,
        at=time(told.at),
        actor=told.actor,
        about=f"{kind.__name__} {name}",
        type=told.fact.type.value,
        event=told.fact.event,
        machines=list(told.fact.machines),
        operation=told.fact.operation,
        detail=detail_text(told.fact),
    )


def explanation(one: Explanation) -> responses.ExplanationInfo:
    """A story, and how long its parts took where it is about one event."""
    first = one.steps[0].at if one.steps else 0.0
    life = one.events[0] if one.kind == "event" else EventHistory(id="", scope="")
    approvals = [(each.approved_by, each.approved_at) for each in one.events]
    told = {name: at for each in reversed(one.events) for name, at in each.delivered.items()}
    return responses.ExplanationInfo(
        kind=one.kind,
        id=one.id,
        title=one.title,
        summary=one.summary,
        awaits=one.awaits,
        steps=[
            responses.ExplanationStepInfo(
                at=time(step.at),
                after=round(step.at - first, 3),
                type=step.type.value,
                actor=step.actor,
                machines=list(step.machines),
                text=step.text,
            )
            for step in one.steps
        ],
        told=[responses.DeliveryInfo(machine=name, at=time(at)) for name, at in told.items()],
        approved=[
            responses.ApprovalInfo(by=by, at=time(at)) for by, at in approvals if at is not None
        ],
        notice_seconds=_between(life.created_at, life.not_before),
        waited_seconds=_between(life.created_at, life.started_at),
        impact_seconds=_between(life.started_at, life.ended_at),
        events=[each.id for each in one.events],
    )


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 3)

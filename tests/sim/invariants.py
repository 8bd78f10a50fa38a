"""One function per invariant; it raises `Violation` if the invariant does not hold."""

from collections.abc import Iterable

from fairwarning.core import limits, windows
from fairwarning.core.commands import Maintain
from fairwarning.core.model import (
    Event,
    EventStatus,
    EventType,
    Impact,
    ImpactKind,
    Lane,
    Power,
    Rules,
    Scope,
)
from tests.sim.observed_state import (
    CLOCK_SECONDS,
    LONGEST_IMPACT_SECONDS,
    PUBLISHED_SECONDS,
    KnownEvent,
    ObservedState,
)
from tests.sim.resources import is_being_deleted
from tests.sim.violations import must


def _visible(scope: Scope) -> list[tuple[object, ...]]:
    return [
        (event.id, event.status, event.type, event.resources, event.not_before)
        for event in scope.events.values()
    ]


def id1_id2(before: Scope | None, after: Scope) -> None:
    """An equal incarnation means equal content, and it never falls while the scope is enabled."""
    if before is None or not before.incarnation or not after.incarnation:
        if after.incarnation:
            must(after.incarnation >= 1, "ID2", "incarnations of an enabled scope start at 1")
        return
    if after.incarnation == before.incarnation:
        if before.events is not after.events:
            same = _visible(before) == _visible(after)
            must(same, "ID1", f"{after.id} changed within incarnation {after.incarnation}")
    else:
        change = f"from {before.incarnation} to {after.incarnation}"
        rises = after.incarnation > before.incarnation
        must(rises, "ID2", f"the incarnation of {after.id} fell {change}")


def id4(event: dict[str, object]) -> None:
    """A document has only two statuses, and NotBefore is empty exactly when Started."""
    status, not_before = event["EventStatus"], event["NotBefore"]
    must(status in {"Scheduled", "Started"}, "ID4", f"status {status}")
    agrees = (not_before == "") == (status == "Started")
    must(agrees, "ID4", f"NotBefore {not_before!r} while {status}")


def id7(observed: ObservedState, scope: str, event: dict[str, object]) -> None:
    """A machine sees only events of its own scope."""
    known = observed.events[str(event["EventId"])]
    must(known.scope == scope, "ID7", f"{scope} sees an event of {known.scope}")


def id8(scope: Scope) -> None:
    """A document has at most 256 events."""
    must(len(scope.events) <= 256, "ID8", f"{len(scope.events)} events in {scope.id}")


def is_rest(observed: ObservedState, scope: str, event: Event) -> bool:
    """Whether an event is what is left of one that was announced before."""
    announced = observed.announced[scope, event.operation]
    return any(other.event.id != event.id for other in announced)


def announced_at(observed: ObservedState, scope: str, event: Event) -> float:
    """The true time of an announcement; what is left of a wave's event keeps that of the whole."""
    return next(
        (
            other.announced_at
            for other in observed.announced[scope, event.operation]
            if other.event.created_at == event.created_at
        ),
        observed.true_time() if observed.true_time else 0.0,
    )


def il3(observed: ObservedState, before: Scope | None, scope: Scope, event: Event) -> None:
    """Notice is never shorter than its type promises."""
    if event.status is EventStatus.STARTED:
        return
    if before is None or before.rules != scope.rules:
        return  # it may be announced by rules that changed again in the same batch
    if event.peers and is_rest(observed, scope.id, event):
        return
    notice = event.not_before - event.created_at
    enough = notice >= _notice_seconds(scope.rules, event.type)
    must(enough, "IL3", f"{event.type} in {scope.id} has {notice:.3f} s of notice")


def e5_rest(observed: ObservedState, before: Scope | None, scope: Scope, event: Event) -> None:
    """What is left of an event keeps its time, unless its notice or window needs a later one."""
    whole = [
        other.event.not_before
        for other in observed.announced[scope.id, event.operation]
        if set(other.event.resources) > set(event.resources)
    ]
    if whole and before and before.rules == scope.rules and not event.opens_at:
        latest = max(*whole, event.created_at + _notice_seconds(scope.rules, event.type) + 1)
        late = event.not_before - latest
        must(late <= 0, "E5", f"{event.id}, what is left of an event, is {late:.0f} s later")


def _notice_seconds(rules: Rules, kind: EventType) -> int:
    """The least notice of an event type, by the rules of its scope."""
    return {
        EventType.FREEZE: rules.freeze_seconds,
        EventType.REBOOT: rules.reboot_seconds,
        EventType.REDEPLOY: rules.redeploy_seconds,
        EventType.PREEMPT: rules.preempt_seconds,
        EventType.SPOT_REBALANCE: rules.recommend_seconds,
        EventType.TERMINATE: limits.TERMINATE_MIN_SECONDS,
    }[kind]


def il4(old: Event, new: Event) -> None:
    """The published data of an event does not change."""
    must(new.not_before >= old.not_before, "IL4", f"NotBefore of {new.id} moved earlier")
    same = (new.resources, new.type, new.source) == (old.resources, old.type, old.source)
    must(same, "ID1", f"resources, type or source of event {new.id} changed")


def e4(scope: Scope, event: Event) -> None:
    """An event covers a single update domain."""
    domains = {
        scope.machines[name].update_domain for name in event.resources if name in scope.machines
    }
    must(len(domains) <= 1, "E4", f"event {event.id} spans update domains {domains}")
    must(domains, "ID7", f"event {event.id} names no machine of {scope.id}")


def ic4(observed: ObservedState, before: Scope | None, after: Scope) -> None:
    """Instance ids are never reused, and placement groups never exceed their limit."""
    if not after.owner or (before and before.machines is after.machines):
        return
    for name, machine in after.machines.items():
        if before is None or name not in before.machines:
            instance = (after.owner, machine.instance)  # a machine that joins has any name
            must(instance not in observed.instances, "IC4", f"instance id {instance} was reused")
            observed.instances.add(instance)
    must(len(after.machines) <= 100, "T7", f"{len(after.machines)} machines in {after.id}")


def il5_begun(observed: ObservedState, impact: Impact) -> None:
    """An impact begins only while Started is durable."""
    if impact.event:
        status = observed.events[impact.event].status
        must(status == "Started", "IL5", f"{impact.id} begins while its event is {status}")
    observed.impacts[impact.id] = "begun"
    observed.limits[impact.id] = impact.limit_seconds
    limit, duration = impact.limit_seconds, impact.duration_seconds
    must(limit >= duration, "E9", f"{impact.id} takes {duration} s, but its limit is {limit} s")


def il5_carried_out(observed: ObservedState, impact: Impact) -> None:
    """The driver acts once, on a begun impact. Not called for repeats that it recognizes."""
    state = observed.impacts.get(impact.id)
    is_handed_over = state in {"begun", "given up"}
    must(is_handed_over, "IL5", f"{impact.id} is carried out while it is {state}")
    must(impact.id not in observed.carried_out, "IL5", f"{impact.id} is carried out twice")
    observed.carried_out.add(impact.id)


def il6(observed: ObservedState, scope: Scope, now: float) -> None:
    """No event stays Scheduled past NotBefore, or Started past its limit."""
    for event in scope.events.values():
        if event.status is EventStatus.SCHEDULED:
            late = now - event.not_before
            must(late <= 5, "IL6", f"event {event.id} is still Scheduled {late:.1f} s too late")
    for impact in scope.impacts.values():
        if impact.in_progress:
            had_it = now - observed.with_driver_since[impact.id]
            must(had_it <= impact.limit_seconds + 5, "IL6", f"{impact.id} never ends")


def il9(observed: ObservedState, name: str) -> None:
    """An acknowledged approval is not lost."""
    known = observed.events[name]
    if known.status == "Scheduled":
        event = observed.scopes[known.scope].events[name]
        must(event.approved_by, "IL9", f"the acknowledged approval of {name} is lost")


def ic1(observed: ObservedState) -> None:
    """Accepted operations exist, and end when they have no work left."""
    active = {
        impact.operation
        for scope in observed.scopes.values()
        for impact in (*scope.impacts.values(), *scope.delayed.values())
    }
    active |= {scale_set.deleting for scale_set in observed.sets.values()}
    active |= {
        name
        for resource in observed.resources.values()
        for name in resource.awaited
        if is_being_deleted(observed, resource)
    }
    for name, operation in observed.open_operations.items():
        what = f"operation {name} ({operation.kind})"
        must(name in active, "IC1", f"{what} has nothing left to do and has not ended")
    for name in observed.accepted:
        must(name in observed.operations, "IC1", f"the accepted operation {name} does not exist")
    observed.accepted.clear()


def t6(observed: ObservedState, started: KnownEvent) -> None:
    """A delete waits for earlier deletes and for those with the same NotBefore."""
    owner = observed.scopes[started.scope].owner if started.scope in observed.scopes else ""
    for other in observed.open.values() if owner else ():
        if (
            other.status == "Scheduled"
            and not other.approved
            and other.event.type is EventType.TERMINATE
            and (scope := observed.scopes.get(other.scope))
            and scope.owner == owner
        ):
            must_wait = (
                other.event.created_at < started.event.created_at
                or other.event.not_before == started.event.not_before
            )
            must(not must_wait, "T6", f"{started.event.id} did not wait for {other.event.id}")


def e10(observed: ObservedState, started: KnownEvent) -> None:
    """A wave waits for all its scopes."""
    for other in observed.open.values():
        if (
            other.status == "Scheduled"
            and other.event.operation == started.event.operation
            and other.scope in started.event.peers
        ):
            must(other.approved, "E10", f"{started.event.id} did not wait for {other.event.id}")


def e10_host(scope: Scope, event: Event, lane: Lane | None) -> None:
    """Maintenance of a host affects the machines on it, not those that have left it.

    Not checked for what is left of an event: a late report may have moved a machine meanwhile.
    """
    if lane and lane.hosts:
        elsewhere = [m for m in event.resources if scope.machines[m].host not in lane.hosts]
        must(not elsewhere, "E10", f"{elsewhere} are not on a host of {lane.id}")


def e11(started: KnownEvent, true_time: float) -> None:
    """A notice lasts as long as was announced, whatever happened to the host's clock."""
    event = started.event
    lasted = true_time - started.announced_at
    short = event.not_before - event.created_at - lasted
    must(short < CLOCK_SECONDS, "E11", f"the notice of {event.id} was {short:.1f} s too short")


def e11_published(observed: ObservedState, scope: Scope, event: Event) -> None:
    """Machines are told a NotBefore in the time of the host's clock, whatever happened to it."""
    if observed.wall_time and not is_rest(observed, scope.id, event):
        right = observed.wall_time() + event.not_before - event.created_at
        off = event.published_not_before - right
        must(abs(off) <= PUBLISHED_SECONDS, "E11", f"NotBefore of {event.id} is {off:.1f} s off")


def _is_maintenance(observed: ObservedState, event: Event) -> bool:
    """Whether the platform maintains an update domain: a live migration moves single machines."""
    request = observed.requests.get(event.operation)
    if not isinstance(request, Maintain):
        return event.maintenance
    return not (request.migration and request.kind is ImpactKind.FREEZE)


def e7_window(before: Scope | None, scope: Scope, event: Event, lane: Lane | None) -> None:
    """A rollout announces NotBefore for when its window is open, by the clock of the machines."""
    window = scope.rules.maintenance_window
    if lane and before and before.rules == scope.rules and window:
        told = event.published_not_before
        opens_at = windows.common_opening((window,), told - PUBLISHED_SECONDS)
        assert opens_at is not None
        must(opens_at <= told, "E7", f"at {told} the window {window} of {scope.id} is not open")


def ic6(observed: ObservedState, started: KnownEvent) -> None:
    """The platform maintains one domain of a scope at a time, and a rollout no machine twice."""
    event = started.event
    scope = observed.scopes[started.scope]
    domains = {
        scope.machines[name].update_domain
        for other in scope.events.values()
        if other.status is EventStatus.STARTED and _is_maintenance(observed, other)
        for name in other.resources
        if name in scope.machines
    }
    must(len(domains) <= 1, "IC6", f"domains {domains} of {scope.id} are affected at once")
    rollout = event.operation.rpartition("/")[0].rpartition("/")[0]
    if rollout not in observed.rollouts:
        return
    for name in event.resources:
        done = (scope.id, name) in observed.machines_done[rollout]
        must(not done, "IC6", f"{rollout} affects {name} again")


def e5(scope: Scope) -> None:
    """The platform does nothing to a machine that its user stopped, and so does not start it."""
    for name, impact in scope.impacts.items():
        if impact.keeps_power and impact.in_progress:
            power = scope.machines[name].power
            must(power is Power.RUNNING, "E5", f"{impact.kind} of {name}, which is {power}")


def e9(observed: ObservedState, impact: str, now: float) -> None:
    """The driver gets every impact, again after a crash, and each time has its limit for it."""
    available = now - observed.with_driver_since[impact]
    excused = observed.late(impact) or available <= LONGEST_IMPACT_SECONDS
    must(excused, "E9", f"{impact} was never carried out, although it had {available:.0f} s")
    limit = observed.limits[impact]
    must(available >= limit, "E9", f"{impact} was given up after {available:.0f} of {limit:.0f} s")


def e9_reports(observed: ObservedState, now: float) -> None:
    """What a driver reported as done is done for the fleet too, however late the report came."""
    for name, (impact, at) in tuple(observed.reported.items()):
        if now < at + 5:
            continue  # the disk may have been full
        del observed.reported[name]
        scope = observed.scopes.get(impact.scope)
        machine = scope.machines.get(impact.machine) if scope else None
        # Else it is another machine of the same name.
        if machine and machine.created_at <= observed.begun_at[name]:
            state = observed.impacts[name]
            must(state == "done", "E9", f"{name} was carried out, but the fleet says {state}")
            deleted = impact.kind is ImpactKind.DELETE
            must(not deleted, "IL14", f"{machine.name} is shown, although {name} has deleted it")
    for name, operation in observed.failed_operations.items():
        if operation.kind not in {"DeleteSet", "Remove"}:  # these count more than impacts
            states = [observed.impacts[i] for i, of in observed.operation_of.items() if of == name]
            failed = sum(state != "done" for state in states)
            must(operation.failed <= failed, "E9", f"{name} failed for {operation.failed} machines")
    observed.failed_operations.clear()


def m12(observed: ObservedState, scope: str, events: Iterable[str], now: float) -> None:
    """An approval was refused: not for events of this scope that ended a short time ago."""
    for name in events:
        known = observed.events.get(name.upper())
        if known is None or known.scope != scope or now >= observed.gone_at.get(name, now) + 600:
            return
        if known.status == "":
            return  # it was never visible
        if observed.gone_at.get(name, now) < observed.dropped_before:
            return  # its end is dropped: a reboot has set the time back
    must(scope not in observed.scopes, "M12", f"{scope} may not approve {list(events)}")

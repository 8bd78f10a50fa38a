"""One function per invariant; it raises `Violation` if the invariant does not hold."""

from collections.abc import Iterable

from fairwarning.core.model import Event, EventStatus, EventType, Impact, Resource, Scope
from tests.sim.books import CLOCK_SECONDS, LONGEST_IMPACT_SECONDS, NOTICE_SECONDS, Books, KnownEvent
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
            must(
                _visible(before) == _visible(after),
                "ID1",
                f"{after.id} changed within incarnation {after.incarnation}",
            )
    else:
        must(
            after.incarnation > before.incarnation,
            "ID2",
            f"the incarnation of {after.id} fell from {before.incarnation} to {after.incarnation}",
        )


def id4(event: dict[str, object]) -> None:
    """A document has only two statuses, and NotBefore is empty exactly when Started."""
    must(event["EventStatus"] in {"Scheduled", "Started"}, "ID4", f"status {event['EventStatus']}")
    must(
        (event["NotBefore"] == "") == (event["EventStatus"] == "Started"),
        "ID4",
        f"NotBefore {event['NotBefore']!r} while {event['EventStatus']}",
    )


def id7(books: Books, scope: str, event: dict[str, object]) -> None:
    """A machine sees only events of its own scope."""
    known = books.events[str(event["EventId"])]
    must(known.scope == scope, "ID7", f"{scope} sees an event of {known.scope}")


def id8(scope: Scope) -> None:
    """A document has at most 256 events."""
    must(len(scope.events) <= 256, "ID8", f"{len(scope.events)} events in {scope.id}")


def il3(scope: Scope, event: Event) -> None:
    """Notice is never shorter than its type promises."""
    if event.status is EventStatus.STARTED:
        return
    notice = NOTICE_SECONDS.get(event.type, 0)
    if event.type is EventType.TERMINATE:
        notice = 300
    must(
        event.not_before - event.created_at >= notice,
        "IL3",
        f"{event.type} in {scope.id} has {event.not_before - event.created_at:.3f} s of notice",
    )


def il4(old: Event, new: Event) -> None:
    """The published data of an event does not change."""
    must(new.not_before >= old.not_before, "IL4", f"NotBefore of {new.id} moved earlier")
    must(
        (new.resources, new.type, new.source) == (old.resources, old.type, old.source),
        "ID1",
        f"resources, type or source of event {new.id} changed",
    )


def e4(scope: Scope, event: Event) -> None:
    """An event covers a single update domain."""
    domains = {
        scope.machines[name].update_domain for name in event.resources if name in scope.machines
    }
    must(len(domains) <= 1, "E4", f"event {event.id} spans update domains {domains}")
    must(domains, "ID7", f"event {event.id} names no machine of {scope.id}")


def ic4(books: Books, before: Scope | None, after: Scope) -> None:
    """Instance ids are never reused, and placement groups never exceed their limit."""
    if not after.owner or (before and before.machines is after.machines):
        return
    for name, machine in after.machines.items():
        if before is None or name not in before.machines:
            instance = (after.owner, machine.instance)  # a machine that joins has any name
            must(instance not in books.instances, "IC4", f"instance id {instance} was reused")
            books.instances.add(instance)
    must(len(after.machines) <= 100, "T7", f"{len(after.machines)} machines in {after.id}")


def il5_begun(books: Books, impact: Impact) -> None:
    """An impact begins only while Started is durable."""
    if impact.event:
        known = books.events[impact.event]
        must(
            known.status == "Started",
            "IL5",
            f"{impact.kind} of {impact.machine} begins while its event is {known.status}",
        )
    books.impacts[impact.id] = "begun"
    books.limits[impact.id] = impact.limit_seconds
    must(
        impact.limit_seconds >= impact.duration_seconds,
        "E9",
        f"{impact.id} takes {impact.duration_seconds} s, but its limit is {impact.limit_seconds} s",
    )


def il5_carried_out(books: Books, impact: Impact) -> None:
    """The driver acts once, on a begun impact. Not called for repeats that it recognizes."""
    must(
        books.impacts.get(impact.id) in {"begun", "given up"},
        "IL5",
        f"{impact.id} is carried out while it is {books.impacts.get(impact.id)}",
    )
    must(impact.id not in books.carried_out, "IL5", f"{impact.id} is carried out twice")
    books.carried_out.add(impact.id)


def il6(books: Books, scope: Scope, now: float) -> None:
    """No event stays Scheduled past NotBefore, or Started past its limit."""
    for event in scope.events.values():
        if event.status is EventStatus.SCHEDULED:
            must(
                now <= event.not_before + 5,
                "IL6",
                f"event {event.id} is still Scheduled {now - event.not_before:.1f} s too late",
            )
    for impact in scope.impacts.values():
        if impact.in_progress:
            had_it = now - books.with_driver_since[impact.id]
            must(had_it <= impact.limit_seconds + 5, "IL6", f"{impact.id} never ends")


def il9(books: Books, name: str) -> None:
    """An acknowledged approval is not lost."""
    known = books.events[name]
    if known.status == "Scheduled":
        event = books.scopes[known.scope].events[name]
        must(event.approved_by, "IL9", f"the acknowledged approval of {name} is lost")


def ic1(books: Books) -> None:
    """Accepted operations exist, and end when they have no work left."""
    active = {
        impact.operation for scope in books.scopes.values() for impact in scope.impacts.values()
    }
    active |= {scale_set.deleting for scale_set in books.sets.values()}
    active |= {
        name
        for resource in books.resources.values()
        for name in resource.awaited
        if _is_being_deleted(books, resource)
    }
    for name, operation in books.open_operations.items():
        must(
            name in active,
            "IC1",
            f"operation {name} ({operation.kind}) has nothing left to do and has not ended",
        )
    for name in books.accepted:
        must(name in books.operations, "IC1", f"the accepted operation {name} does not exist")
    books.accepted.clear()


def _is_being_deleted(books: Books, resource: Resource) -> bool:
    """Whether the set or machine of a resource is being deleted."""
    if resource.set:
        return bool(books.sets[resource.set].deleting)
    impact = books.scopes[resource.scope].impacts.get(resource.machine)
    return impact is not None and impact.kind == "delete"


def t6(books: Books, started: KnownEvent) -> None:
    """A delete waits for earlier deletes and for those with the same NotBefore."""
    owner = books.scopes[started.scope].owner if started.scope in books.scopes else ""
    for other in books.open.values() if owner else ():
        if (
            other.status == "Scheduled"
            and not other.approved
            and other.event.type is EventType.TERMINATE
            and (scope := books.scopes.get(other.scope))
            and scope.owner == owner
        ):
            must_wait = (
                other.event.created_at < started.event.created_at
                or other.event.not_before == started.event.not_before
            )
            must(not must_wait, "T6", f"{started.event.id} did not wait for {other.event.id}")


def e10(books: Books, started: KnownEvent) -> None:
    """A wave waits for all its scopes."""
    for other in books.open.values():
        if (
            other.status == "Scheduled"
            and other.event.operation == started.event.operation
            and other.scope in started.event.peers
        ):
            must(other.approved, "E10", f"{started.event.id} did not wait for {other.event.id}")


def e11(started: KnownEvent, true_time: float) -> None:
    """A notice lasts as long as was announced, whatever happened to the host's clock."""
    event = started.event
    lasted = true_time - started.announced_at
    short = event.not_before - event.created_at - lasted
    must(short < CLOCK_SECONDS, "E11", f"the notice of {event.id} was {short:.1f} s too short")


def ic6(books: Books, started: KnownEvent) -> None:
    """A rollout affects one domain of a scope at a time, and no machine twice."""
    event = started.event
    rollout = event.operation.rpartition("/")[0].rpartition("/")[0]
    if rollout not in books.rollouts:
        return
    scope = books.scopes[started.scope]
    domain = scope.machines[event.resources[0]].update_domain
    for other in scope.events.values():
        if other.status is EventStatus.STARTED and other.operation.startswith(rollout + "/"):
            domains = {
                scope.machines[name].update_domain
                for name in other.resources
                if name in scope.machines
            }
            must(domains <= {domain}, "IC6", f"two domains of {scope.id} are affected at once")
    for name in event.resources:
        must(name not in books.machines_done[rollout], "IC6", f"{rollout} affects {name} again")


def e9(books: Books, impact: str, now: float) -> None:
    """The driver gets every impact, again after a crash, and each time has its limit for it."""
    available = now - books.with_driver_since[impact]
    must(
        books.late(impact) or available <= LONGEST_IMPACT_SECONDS,
        "E9",
        f"{impact} was never carried out, although there were {available:.0f} s for it",
    )
    limit = books.limits[impact]
    must(available >= limit, "E9", f"{impact} was given up after {available:.0f} of {limit:.0f} s")


def e9_reports(books: Books, now: float) -> None:
    """What a driver reported as done is done for the fleet too, however late the report came."""
    for impact, (scope, machine, at) in tuple(books.reported.items()):
        if now < at + 5:
            continue  # the disk may have been full
        del books.reported[impact]
        if scope in books.scopes and machine in books.scopes[scope].machines:
            state = books.impacts[impact]
            must(state == "done", "E9", f"{impact} was carried out, but the fleet says {state}")
    for name, operation in books.failed_operations.items():
        if operation.kind not in {"DeleteSet", "Remove"}:  # these count more than impacts
            states = [books.impacts[i] for i, of in books.operation_of.items() if of == name]
            failed = sum(state != "done" for state in states)
            must(operation.failed <= failed, "E9", f"{name} failed for {operation.failed} machines")
    books.failed_operations.clear()


def m12(books: Books, scope: str, events: Iterable[str], now: float) -> None:
    """An approval was refused: not for events of this scope that ended a short time ago."""
    for name in events:
        known = books.events.get(name.upper())
        if known is None or known.scope != scope or now >= books.gone_at.get(name, now) + 600:
            return
        if known.status == "":
            return  # it was never visible
        if books.gone_at.get(name, now) < books.dropped_before:
            return  # its end is dropped: a reboot with an early clock has set the time back
    must(scope not in books.scopes, "M12", f"{scope} may not approve {list(events)}")

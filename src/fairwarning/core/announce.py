"""Turns an operation into events and impacts: which machines it may affect, and their notice.

E1 (notice), E4 (one update domain per event), E5 (one impact per machine), E6 (user limit), E8
(automatic approval), E10 (waves), M15 (no notice while the scope is disabled).
"""

from collections.abc import Iterable, Sequence

from fairwarning.core import limits
from fairwarning.core.commands import Degrade, Maintain, Operate, Restart
from fairwarning.core.errors import Conflict, Refused
from fairwarning.core.lifecycle import ScopeDraft, domains_under_maintenance, whole_seconds
from fairwarning.core.messages import MaintainForRollout
from fairwarning.core.model import (
    Event,
    EventStatus,
    EventType,
    Impact,
    ImpactKind,
    Machine,
    Power,
    Priority,
    Rules,
    Source,
    guid,
)
from fairwarning.core.operation_rules import (
    START,
    OperationRule,
    is_migration,
    notice_seconds,
    rule_of,
)


def announce(draft: ScopeDraft, command: Operate) -> None:
    """Apply an operation to its machines: with notice where required, otherwise at once."""
    machines = [draft.machine(name) for name in command.machines]
    if _by_domain(command):
        _check_one_domain(draft, machines)
    # A restart of a machine that its user stopped is a start: nobody is there to be warned.
    off = [m for m in machines if isinstance(command, Restart) and m.power is Power.STOPPED]
    on = [machine for machine in machines if machine not in off]
    for members, rule in ((on, rule_of(command)), (off, START)):
        if members:
            _announce(draft, command, members, rule)


def _announce(
    draft: ScopeDraft, command: Operate, machines: list[Machine], rule: OperationRule
) -> None:
    busy = _check_machines(draft, machines, rule)
    wave = command.peers if isinstance(command, MaintainForRollout) else ()
    noticed = [m for m in machines if _gets_notice(draft, m, rule, wave)]
    events = [
        _event(draft, command, rule, *part) for part in _parts(noticed, apart=rule.per_machine)
    ]
    _check_limits(draft, command, rule, events)
    if busy:
        _make_way(draft, busy.values(), rule)
    for event in events:
        _enter(draft, event)
    if rule.impact is not None:
        warned = {machine.name for machine in noticed}
        for machine in machines:
            if machine.name not in warned:
                draft.add_impact(
                    *(machine.name, rule.impact, command.operation, rule.source),
                    duration_seconds=rule.duration_seconds,
                )


def _enter(draft: ScopeDraft, event: Event) -> None:
    if event.status is EventStatus.STARTED:
        draft.announce_started(event)
        return
    draft.announce(event)
    if not draft.incarnation:
        # A disabled scope in a wave cannot approve: only its peers are awaited.
        draft.approve(event, "nobody, as nobody polls")


# --- Which machines may be affected --------------------------------------------------------------


def _check_machines(
    draft: ScopeDraft, machines: Sequence[Machine], rule: OperationRule
) -> dict[str, Impact]:
    """Refuse conflicts; return the unfinished impacts that give way, by machine (E5)."""
    busy: dict[str, Impact] = {}
    for machine in machines:
        if machine.power not in rule.powers:
            raise Conflict("NotRunning", f"{machine.name!r} is {machine.power}; start it first")
        if rule.spot_only and machine.priority is not Priority.SPOT:
            raise Conflict(
                "NotSpot", f"{machine.name!r} has priority Regular; this is for Spot machines"
            )
        if rule.impact is None:
            _check_advice(draft, machine, rule)
        elif machine.name in draft.impacts:
            busy[machine.name] = impact = draft.impacts[machine.name]
            _check_gives_way(draft, impact, rule)
    return busy


def _by_domain(command: Operate) -> bool:
    """Whether it is maintenance of one update domain; a live migration moves single machines."""
    return isinstance(command, Maintain) and not is_migration(command)


def _check_one_domain(draft: ScopeDraft, machines: Sequence[Machine]) -> None:
    """Raise `Conflict` if two update domains of a scope would be under maintenance (IC6)."""
    domains = {machine.update_domain for machine in machines} | domains_under_maintenance(draft)
    if len(domains) > 1:
        named = " and ".join(map(str, sorted(domains)))
        raise Conflict(
            "OtherUpdateDomain",
            f"only one update domain of {draft.scope.id!r} may be under maintenance at a time, not "
            f"{named}; start a rollout, which takes one after the other",
        )


def _waits_for_start(machine: Machine, impact: Impact, rule: OperationRule) -> bool:
    """Whether a pending impact of the platform is left to follow its user's start (E5)."""
    return (
        rule.impact is ImpactKind.START
        and machine.power is not Power.DEALLOCATED
        and not impact.in_progress
        and impact.keeps_power
    )


def _check_gives_way(draft: ScopeDraft, impact: Impact, rule: OperationRule) -> None:
    """Raise `Conflict` unless the unfinished impact gives way to this operation (E5)."""
    if impact.in_progress:
        gives_way = impact.kind in rule.interrupts
    else:
        platform = draft.events[impact.event].source is Source.PLATFORM
        gives_way = impact.kind in rule.replaces or (
            platform and impact.kind in rule.replaces_platform
        )
    if not gives_way:
        cause = f"event {impact.event}" if impact.event else f"operation {impact.operation}"
        cancel = "" if impact.in_progress else ", or cancel it"
        raise Conflict(
            "MachineBusy",
            f"{impact.machine!r} has an unfinished {impact.kind} ({cause}); "
            f"wait until it has ended{cancel}",
        )


def _make_way(draft: ScopeDraft, busy: Iterable[Impact], rule: OperationRule) -> None:
    """Interrupt or replace the unfinished impacts that give way."""
    replaced: dict[str, set[str]] = {}
    for impact in busy:
        if _waits_for_start(draft.machines[impact.machine], impact, rule):
            continue
        if impact.in_progress:
            draft.give_up(impact, f"interrupted by {rule.impact}")
        else:
            replaced.setdefault(impact.event, set()).add(impact.machine)
    for event_id, names in replaced.items():
        draft.displace(draft.events[event_id], names, f"replaced by {rule.impact}")


def _check_advice(draft: ScopeDraft, machine: Machine, rule: OperationRule) -> None:
    for event in draft.events.values():
        if event.type is rule.event and machine.name in event.resources:
            raise Conflict("AlreadyAdvised", f"{machine.name!r} has event {event.id} already")


def _check_limits(
    draft: ScopeDraft, command: Operate, rule: OperationRule, fresh: Sequence[Event]
) -> None:
    if len(draft.events) + len(fresh) > limits.SCOPE_EVENTS:
        raise Conflict(
            "TooManyEvents", f"a scope holds at most {limits.SCOPE_EVENTS} events at once"
        )
    scheduled = any(event.status is EventStatus.SCHEDULED for event in fresh)
    if not scheduled or rule.source is not Source.USER:
        return
    scheduled_operations = {
        event.operation
        for event in draft.events.values()
        if event.source is Source.USER and event.status is EventStatus.SCHEDULED
    }
    most = draft.rules.user_operations
    if len(scheduled_operations | {command.operation}) > most:
        raise Conflict(
            "TooManyOperations",
            f"at most {most} user operations may be scheduled at once in {draft.scope.id!r}; "
            "approve one of their events, or wait",
        )


# --- Notice ---------------------------------------------------------------------------------------


def _gets_notice(
    draft: ScopeDraft, machine: Machine, rule: OperationRule, wave: tuple[str, ...]
) -> bool:
    """A disabled scope gets no notice (M15), except as part of a wave (E10)."""
    if rule.event is None or not (draft.incarnation or wave):
        return False
    return rule.sudden or notice_seconds(draft.rules, rule.event, machine) > 0


def _parts(machines: Sequence[Machine], *, apart: bool) -> list[tuple[str, list[Machine]]]:
    """One event per update domain, in order, or per machine (E4)."""
    if apart:
        return [(machine.name, [machine]) for machine in machines]
    domains: dict[int, list[Machine]] = {}
    for machine in machines:
        domains.setdefault(machine.update_domain, []).append(machine)
    return [(f"ud{domain}", domains[domain]) for domain in sorted(domains)]


def _event(
    draft: ScopeDraft,
    command: Operate,
    rule: OperationRule,
    key: str,
    machines: Sequence[Machine],
) -> Event:
    assert rule.event is not None
    approved = _approved_by_policy(draft.rules, rule)
    wave = command.peers if isinstance(command, MaintainForRollout) else ()
    return Event(
        # With the time: the id of an operation may be used again once retention has dropped it.
        id=guid(draft.secret, command.operation, draft.scope.id, key, repr(draft.now)),
        type=rule.event,
        status=EventStatus.STARTED if rule.sudden or approved else EventStatus.SCHEDULED,
        source=rule.source,
        resources=tuple(machine.name for machine in machines),
        created_at=draft.now,
        not_before=_not_before(draft, command, rule.event, machines),
        clock_ahead=draft.clock_ahead,
        operation=command.operation,
        impact=rule.impact,
        duration_seconds=rule.duration_seconds,
        description=rule.text,
        maintenance=_by_domain(command),
        opens_at=command.opens_at if isinstance(command, MaintainForRollout) else 0,
        approved_by="policy" if approved else "",
        queue=draft.scope.owner if rule.event is EventType.TERMINATE else "",
        peers=wave,
        awaits=wave,
    )


def _not_before(
    draft: ScopeDraft, command: Operate, kind: EventType, machines: Sequence[Machine]
) -> int:
    notice = max(notice_seconds(draft.rules, kind, machine) for machine in machines)
    earliest = whole_seconds(draft.now + notice)
    if isinstance(command, Degrade) and command.not_before is not None:
        latest = whole_seconds(draft.now + limits.DEGRADE_MAX_SECONDS)
        if not earliest <= command.not_before <= latest:
            raise Refused(
                "BadNotBefore",
                f"not_before must lie between {earliest} (full notice) and {latest} "
                "(seven days ahead)",
            )
        return command.not_before
    if isinstance(command, MaintainForRollout) and command.not_before is not None:
        return max(earliest, command.not_before)
    return earliest


def _approved_by_policy(rules: Rules, rule: OperationRule) -> bool:
    """Whether the scope's settings approve user operations automatically (E8)."""
    if rule.source is not Source.USER:
        return False
    return (rules.approve_reboot and rule.event is EventType.REBOOT) or (
        rules.approve_redeploy and rule.event is EventType.REDEPLOY
    )

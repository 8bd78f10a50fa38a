"""How an operation becomes events and impacts: who may be hit, and how notice is given.

E1 (notice), E4 (one update domain an event), E5 (one impact a machine), E6 (user limit), E8
(automatic approval), E10 (waves), M15 (nothing is announced while the scope is off).
"""

from collections.abc import Sequence

from fairwarning.core import limits
from fairwarning.core.commands import Degrade, Operate
from fairwarning.core.errors import Conflict, Refused
from fairwarning.core.lifecycle import ScopeDraft, whole_seconds
from fairwarning.core.messages import MaintainForRollout
from fairwarning.core.model import (
    Event,
    EventStatus,
    EventType,
    Machine,
    Priority,
    Rules,
    Source,
    guid,
)
from fairwarning.core.operation_rules import OperationRule, notice_seconds, rule_of


def announce(draft: ScopeDraft, command: Operate) -> None:
    """Put the operation on its machines: with notice where there is one to give, else at once."""
    origin = rule_of(command)
    machines = [draft.machine(name) for name in command.machines]
    yielding = _check_machines(draft, machines, origin)
    wave = command.peers if isinstance(command, MaintainForRollout) else ()
    noticed = [m for m in machines if _gets_notice(draft, m, origin, wave)]
    events = [_event(draft, command, origin, *part) for part in _parts(noticed, apart=origin.apart)]
    _check_limits(draft, command, origin, events)
    for event_id, names in yielding.items():
        draft.displace(draft.events[event_id], names, f"replaced by {origin.impact}")
    for event in events:
        _enter(draft, event)
    if origin.impact is not None:
        for machine in machines:
            if machine.name not in draft.impacts:  # no notice to give: at once
                draft.plan(machine.name, origin.impact, command.operation, None)


def _enter(draft: ScopeDraft, event: Event) -> None:
    if event.status is EventStatus.STARTED:
        draft.strike(event)
        return
    draft.announce(event)
    if not draft.incarnation:
        # A wave reaches a scope that is off: nobody there will answer, so only the others count.
        draft.approve(event, "nobody listens")


# --- Who may be hit ------------------------------------------------------------------------------


def _check_machines(
    draft: ScopeDraft, machines: Sequence[Machine], origin: OperationRule
) -> dict[str, set[str]]:
    """Refuse what cannot be; name the machines, by event, whose pending impact gives way (E5)."""
    yielding: dict[str, set[str]] = {}
    for machine in machines:
        if machine.power not in origin.powers:
            raise Conflict("NotRunning", f"{machine.name!r} is {machine.power}; start it first")
        if origin.spot_only and machine.priority is not Priority.SPOT:
            raise Conflict(
                "NotSpot", f"{machine.name!r} has priority Regular; this is for Spot machines"
            )
        if origin.impact is None:
            _check_advice(draft, machine, origin)
        elif machine.name in draft.impacts:
            event = _check_standing(draft, machine, origin)
            yielding.setdefault(event, set()).add(machine.name)
    return yielding


def _check_standing(draft: ScopeDraft, machine: Machine, origin: OperationRule) -> str:
    """The event of a pending impact that gives way; a conflict when it does not (E5)."""
    standing = draft.impacts[machine.name]
    if standing.kind in origin.replaces and standing.deadline is None:
        return standing.event
    first = f"event {standing.event}" if standing.event else f"operation {standing.operation}"
    raise Conflict(
        "MachineBusy",
        f"{machine.name!r} has an unfinished {standing.kind} ({first}); "
        "wait for its end or cancel it",
    )


def _check_advice(draft: ScopeDraft, machine: Machine, origin: OperationRule) -> None:
    for event in draft.events.values():
        if event.type is origin.event and machine.name in event.resources:
            raise Conflict("AlreadyAdvised", f"{machine.name!r} has event {event.id} already")


def _check_limits(
    draft: ScopeDraft, command: Operate, origin: OperationRule, fresh: Sequence[Event]
) -> None:
    if len(draft.events) + len(fresh) > limits.SCOPE_EVENTS:
        raise Conflict(
            "TooManyEvents", f"a scope holds at most {limits.SCOPE_EVENTS} events at once"
        )
    scheduled = any(event.status is EventStatus.SCHEDULED for event in fresh)
    if not scheduled or origin.source is not Source.USER:
        return
    standing = {
        event.operation
        for event in draft.events.values()
        if event.source is Source.USER and event.status is EventStatus.SCHEDULED
    }
    most = draft.rules.user_operations
    if len(standing | {command.operation}) > most:
        raise Conflict(
            "TooManyOperations",
            f"at most {most} user operations may be scheduled at once in {draft.scope.id!r}; "
            "approve or wait for one",
        )


# --- How notice is given --------------------------------------------------------------------------


def _gets_notice(
    draft: ScopeDraft, machine: Machine, origin: OperationRule, wave: tuple[str, ...]
) -> bool:
    """M15: while the scope is off, nothing is announced (but a wave is waited for, E10)."""
    if origin.event is None or not (draft.incarnation or wave):
        return False
    return origin.sudden or notice_seconds(draft.rules, origin.event, machine) > 0


def _parts(machines: Sequence[Machine], *, apart: bool) -> list[tuple[str, list[Machine]]]:
    """E4: an event for each update domain, in their order (or for each machine)."""
    if apart:
        return [(machine.name, [machine]) for machine in machines]
    domains: dict[int, list[Machine]] = {}
    for machine in machines:
        domains.setdefault(machine.update_domain, []).append(machine)
    return [(f"ud{domain}", domains[domain]) for domain in sorted(domains)]


def _event(
    draft: ScopeDraft,
    command: Operate,
    origin: OperationRule,
    key: str,
    machines: Sequence[Machine],
) -> Event:
    assert origin.event is not None
    approved = _approved_by_policy(draft.rules, origin)
    wave = command.peers if isinstance(command, MaintainForRollout) else ()
    return Event(
        id=guid(command.operation, draft.scope.id, key),
        type=origin.event,
        status=EventStatus.STARTED if origin.sudden or approved else EventStatus.SCHEDULED,
        source=origin.source,
        resources=tuple(machine.name for machine in machines),
        created_at=draft.now,
        not_before=_not_before(draft, command, origin.event, machines),
        operation=command.operation,
        impact=origin.impact,
        duration_seconds=origin.duration_seconds,
        description=origin.text,
        approved_by="policy" if approved else "",
        queue=draft.scope.owner if origin.event is EventType.TERMINATE else "",
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


def _approved_by_policy(rules: Rules, origin: OperationRule) -> bool:
    """E8: the owner lets user operations start without waiting."""
    if origin.source is not Source.USER:
        return False
    return (rules.approve_reboot and origin.event is EventType.REBOOT) or (
        rules.approve_redeploy and origin.event is EventType.REDEPLOY
    )

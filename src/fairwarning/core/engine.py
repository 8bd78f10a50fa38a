"""`decide`: what a command does to one scope (contract rows E1 to E11, M14 to M16).

Operations (restart, evict, ...) are `announce.py`'s; the moves themselves `lifecycle.py`'s.
"""

from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.announce import announce
from fairwarning.core.commands import (
    AddMachines,
    AdvanceTime,
    Approve,
    Cancel,
    Command,
    Configure,
    CreateScope,
    GiveUpImpact,
    Poll,
    RecordDelivery,
    RecordRefusal,
    ReportImpact,
    UpdateMachine,
    target_of,
)
from fairwarning.core.decision import Decision, Fact, FactType
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.lifecycle import ScopeDraft, idle_at
from fairwarning.core.messages import (
    AddInstances,
    ApplyModel,
    CancelOperation,
    GroupPolled,
    LinkMachine,
    MaintainForRollout,
    PeerApproved,
    SetProtection,
    ShareGroupPoll,
    StartQueuedDelete,
)
from fairwarning.core.model import Event, EventStatus, Machine, Scope, ScopeKind
from fairwarning.core.operation_rules import OPERATION_RULES
from fairwarning.core.record import changed


def decide(
    scope: Scope | None, command: Command, now: float, secret: str, clock_ahead: int
) -> Decision:
    """Decide `command` on `scope` at `now`. Raises `Refused` if it is not allowed."""
    handler = _HANDLERS[type(command)]
    if scope is None:
        if isinstance(command, CreateScope | AddInstances):
            return _create(command, now)
        raise NotFound("UnknownScope", f"there is no scope {target_of(command)!r}")
    draft = ScopeDraft(scope, now, secret, clock_ahead)
    handler(draft, command)
    return draft.decision()


# --- Scopes and machines -----------------------------------------------------------------------


def _create(command: CreateScope | AddInstances, now: float) -> Decision:
    if isinstance(command, AddInstances):
        kind, owner = ScopeKind.PLACEMENT_GROUP, command.owner
    else:
        kind, owner = command.kind, ""
        if kind is ScopeKind.STANDALONE and len(command.machines) != 1:
            raise Refused("OneMachine", "a standalone scope holds exactly one machine")
    empty = Scope(
        id=command.scope, kind=kind, group=command.group, owner=owner, rules=command.rules
    )
    draft = ScopeDraft(empty, now)
    draft.facts.append(Fact(FactType.SCOPE_CREATED))
    draft.add_machines(command.machines)
    if isinstance(command, AddInstances) and command.polled_at:
        draft.enable(command.polled_at)
    return draft.decision()


def _create_again(draft: ScopeDraft, _: CreateScope | AddInstances) -> None:
    raise Conflict("ScopeExists", f"a scope {draft.scope.id!r} exists already; choose another name")


def _add_instances(draft: ScopeDraft, command: AddInstances) -> None:
    if draft.scope.owner != command.owner:
        _create_again(draft, command)
    draft.add_machines(command.machines)


def _add_machines(draft: ScopeDraft, command: AddMachines) -> None:
    scope = draft.scope
    if scope.kind in {ScopeKind.STANDALONE, ScopeKind.PLACEMENT_GROUP}:
        raise Refused(
            "FixedScope",
            f"{scope.id!r} is a {scope.kind}: add machines to an availability set or a cloud "
            "service, or scale the set",
        )
    if len(scope.machines) + len(command.machines) > limits.SCOPE_MACHINES:
        raise Conflict("ScopeFull", f"a scope holds at most {limits.SCOPE_MACHINES} machines")
    for machine in command.machines:
        if machine.name in scope.machines:
            raise Conflict("MachineExists", f"{scope.id!r} already has a machine {machine.name!r}")
    draft.add_machines(command.machines)


def _configure(draft: ScopeDraft, command: Configure) -> None:
    if command.rules != draft.rules:
        draft.rules = command.rules
        draft.facts.append(Fact(FactType.CONFIGURED))


def _update_machine(draft: ScopeDraft, command: UpdateMachine) -> None:
    machine = draft.machine(command.machine)
    seconds, size, tags = command.terminate_seconds, command.size, command.tags
    after = changed(
        machine,
        terminate_seconds=machine.terminate_seconds if seconds is None else seconds,
        size=machine.size if size is None else size,
        tags=machine.tags if tags is None else tags,
    )
    if command.address is not None and command.address != machine.address:
        after = changed(after, address=command.address)
        draft.change_address(machine, command.address)
    if after != machine:
        _change(draft, after, "updated")


def _link_machine(draft: ScopeDraft, command: LinkMachine) -> None:
    machine = draft.machine(command.machine)
    if machine.resource and machine.resource != command.resource:
        raise Conflict(
            "MachineExists",
            f"{machine.name!r} already belongs to the resource {machine.resource!r}",
        )
    draft.own_machines()[machine.name] = changed(machine, resource=command.resource)
    draft.facts.append(
        Fact(FactType.MACHINE_LINKED, machines=(machine.name,), detail=command.resource)
    )


def _apply_model(draft: ScopeDraft, command: ApplyModel) -> None:
    for name in command.machines:
        machine = draft.machines[name]
        if machine.model != command.model:
            after = changed(
                machine,
                model=command.model,
                terminate_seconds=command.terminate_seconds,
                size=command.size,
                tags=command.tags,
            )
            _change(draft, after, f"follows model {command.model}")


def _set_protection(draft: ScopeDraft, command: SetProtection) -> None:
    for name in command.machines:
        machine = draft.machines[name]
        after = changed(machine, protected=command.protected, shielded=command.shielded)
        if after != machine:
            protected = command.protected or command.shielded
            _change(draft, after, "protected" if protected else "no longer protected")


def _change(draft: ScopeDraft, machine: Machine, detail: str) -> None:
    draft.own_machines()[machine.name] = machine
    draft.facts.append(Fact(FactType.MACHINE_CHANGED, machines=(machine.name,), detail=detail))


# --- Polls, approvals, cancellations --------------------------------------------------------------


def _poll(draft: ScopeDraft, command: Poll) -> None:
    if command.at is None:
        draft.poll(draft.now)
    else:
        draft.renew(min(command.at, draft.now))
    if draft.scope.owner and draft.polled_at != draft.scope.polled_at:
        draft.sends.append(
            GroupPolled(set=draft.scope.owner, scope=draft.scope.id, at=draft.polled_at)
        )


def _share_group_poll(draft: ScopeDraft, command: ShareGroupPoll) -> None:
    draft.poll(command.at)


def _record_delivery(draft: ScopeDraft, command: RecordDelivery) -> None:
    event = draft.events.get(command.event)
    if event:  # it may have ended since
        draft.facts.append(Fact(FactType.DELIVERED, event.id, command.machines, event.operation))


def _record_refusal(draft: ScopeDraft, command: RecordRefusal) -> None:
    if command.machine in draft.machines:  # it may have been deleted since
        draft.facts.append(
            Fact(FactType.APPROVAL_REFUSED, machines=(command.machine,), detail=command.reason)
        )


def _approve(draft: ScopeDraft, command: Approve) -> None:
    ids = dict.fromkeys(name.upper() for name in command.events)
    for name in ids:  # approve all of them or none (M13)
        if name not in draft.events:
            raise Refused("UnknownEvent", _unknown(name))
    for name in ids:
        draft.approve(draft.events[name], command.actor)


def _cancel(draft: ScopeDraft, command: Cancel) -> None:
    event = draft.events.get(command.event.upper())
    if event is None:
        raise NotFound("UnknownEvent", _unknown(command.event))
    if event.status is EventStatus.STARTED:
        raise Conflict(
            "AlreadyStarted",
            f"event {event.id} has started; only Scheduled events can be cancelled",
        )
    why = f"cancelled by {command.actor}"
    draft.cancel(event, why)
    # A wave is cancelled as a whole.
    draft.sends.extend(
        CancelOperation(scope=peer, operation=event.operation, reason=why) for peer in event.peers
    )


def _unknown(event: str) -> str:
    return f"this scope has no event {event[:60]!r}; its document lists those it has"


# --- Messages from other entities, time, reports --------------------------------------------------


def _start_queued_delete(draft: ScopeDraft, command: StartQueuedDelete) -> None:
    event = draft.events.get(command.event)
    if (
        event and event.status is EventStatus.SCHEDULED
    ):  # it may have timed out in the same transaction
        draft.start(event, "approved")


def _peer_approved(draft: ScopeDraft, command: PeerApproved) -> None:
    for event in _events_of(draft, command.operation):
        if event.status is EventStatus.SCHEDULED:
            draft.stop_awaiting(event, command.peer)


def _cancel_operation(draft: ScopeDraft, command: CancelOperation) -> None:
    for event in _events_of(draft, command.operation):
        if event.status is EventStatus.SCHEDULED:
            draft.cancel(event, command.reason)


def _events_of(draft: ScopeDraft, operation: str) -> list[Event]:
    return [event for event in draft.events.values() if event.operation == operation]


def _advance_time(draft: ScopeDraft, _: AdvanceTime) -> None:
    for event in tuple(draft.events.values()):
        if event.status is not EventStatus.SCHEDULED:
            continue
        if draft.now >= event.not_before:
            draft.time_out(event)
        else:
            draft.start_if_approved(event)
    if draft.incarnation and draft.now >= idle_at(draft):
        draft.disable()


def _report_impact(draft: ScopeDraft, command: ReportImpact) -> None:
    impact = draft.impacts.get(command.machine)
    # Drivers report at least once: ignore a report for an impact that has ended.
    if impact and impact.id == command.impact and impact.in_progress:
        draft.finish_impact(impact, command.error)
    elif late := draft.given_up.get(command.impact):
        draft.report_late(late, command.error)


def _give_up_impact(draft: ScopeDraft, command: GiveUpImpact) -> None:
    impact = draft.impacts.get(command.machine)
    if impact and impact.id == command.impact and impact.in_progress:
        draft.give_up(impact, "the driver did not report in time")


_HANDLERS: dict[type[Command], Callable[..., None]] = {
    CreateScope: _create_again,
    AddInstances: _add_instances,
    AddMachines: _add_machines,
    Configure: _configure,
    UpdateMachine: _update_machine,
    LinkMachine: _link_machine,
    ApplyModel: _apply_model,
    SetProtection: _set_protection,
    Poll: _poll,
    ShareGroupPoll: _share_group_poll,
    RecordDelivery: _record_delivery,
    RecordRefusal: _record_refusal,
    Approve: _approve,
    Cancel: _cancel,
    StartQueuedDelete: _start_queued_delete,
    PeerApproved: _peer_approved,
    CancelOperation: _cancel_operation,
    AdvanceTime: _advance_time,
    ReportImpact: _report_impact,
    GiveUpImpact: _give_up_impact,
    MaintainForRollout: announce,
    **dict.fromkeys((kind for kind, _ in OPERATION_RULES), announce),
}

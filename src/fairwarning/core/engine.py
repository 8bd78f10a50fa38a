"""`decide`: what a command does to one scope. The rules of SPEC's E rows, and of M14 to M16.

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
    Poll,
    RecordDelivery,
    ReportImpact,
    UpdateMachine,
)
from fairwarning.core.decision import Decision, Fact, FactType
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.lifecycle import ScopeDraft
from fairwarning.core.messages import (
    AddInstances,
    ApplyModel,
    CancelOperation,
    LinkMachine,
    MaintainForRollout,
    PeerApproved,
    SetProtection,
    StartQueuedDelete,
)
from fairwarning.core.model import Event, EventStatus, Machine, Scope, ScopeKind
from fairwarning.core.operation_rules import OPERATION_RULES
from fairwarning.core.record import changed


def decide(scope: Scope | None, command: Command, now: float) -> Decision:
    """What `command` does to `scope` at `now`. Raises `Refused` and changes nothing, or decides."""
    handler = _HANDLERS[type(command)]
    if scope is None:
        if isinstance(command, CreateScope | AddInstances):
            return _create(command, now)
        raise NotFound("UnknownScope", f"there is no scope {_scope_name(command)!r}")
    draft = ScopeDraft(scope, now)
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
    return draft.decision()


def _create_again(draft: ScopeDraft, _: CreateScope | AddInstances) -> None:
    raise Conflict("ScopeExists", f"there is a scope {draft.scope.id!r} already; pick another name")


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
            raise Conflict("MachineExists", f"{machine.name!r} is in {scope.id!r} already")
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
    if after != machine:
        _change(draft, after, "updated")


def _link_machine(draft: ScopeDraft, command: LinkMachine) -> None:
    machine = draft.machine(command.machine)
    if machine.resource and machine.resource != command.resource:
        raise Conflict("MachineExists", f"{machine.name!r} is known as {machine.resource!r}")
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


# --- What machines and operators say of events ---------------------------------------------------


def _poll(draft: ScopeDraft, command: Poll) -> None:
    draft.poll(draft.now if command.at is None else min(command.at, draft.now))


def _tell(draft: ScopeDraft, command: RecordDelivery) -> None:
    event = draft.events.get(command.event)
    if event:  # it may be over by now
        draft.facts.append(Fact(FactType.DELIVERED, event.id, command.machines, event.operation))


def _approve(draft: ScopeDraft, command: Approve) -> None:
    ids = dict.fromkeys(name.upper() for name in command.events)
    for name in ids:  # all known, or none approved (M13)
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
    # The machines of a wave are hit together or not at all.
    draft.sends.extend(
        CancelOperation(scope=peer, operation=event.operation, reason=why) for peer in event.peers
    )


def _unknown(event: str) -> str:
    return f"no event {event[:60]!r} is planned in this scope; read the document for those that are"


# --- What the rest of the rules says --------------------------------------------------------------


def _start_queued_delete(draft: ScopeDraft, command: StartQueuedDelete) -> None:
    event = draft.events.get(command.event)
    if event and event.status is EventStatus.SCHEDULED:  # it may have timed out in the same breath
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


def _elapse(draft: ScopeDraft, _: AdvanceTime) -> None:
    for event in tuple(draft.events.values()):
        if event.status is EventStatus.SCHEDULED and draft.now >= event.not_before:
            draft.time_out(event)
    for impact in tuple(draft.impacts.values()):
        if impact.deadline is not None and draft.now >= impact.deadline:
            draft.finish(impact, "the driver did not report in time")
    if draft.incarnation and draft.now >= draft.polled_at + draft.rules.idle_seconds:
        draft.disable()


def _finish(draft: ScopeDraft, command: ReportImpact) -> None:
    impact = draft.impacts.get(command.machine)
    # A report for what is over already is a repeat: at least once is what drivers promise.
    if impact and impact.id == command.impact and impact.deadline is not None:
        draft.finish(impact, command.error)


def _scope_name(command: Command) -> str:
    return str(getattr(command, command.target))


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
    RecordDelivery: _tell,
    Approve: _approve,
    Cancel: _cancel,
    StartQueuedDelete: _start_queued_delete,
    PeerApproved: _peer_approved,
    CancelOperation: _cancel_operation,
    AdvanceTime: _elapse,
    ReportImpact: _finish,
    MaintainForRollout: announce,
    **dict.fromkeys((kind for kind, _ in OPERATION_RULES), announce),
}

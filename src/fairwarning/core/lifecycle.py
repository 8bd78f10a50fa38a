"""The life cycle of events and impacts: a draft of a scope that applies the transition table.

All changes to the state of an event or an impact are made here. `engine.py` decides which command
causes which transition.
"""

from collections.abc import Iterable

from fairwarning.core import limits, subnets, windows
from fairwarning.core.commands import Command
from fairwarning.core.decision import (
    CARRIED_OUT,
    ONLY_JOURNALED,
    Decision,
    Fact,
    FactType,
    OperationProgress,
    announcement_of,
)
from fairwarning.core.errors import Bug, NotFound
from fairwarning.core.messages import (
    ClaimAddress,
    DeleteAnnounced,
    DeleteApproved,
    DeleteLeftQueue,
    DeletionFailed,
    InstanceDeleted,
    PeerApproved,
    ReleaseAddress,
    TargetDeleted,
    TargetDeletionFailed,
)
from fairwarning.core.model import (
    NOTHING,
    Event,
    EventStatus,
    Impact,
    ImpactKind,
    Machine,
    PendingDelete,
    Power,
    Scope,
    ScopeKind,
    Source,
    guid,
)
from fairwarning.core.operation_rules import notice_seconds
from fairwarning.core.record import changed
from fairwarning.core.transitions import (
    FACT_OF_END,
    KEEP_POWER,
    POWER_AFTER,
    EventTransition,
    deletes,
    moves,
    next_status,
    spare_host,
)


def due(scope: Scope) -> float | None:
    """When the scope is next due to change without a command."""
    times: list[float] = [
        event.opens_at if _is_approved(event) else event.not_before
        for event in scope.events.values()
        if event.status is EventStatus.SCHEDULED
    ]
    if scope.enabled:
        times.append(idle_at(scope))
    return min(times, default=None)


def domains_under_maintenance(scope: "Scope | ScopeDraft") -> set[int]:
    """The update domains of a scope that the platform works on, or has announced to (IC6)."""
    names = [
        name for event in scope.events.values() if event.maintenance for name in event.resources
    ]
    names += [
        name for name, impact in scope.impacts.items() if impact.keeps_power and not impact.event
    ]
    # One of a started event may have been deleted meanwhile.
    return {scope.machines[name].update_domain for name in names if name in scope.machines}


def _is_approved(event: Event) -> bool:
    """Whether a Scheduled event waits for nothing but its maintenance window."""
    return bool(event.approved_by) and not event.awaits and not event.queue


def idle_at(scope: "Scope | ScopeDraft") -> float:
    """When Scheduled Events is disabled unless a machine polls before (M14)."""
    return scope.polled_at + scope.rules.idle_seconds


class ScopeDraft:
    """A scope that is being changed by a decision. It works on copies."""

    __slots__ = (
        "_copied", "clock_ahead", "delayed", "events", "facts", "given_up",
        "impacts", "incarnation", "machines", "new_impacts", "now", "polled_at", "progress",
        "ready_at", "rules", "scope", "secret", "sends", "settled",
    )  # fmt: skip

    def __init__(self, scope: Scope, now: float, secret: str = "", clock_ahead: int = 0) -> None:
        self.scope = scope
        self.now = now
        self.secret = secret  # of the fleet
        self.clock_ahead = clock_ahead
        self.machines = scope.machines
        self._copied: dict[str, Machine] | None = None
        self.events = dict(scope.events)
        self.impacts = dict(scope.impacts)
        self.delayed = dict(scope.delayed)
        self.given_up = scope.given_up
        self.rules = scope.rules
        self.incarnation = scope.incarnation
        self.polled_at = scope.polled_at
        self.ready_at = scope.ready_at
        self.facts: list[Fact] = []
        self.new_impacts: list[Impact] = []
        self.settled: list[str] = []
        self.progress: dict[str, OperationProgress] = {}
        self.sends: list[Command] = []

    def machine(self, name: str) -> Machine:
        """The machine of this name."""
        machine = self.machines.get(name)
        if machine is None:
            raise NotFound("UnknownMachine", f"there is no machine {name!r} in {self.scope.id!r}")
        return machine

    def own_machines(self) -> dict[str, Machine]:
        """A copy of the machines to change, made on demand: most commands change none."""
        if self._copied is None:
            self.machines = self._copied = dict(self.machines)
        return self._copied

    # --- Events ---

    def announce(self, event: Event) -> None:
        """Add a Scheduled event; the impacts on its machines wait for it to start."""
        self._add_event(event, EventTransition.ANNOUNCE)
        if event.queue:
            entry = PendingDelete(event=event.id, scope=self.scope.id, not_before=event.not_before)
            self.sends.append(DeleteAnnounced(set=event.queue, entry=entry))

    def announce_started(self, event: Event) -> None:
        """Add an event that is Started already: no notice is given."""
        self._add_event(event, EventTransition.APPEAR_STARTED)
        self._start_impacts(event)

    def _add_event(self, event: Event, move: EventTransition) -> None:
        if event.id in self.events:
            raise Bug(f"there is already an event {event.id} (ID3)")
        if next_status(None, move) is not event.status:
            raise Bug(f"{move} does not make an event {event.status}")
        self.events[event.id] = event
        scheduled = move is EventTransition.ANNOUNCE
        self._fact(FactType.SCHEDULED if scheduled else FactType.STARTED, event, announced=True)
        if event.impact is not None:
            for name in event.resources:
                self.add_impact(
                    *(name, event.impact, event.operation, event.source),
                    duration_seconds=event.duration_seconds,
                    event=event,
                )

    def approve(self, event: Event, actor: str) -> None:
        """Record an approval; start unless peers are awaited. Repeats change nothing (IL7)."""
        if event.status is EventStatus.STARTED or event.approved_by:
            return
        self.events[event.id] = event = changed(event, approved_by=actor)
        self._fact(FactType.APPROVED, event, actor)
        self._notify_peers(event)
        if event.queue:
            self.sends.append(DeleteApproved(set=event.queue, event=event.id))
        self.start_if_approved(event)

    def stop_awaiting(self, event: Event, peer: str) -> None:
        """Another scope of the wave has approved, or has dropped out of it (E10)."""
        if peer not in event.awaits:
            return
        awaits = tuple(p for p in event.awaits if p != peer)
        self.events[event.id] = event = changed(event, awaits=awaits)
        self._fact(FactType.PEER_APPROVED, event, peer)
        self.start_if_approved(event)

    def start_if_approved(self, event: Event) -> None:
        """Start an event that all have approved, once its maintenance window is open."""
        if _is_approved(event) and self.now >= event.opens_at:
            self.start(event, "approved")

    def start(self, event: Event, why: str) -> None:
        """Start a Scheduled event and its impacts; advice lapses instead."""
        if not event.approved_by and self.now < event.not_before:
            raise Bug(f"event {event.id} was not approved and NotBefore has not passed (IL2)")
        if event.impact is None:
            self._remove_event(event, EventTransition.LAPSE, why)
            return
        status = next_status(event.status, EventTransition.START)
        assert status is not None
        self.events[event.id] = event = changed(event, status=status)
        self._fact(FactType.STARTED, event, why)
        self._start_impacts(event)

    def time_out(self, event: Event) -> None:
        """NotBefore has passed: start, even if approvals are missing."""
        self._notify_peers(event)
        self._dequeue(event)
        self.start(event, "NotBefore")

    def cancel(self, event: Event, why: str) -> None:
        """Remove a Scheduled event and its impacts."""
        if event.impact is not None:
            self._drop_impacts(event)
            self._count(
                OperationProgress(event.operation, cancelled=len(event.resources), error=why)
            )
            for name in event.resources:
                self._report_not_deleted(name, event.impact, why)
        self._dequeue(event)
        self._remove_event(event, EventTransition.CANCEL, why)

    def displace(self, event: Event, names: set[str], why: str) -> None:
        """Cancel an event for some of its machines; the others get a new event (E5)."""
        rest = tuple(r for r in event.resources if r not in names)
        if not rest:
            self.cancel(event, why)
            self._notify_peers(event)
            return
        self._drop_impacts(event)
        gone = len(event.resources) - len(rest)
        self._count(
            OperationProgress(event.operation, planned=-len(rest), cancelled=gone, error=why)
        )
        self._remove_event(event, EventTransition.CANCEL, why)
        again = changed(event, id=guid(event.id, *rest), resources=rest, approved_by="")
        if not event.peers:  # else its wave starts together, as it was announced (E10)
            again = self._with_full_notice(again)
        self.announce(again)
        if event.approved_by:  # and awaits its peers: the approval stays valid
            self.approve(again, event.approved_by)

    def _with_full_notice(self, event: Event) -> Event:
        """Announce an event now: at its NotBefore, or later for its notice and its window."""
        notice = max(
            notice_seconds(self.rules, event.type, self.machines[name]) for name in event.resources
        )
        not_before, opens_at = max(event.not_before, whole_seconds(self.now + notice)), 0
        if event.opens_at and (window := self.rules.maintenance_window):
            opening = windows.common_opening((window,), not_before - self.clock_ahead)
            assert opening is not None  # a single window opens each week
            not_before = whole_seconds(opening) + self.clock_ahead
            opens_at = whole_seconds(windows.opened_at((window,), opening)) + self.clock_ahead
        return changed(
            event,
            created_at=self.now,
            not_before=not_before,
            opens_at=opens_at,
            clock_ahead=self.clock_ahead,
        )

    def _drop_impacts(self, event: Event) -> None:
        for name in event.resources:
            if not self.delayed.pop(name, None):
                del self.impacts[name]

    def _dequeue(self, event: Event) -> None:
        if event.queue:
            self.sends.append(DeleteLeftQueue(set=event.queue, event=event.id))

    def _notify_peers(self, event: Event) -> None:
        self.sends.extend(
            PeerApproved(scope=peer, operation=event.operation, peer=self.scope.id)
            for peer in event.peers
        )

    def _remove_event(self, event: Event, move: EventTransition, why: str) -> None:
        if next_status(event.status, move) is not None:
            raise Bug(f"{move} does not end event {event.id}")
        del self.events[event.id]
        self._fact(FACT_OF_END[move], event, why)

    # --- Impacts ---

    def add_impact(
        self, name: str, kind: ImpactKind, operation: str, source: Source,
        *, duration_seconds: int, event: Event | None = None,
    ) -> None:  # fmt: skip
        """Add an impact to a machine. It waits for its event or, without one, starts at once."""
        cause = event.id if event else guid(operation, self.scope.id, repr(self.now))
        impact = Impact(
            id=f"{cause}:{name}",
            scope=self.scope.id,
            machine=name,
            kind=kind,
            operation=operation,
            event=event.id if event else "",
            duration_seconds=duration_seconds,
            keeps_power=source is Source.PLATFORM and kind in KEEP_POWER,
        )
        self._place(impact)
        self._count(OperationProgress(operation, planned=1))
        if event is None:
            self._start_impact(impact)

    def _place(self, impact: Impact) -> None:
        """One impact at a time: what the platform plans waits for its user's start."""
        name, other = impact.machine, self.impacts.get(impact.machine)
        if other is None:
            self.impacts[name] = impact
        elif impact.kind is ImpactKind.START and other.keeps_power and not other.in_progress:
            self.impacts[name], self.delayed[name] = impact, other
        elif other.kind is ImpactKind.START and impact.keeps_power and name not in self.delayed:
            self.delayed[name] = impact
        else:
            raise Bug(f"{name} already has an unfinished impact (E5)")

    def _start_impacts(self, event: Event) -> None:
        for name in event.resources:
            if (impact := self.impacts[name]).event == event.id:
                self._start_impact(impact)

    def _start_impact(self, impact: Impact) -> None:
        limit = self.rules.impact_limit_seconds
        if impact.duration_seconds != limits.UNKNOWN_DURATION:
            limit = max(limit, impact.duration_seconds + limits.IMPACT_MARGIN_SECONDS)
        impact = changed(impact, limit_seconds=limit, deadline=self.now + limit)
        self.impacts[impact.machine] = impact
        self._impact_fact(FactType.IMPACT_BEGUN, impact, impact.kind)
        if impact.keeps_power and self.machines[impact.machine].power is not Power.RUNNING:
            self.finish_impact(impact, "")  # it is off, and stays so: nothing for a driver to do
            self.settled.remove(impact.id)  # no driver has it
        else:
            self.new_impacts.append(impact)

    def finish_impact(self, impact: Impact, error: str) -> None:
        """End an impact: change its machine, and end the event with its last impact."""
        del self.impacts[impact.machine]
        self.settled.append(impact.id)
        done, failed = (0, 1) if error else (1, 0)
        self._count(OperationProgress(impact.operation, done=done, failed=failed, error=error))
        kind = FactType.IMPACT_FAILED if error else FactType.IMPACT_CARRIED_OUT
        self._impact_fact(kind, impact, error)
        if error:
            self._report_not_deleted(impact.machine, impact.kind, error)
        else:
            self._apply_result(self.machines[impact.machine], impact)
            self._supersede(impact.machine)
        event = self.events.get(impact.event)
        if event and error:
            self.events[event.id] = event = changed(event, failed=event.failed + 1)
        if event and not any(self._holds(event, name) for name in event.resources):
            self._remove_event(event, EventTransition.END, _result(event))
        if delayed := self.delayed.pop(impact.machine, None):
            self.impacts[impact.machine] = delayed
            if self.events[delayed.event].status is EventStatus.STARTED:
                self._start_impact(delayed)

    def _supersede(self, machine: str) -> None:
        """A machine has done something: what was given up before says nothing of it any more."""
        for name, impact in self.given_up.items():
            if impact.machine == machine:
                self.given_up = {**self.given_up, name: changed(impact, superseded=True)}

    def give_up(self, impact: Impact, why: str) -> None:
        """End an impact as failed although its driver still has it; a late report counts (E9)."""
        self.finish_impact(impact, why)
        kept = list(self.given_up.values())[1 - limits.GIVEN_UP_IMPACTS :]
        self.given_up = {known.id: known for known in (*kept, impact)}

    def report_late(self, impact: Impact, error: str) -> None:
        """The driver reports an impact that was given up: believe it (E9).

        Unless the machine is gone, it does not overrule what that has done since, or is doing.
        """
        self.given_up = {name: other for name, other in self.given_up.items() if name != impact.id}
        self._impact_fact(FactType.REPORTED_LATE, impact, error or CARRIED_OUT)
        if error:
            return  # the impact counts as failed already
        begun_at = (impact.deadline or 0.0) - impact.limit_seconds
        self._count(OperationProgress(impact.operation, done=1, failed=-1, begun_at=begun_at))
        machine = self.machines[impact.machine]
        newer = self.impacts.get(machine.name)
        if deletes(machine, impact.kind):  # nothing undoes that (IL14)
            self._end_work_on_deleted(machine)
        elif impact.superseded or (newer and newer.in_progress):
            return
        if machine.name in self.machines:
            self._apply_result(machine, impact)

    def _end_work_on_deleted(self, machine: Machine) -> None:
        """End newer impacts on a machine that turns out to be deleted; a newer delete is done."""
        why = "the machine was deleted"
        while newer := self.impacts.get(machine.name):
            is_done = deletes(machine, newer.kind)
            if newer.in_progress:
                self.finish_impact(newer, "" if is_done else why)
            elif is_done:
                self._end_pending(self.events[newer.event], why)
            else:
                self.displace(self.events[newer.event], {machine.name}, why)

    def _end_pending(self, event: Event, why: str) -> None:
        """Remove a Scheduled event of one machine whose impact has happened already."""
        self._drop_impacts(event)
        self._count(OperationProgress(event.operation, done=len(event.resources)))
        self._dequeue(event)
        self._remove_event(event, EventTransition.CANCEL, why)

    def _report_not_deleted(self, name: str, kind: ImpactKind, why: str) -> None:
        """A delete did not happen: inform the scale set and the resource."""
        if kind is not ImpactKind.DELETE:
            return
        if self.scope.owner:
            self.sends.append(DeletionFailed(set=self.scope.owner, why=why))
        if resource := self.machines[name].resource:
            self.sends.append(TargetDeletionFailed(resource=resource, why=why))

    def _holds(self, event: Event, name: str) -> bool:
        impact = self.delayed.get(name) or self.impacts.get(name)
        return impact is not None and impact.event == event.id

    def _apply_result(self, machine: Machine, impact: Impact) -> None:
        kind = impact.kind
        if deletes(machine, kind):  # IL11: its identity gets no answer from now on
            del self.own_machines()[machine.name]
            self.given_up = {k: i for k, i in self.given_up.items() if i.machine != machine.name}
            self._drop_advice(machine.name, "the machine was deleted")
            self.facts.append(Fact(FactType.MACHINE_REMOVED, machines=(machine.name,)))
            self.change_address(machine, "")
            if self.scope.owner:
                self.sends.append(InstanceDeleted(set=self.scope.owner))
            if machine.resource:
                self.sends.append(TargetDeleted(resource=machine.resource))
        else:
            power = machine.power if impact.keeps_power else POWER_AFTER.get(kind, machine.power)
            host = spare_host(impact) if machine.host and moves(machine, kind) else machine.host
            if power is not machine.power or host != machine.host:
                self.own_machines()[machine.name] = changed(machine, power=power, host=host)
            if power is not machine.power and power is not Power.RUNNING:
                self._drop_advice(machine.name, f"the machine was {power}")

    def _count(self, progress: OperationProgress) -> None:
        so_far = self.progress.get(progress.operation)
        self.progress[progress.operation] = so_far.plus(progress) if so_far else progress

    def _drop_advice(self, name: str, why: str) -> None:
        """Remove advice to a machine that no longer runs."""
        for event in tuple(self.events.values()):
            if event.impact is None and name in event.resources:
                self._remove_event(event, EventTransition.LAPSE, why)

    # --- Scheduled Events on and off ---

    def poll(self, at: float) -> None:
        """A machine of the scope, or of its set, polled; the first poll enables it (M14)."""
        if self.incarnation:
            self.renew(at)
        else:
            self.enable(at)

    def enable(self, polled_at: float) -> None:
        """Enable Scheduled Events."""
        self.polled_at = polled_at
        self.incarnation = 1
        self.ready_at = self.now + self.rules.enable_delay_seconds
        self.facts.append(Fact(FactType.ENABLED))

    def renew(self, at: float) -> None:
        """A machine polled before: Scheduled Events stays enabled for another day if it is."""
        if self.incarnation:
            self.polled_at = max(self.polled_at, at)

    def disable(self) -> None:
        """Disable Scheduled Events after a day without polls. Existing events continue (M15)."""
        self.incarnation = 0
        self.facts.append(Fact(FactType.DISABLED))

    # --- Result ---

    def add_machines(self, machines: Iterable[Machine]) -> None:
        """Add machines to the scope."""
        own = self.own_machines()
        for machine in machines:
            own[machine.name] = changed(machine, created_at=self.now)
            self.facts.append(Fact(FactType.MACHINE_ADDED, machines=(machine.name,)))

    def change_address(self, machine: Machine, address: str) -> None:
        """Tell a machine's subnet that the machine has another address, or is gone."""
        subnet = machine.subnet
        if subnets.contains(subnet, machine.address):
            self.sends.append(ReleaseAddress(subnet=subnet, address=machine.address))
        if subnets.contains(subnet, address):
            self.sends.append(ClaimAddress(subnet=subnet, address=address))

    def _fact(
        self, kind: FactType, event: Event, detail: str = "", *, announced: bool = False
    ) -> None:
        announcement = announcement_of(event) if announced else None
        self.facts.append(
            Fact(kind, event.id, event.resources, event.operation, detail, announcement)
        )

    def _impact_fact(self, kind: FactType, impact: Impact, detail: str) -> None:
        machines, operation = (impact.machine,), impact.operation
        self.facts.append(Fact(kind, impact.event, machines, operation, detail))

    def _visible_change(self) -> bool:
        before = self.scope.events
        return len(before) != len(self.events) or any(
            before.get(e.id) is not e and _shown(before.get(e.id)) != _shown(e)
            for e in self.events.values()
        )

    def decision(self) -> Decision:
        """The decision; the incarnation grows if the visible events changed (M11)."""
        if self.polled_at == self.scope.polled_at and all(
            fact.type in ONLY_JOURNALED for fact in self.facts
        ):
            return Decision(self.scope, tuple(self.facts))
        if self.incarnation and self._visible_change():
            self.incarnation += 1
        scope: Scope | None = changed(
            self.scope,
            machines=self.machines,
            events=self.events or NOTHING,
            impacts=self.impacts or NOTHING,
            delayed=self.delayed or NOTHING,
            given_up=self.given_up or NOTHING,
            rules=self.rules,
            incarnation=self.incarnation,
            polled_at=self.polled_at,
            ready_at=self.ready_at,
            retry_at=0.0,
        )
        if self.scope.kind is ScopeKind.STANDALONE and not self.machines:
            self.facts.append(Fact(FactType.SCOPE_REMOVED))
            scope = None
        return Decision(
            scope,
            tuple(self.facts),
            tuple(self.new_impacts),
            tuple(self.settled),
            tuple(self.progress.values()),
            tuple(self.sends),
        )


def _result(event: Event) -> str:
    if not event.failed:
        return CARRIED_OUT
    return f"failed for {event.failed} of {len(event.resources)} machines"


def _shown(event: Event | None) -> EventStatus | None:
    return event.status if event else None


def whole_seconds(moment: float) -> int:
    """Round up, so that a notice is never too short (IL3)."""
    return -int(-moment // 1)

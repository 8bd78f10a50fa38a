"""Checks the journal line by line: events follow IL1, in order and without repeats (IC7)."""

from collections.abc import Callable, Mapping

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventType, guid
from tests.sim.invariants import e9, e10, e11, ic6, is_rest, t6
from tests.sim.observed_state import ANNOUNCED, ObservedState
from tests.sim.violations import must

_AFTER = {"start": "running", "stop": "stopped", "deallocate": "deallocated"}
"""By impact; of the others, the platform leaves the power state to the user."""


def power_after(observed: ObservedState, line: JournalLine, kind: str) -> None:
    """Note what an impact did that has ended; one that was given up may yet be done."""
    known = (line.entity[1], *line.fact.machines)
    observed.power.pop(known, None)
    if line.fact.type is FactType.IMPACT_CARRIED_OUT and kind in _AFTER:
        observed.power[known] = _AFTER[kind]


def il14(observed: ObservedState, line: JournalLine) -> None:
    """A report that came late overrules nothing that the machine has done since."""
    scope, power = observed.scopes.get(line.entity[1]), observed.power
    for name in line.fact.machines:
        if scope and name in scope.machines and (expected := power.get((scope.id, name))):
            shown = scope.machines[name].power
            must(shown == expected, "IL14", f"{name} is {shown} by a late report, not {expected}")


def _scheduled(observed: ObservedState, line: JournalLine) -> None:
    known = observed.events.get(line.fact.event)
    if known is None:
        # Announced and removed within one commit: no reader ever saw it.
        return
    must(known.status == "", "IL1", f"{line.fact.event} is Scheduled after {known.status}")
    known.status = "Scheduled"
    event, is_enabled = known.event, known.scope in observed.on
    is_expected = is_enabled or event.peers or is_rest(observed, known.scope, event)
    must(is_expected, "IL12", f"{known.scope} is disabled, but {event.type} is announced")


def _approved(observed: ObservedState, line: JournalLine) -> None:
    known = observed.events.get(line.fact.event)
    if known:
        must(not known.approved, "IL7", f"{line.fact.event} is approved twice")
        known.approved = True


def _started(observed: ObservedState, line: JournalLine) -> None:
    name = line.fact.event
    known = observed.events.get(name)
    if known is None:
        observed.unseen.add(name)  # it must end within the same commit
        return
    if line.fact.announcement:
        must(known.status == "", "IL1", f"{name} starts without notice after {known.status}")
    else:
        must(known.status == "Scheduled", "IL1", f"{name} starts from {known.status}")
        early = known.event.not_before - line.at
        must(known.approved or early <= 0, "IL2", f"{name} starts {early:.1f} s early, unapproved")
        if not known.approved and observed.true_time:
            e11(known, observed.true_time())
        if known.event.type is EventType.TERMINATE and early > 0:
            t6(observed, known)
        if known.event.peers and early > 0:
            e10(observed, known)
    known.status = "Started"
    ic6(observed, known)


def _event_ended(observed: ObservedState, line: JournalLine) -> None:
    name, kind = line.fact.event, line.fact.type
    known = observed.events.get(name)
    if known is None:
        observed.unseen.discard(name)
        return
    before = "Started" if kind is FactType.ENDED else "Scheduled"
    must(known.status == before, "IL1", f"{name} is {kind} from {known.status}")
    known.status = "gone"
    observed.gone_at[name] = line.at
    del observed.open[name]


def _impact_id(observed: ObservedState, line: JournalLine) -> str:
    scope, operation, machine = line.entity[1], line.fact.operation, ",".join(line.fact.machines)
    begun_at = line.at
    if line.fact.type is not FactType.IMPACT_BEGUN:
        begun_at = observed.unannounced.get((operation, scope, machine), line.at)
    return f"{line.fact.event or guid(operation, scope, repr(begun_at))}:{machine}"


def _impact_ended(observed: ObservedState, line: JournalLine) -> None:
    key = _impact_id(observed, line)
    state = observed.impacts.get(key)
    must(state == "begun", "IL5", f"{key} ends but is {state}")
    power_after(observed, line, observed.kind_of[key])
    if "in time" in line.fact.detail:
        e9(observed, key, line.at)
    if "in time" in line.fact.detail or "interrupted" in line.fact.detail:
        observed.impacts[key] = "given up"
    elif line.fact.type is FactType.IMPACT_FAILED:
        is_done = (
            observed.kind_of[key] == "delete" and line.fact.detail == "the machine was deleted"
        )
        must(not is_done, "IL14", f"{key} failed because of an earlier delete")
        observed.impacts[key] = "failed"
    else:
        _done(observed, line, key)


def _done(observed: ObservedState, line: JournalLine, key: str) -> None:
    observed.impacts[key] = "done"
    rollout = line.fact.operation.rpartition("/")[0].rpartition("/")[0]
    if rollout in observed.rollouts:
        observed.machines_done[rollout] |= {(line.entity[1], name) for name in line.fact.machines}


def _reported_late(observed: ObservedState, line: JournalLine) -> None:
    key = _impact_id(observed, line)
    state = observed.impacts.get(key)
    must(state == "given up", "E9", f"{key} is reported late, but it is {state}")
    if line.fact.detail == "carried out":
        _done(observed, line, key)
    else:
        observed.impacts[key] = "failed"


def _impact_begun(observed: ObservedState, line: JournalLine) -> None:
    key = _impact_id(observed, line)
    if not line.fact.event:
        observed.unannounced[line.fact.operation, line.entity[1], *line.fact.machines] = line.at
    must(key not in observed.impacts, "IL5", f"{key} begins again")
    observed.begun_at[key] = observed.with_driver_since[key] = line.at
    observed.operation_of[key] = line.fact.operation
    observed.kind_of[key] = line.fact.detail
    observed.impacts[key] = "begun"
    if line.fact.detail in ANNOUNCED and not line.fact.event:
        scope = line.entity[1]
        must(scope not in observed.on, "IL12", f"{scope} is enabled, but {key} has no event")


def _disabled(observed: ObservedState, line: JournalLine) -> None:
    name = line.entity[1]
    polled_at, idle_seconds = observed.polled.get(name, (0.0, 0))
    if scope := observed.scopes.get(name):  # its rules may have changed since
        idle_seconds = min(idle_seconds, scope.rules.idle_seconds)
    idle = line.at >= polled_at + idle_seconds
    must(idle, "M14", f"{name} is disabled at {line.at}, but was polled at {polled_at}")
    _gone(observed, line)


def _gone(observed: ObservedState, line: JournalLine) -> None:
    observed.on.discard(line.entity[1])
    observed.reads.pop(line.entity[1], None)  # M11: the incarnation restarts
    observed.polled.pop(line.entity[1], None)


def _operation_accepted(observed: ObservedState, line: JournalLine) -> None:
    name = line.fact.operation
    must(name not in observed.operations, "IC2", f"operation {name} is accepted twice")
    observed.operations[name] = "accepted"


def _operation_ended(observed: ObservedState, line: JournalLine) -> None:
    name = line.fact.operation
    must(observed.operations.get(name) == "accepted", "IC1", f"operation {name} ends twice")
    observed.operations[name] = "ended"
    observed.ended_at[name] = line.at


def _operation_corrected(observed: ObservedState, line: JournalLine) -> None:
    name = line.fact.operation
    must(observed.operations.get(name) == "ended", "IC1", f"{name} is corrected before its end")


def _step(observed: ObservedState, line: JournalLine) -> None:
    rollout = line.entity[1].rpartition("/")[0]
    state = observed.rollouts.get(rollout)
    steps = observed.steps[rollout]
    if line.fact.type is FactType.STEP_ENDED:
        steps.discard(line.entity[1])
        return
    must(line.entity[1] not in steps, "IC6", f"{line.entity[1]} has two steps at once")
    steps.add(line.entity[1])
    if state:
        must(len(steps) <= state.batch, "IC6", f"{len(steps)} steps at once, batch {state.batch}")
    must(rollout not in observed.paused, "IC6", f"{rollout} begins a step while paused")


def _removed(observed: ObservedState, line: JournalLine) -> None:
    scope = observed.scopes.get(line.entity[1])
    if scope:
        for machine in line.fact.machines:
            observed.power.pop((scope.id, machine), None)
            must(machine not in scope.machines, "IL11", f"{machine} still exists")


LINES: Mapping[FactType, Callable[[ObservedState, JournalLine], object]] = {
    FactType.ENABLED: lambda observed, line: observed.on.add(line.entity[1]),
    FactType.DISABLED: _disabled,
    FactType.SCOPE_REMOVED: _gone,
    FactType.SCHEDULED: _scheduled,
    FactType.APPROVED: _approved,
    FactType.STARTED: _started,
    FactType.CANCELLED: _event_ended,
    FactType.LAPSED: _event_ended,
    FactType.ENDED: _event_ended,
    FactType.IMPACT_BEGUN: _impact_begun,
    FactType.IMPACT_CARRIED_OUT: _impact_ended,
    FactType.IMPACT_FAILED: _impact_ended,
    FactType.REPORTED_LATE: _reported_late,
    FactType.OPERATION_CORRECTED: _operation_corrected,
    FactType.OPERATION_ACCEPTED: _operation_accepted,
    FactType.OPERATION_ENDED: _operation_ended,
    FactType.STEP_BEGUN: _step,
    FactType.STEP_ENDED: _step,
    FactType.MACHINE_REMOVED: _removed,
    FactType.ROLLOUT_PAUSED: lambda observed, line: observed.paused.add(line.entity[1]),
    FactType.ROLLOUT_RESUMED: lambda observed, line: observed.paused.discard(line.entity[1]),
}

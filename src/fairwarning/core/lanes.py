"""The lanes of a rollout: one step after the other, in windows, in one domain of a scope (E7, IC6).

A step over several scopes is a wave (E10).
"""

from collections.abc import Iterable
from typing import NamedTuple

from fairwarning.core import limits, windows
from fairwarning.core.commands import Command, RetryLane
from fairwarning.core.decision import EntityDecision, Fact, FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.lifecycle import domains_under_maintenance, whole_seconds
from fairwarning.core.messages import (
    AbortLane,
    AdvanceLane,
    CancelOperation,
    LanePaused,
    LaneProgressed,
    MaintainForRollout,
    StepEnded,
)
from fairwarning.core.model import Lane, Power, Rollout, RolloutStatus, Scope
from fairwarning.core.operation_rules import event_type, notice_seconds
from fairwarning.core.record import changed
from fairwarning.core.rollout import Read, Step, known_scope
from fairwarning.core.times import iso


class Moment(NamedTuple):
    """A moment in fleet time, and the seconds by which that is ahead of wall time."""

    now: float
    clock_ahead: int


def decide(
    lane: Lane | None, rollout: Rollout | None, command: Command, read: Read, at: Moment
) -> EntityDecision:
    """Decide `command` on a lane. At most one of its steps is in progress at a time."""
    if lane is None or rollout is None:
        name = getattr(command, "lane", "")
        raise NotFound("UnknownLane", f"there is no lane {name!r} under way")
    match command:
        case AdvanceLane():
            return _advance(lane, rollout, read, at)
        case RetryLane():
            if lane.retry_at is None or at.now < lane.retry_at:
                return EntityDecision(lane)
            return _advance(changed(lane, retry_at=None), rollout, read, at)
        case StepEnded():
            return _step_ended(lane, rollout, command)
        case AbortLane():
            return _abort_lane(lane, rollout)
        case _:
            raise AssertionError(command)


def _advance(lane: Lane, rollout: Rollout, read: Read, at: Moment) -> EntityDecision:
    if rollout.status is RolloutStatus.ABORTED:
        return _end_lane(lane, rollout, skipped=0)
    if rollout.status is RolloutStatus.PAUSED:
        return EntityDecision(lane, (), (LanePaused(rollout=rollout.id, lane=lane.number),))
    skipped = 0
    for position in range(lane.position, len(lane.steps)):
        planned = lane.steps[position]
        step = _present(lane, planned, read)
        if step:
            lane_at_step = changed(lane, position=position)
            decision = _begin_step(lane_at_step, rollout, step, read, at)
            if decision.sends:  # not deferred: machines that are absent now are skipped for good
                skipped += _size(planned) - _size(step)
            sends = (*decision.sends, *_skip(lane, rollout, skipped))
            return changed(decision, sends=sends)
        skipped += _size(planned)
    return _end_lane(lane, rollout, skipped)


def _skip(lane: Lane, rollout: Rollout, skipped: int) -> tuple[Command, ...]:
    if not skipped:
        return ()
    return (LaneProgressed(rollout=rollout.id, lane=lane.number, skipped=skipped),)


def _begin_step(lane: Lane, rollout: Rollout, step: Step, read: Read, at: Moment) -> EntityDecision:
    now, ahead = at.now, at.clock_ahead
    busy = [
        name for scope, names in step.items() for name in _busy(known_scope(read, scope), names)
    ]
    if busy:
        return _defer(lane, Fact(FactType.STEP_DEFERRED, machines=tuple(busy)), now)
    scopes = [known_scope(read, scope) for scope in step]
    if other := next((s for s in scopes if _other_domains(s, step[s.id])), None):
        first = min(_other_domains(other, step[other.id]))
        detail = f"update domain {first} of {other.id} is under maintenance"
        return _defer(lane, Fact(FactType.STEP_DEFERRED, detail=detail), now)
    texts = tuple(
        scope.rules.maintenance_window for scope in scopes if scope.rules.maintenance_window
    )
    window_at = 0
    if texts:
        enabled = any(scope.enabled for scope in scopes)
        notice = max(_notices(rollout, step, scopes)) if enabled else 0
        wanted = now + notice - ahead  # windows are in wall time
        opens_at = windows.common_opening(texts, wanted)
        if opens_at != wanted:
            return _await_window(lane, opens_at and opens_at + ahead, notice, now)
        window_at = whole_seconds(windows.opened_at(texts, wanted)) + ahead
    fact = Fact(FactType.STEP_BEGUN, operation=step_id(lane))
    return EntityDecision(
        changed(lane, in_progress=True, deferred=0, window_at=None),
        (fact,),
        tuple(_maintenance(lane, rollout, step, scopes, now=now, opens_at=window_at)),
    )


def _other_domains(scope: Scope, names: tuple[str, ...]) -> set[int]:
    """Other update domains of a scope under maintenance, whoever asked for it (IC6)."""
    return domains_under_maintenance(scope) - {scope.machines[n].update_domain for n in names}


def _defer(lane: Lane, fact: Fact, now: float) -> EntityDecision:
    wait = limits.ROLLOUT_RETRY_SECONDS * 2 ** min(lane.deferred, 10)
    retry_at = now + min(wait, limits.ROLLOUT_RETRY_MAX_SECONDS)
    # Only the first deferral is journaled.
    facts = () if lane.deferred else (fact,)
    after = changed(lane, retry_at=retry_at, deferred=lane.deferred + 1, window_at=None)
    return EntityDecision(after, facts)


def _await_window(lane: Lane, opens_at: float | None, notice: float, now: float) -> EntityDecision:
    """Let the step wait, so that its NotBefore falls into the window of all its scopes.

    It is tried now and then before, as a window may be changed.
    """
    latest = now + limits.ROLLOUT_RETRY_MAX_SECONDS
    retry_at = latest if opens_at is None else min(latest, opens_at - notice)
    after = changed(lane, retry_at=retry_at, window_at=opens_at or 0.0)
    if lane.window_at is not None:
        return EntityDecision(after)
    why = f"opens at {iso(int(opens_at))}" if opens_at else "does not open at a time for all"
    detail = f"the maintenance window {why}"
    return EntityDecision(after, (Fact(FactType.STEP_DEFERRED, detail=detail),))


def _busy(scope: Scope, names: tuple[str, ...]) -> Iterable[str]:
    if len(scope.events) >= limits.SCOPE_EVENTS:  # the scope has no room for another event
        return names
    return (name for name in names if name in scope.impacts)


def _maintenance(
    lane: Lane, rollout: Rollout, step: Step, scopes: list[Scope], *, now: float, opens_at: int
) -> Iterable[MaintainForRollout]:
    """All scopes of a wave share one NotBefore, from the longest notice (E10)."""
    wave = any(scope.enabled for scope in scopes)  # in one scope, without peers
    for scope in scopes:
        yield MaintainForRollout(
            scope=scope.id,
            machines=step[scope.id],
            operation=step_id(lane),
            lane=lane.id,
            kind=rollout.kind,
            duration_seconds=rollout.duration_seconds,
            peers=tuple(other for other in step if other != scope.id) if wave else (),
            not_before=whole_seconds(now + max(_notices(rollout, step, scopes))) if wave else None,
            opens_at=opens_at,
        )


def _notices(rollout: Rollout, step: Step, scopes: Iterable[Scope]) -> Iterable[int]:
    """The notice of each machine of a step."""
    for scope in scopes:
        for name in step[scope.id]:
            yield notice_seconds(scope.rules, event_type(rollout.kind), scope.machines[name])


def _present(lane: Lane, step: Step, read: Read) -> Step:
    """The machines of a step that still are on its hosts, of one update domain (IC6).

    A machine may have been deleted meanwhile, and created again in another domain.
    """
    present = {}
    for scope_id, names in step.items():
        scope = read(scope_id)
        machines = [
            machine
            for name in names
            if scope
            and (machine := scope.machines.get(name))
            and machine.power is not Power.DEALLOCATED
            and (not lane.hosts or machine.host in lane.hosts)
        ]
        if machines:
            domain = min(machines, key=lambda machine: machine.created_at).update_domain
            present[scope_id] = tuple(m.name for m in machines if m.update_domain == domain)
    return present


def _step_ended(lane: Lane, rollout: Rollout, command: StepEnded) -> EntityDecision:
    counted = LaneProgressed(
        rollout=rollout.id,
        lane=lane.number,
        done=command.done,
        failed=command.failed,
        skipped=command.cancelled,
    )
    after = changed(lane, position=lane.position + 1, in_progress=False)
    fact = Fact(FactType.STEP_ENDED, operation=step_id(lane))
    return EntityDecision(after, (fact,), (counted, AdvanceLane(lane=lane.id)))


def _abort_lane(lane: Lane, rollout: Rollout) -> EntityDecision:
    if not lane.in_progress:
        return _end_lane(lane, rollout, skipped=0)
    sends = tuple(
        CancelOperation(scope=scope, operation=step_id(lane), reason="the rollout was aborted")
        for scope in lane.steps[lane.position]
    )
    return EntityDecision(lane, (), sends)


def _end_lane(lane: Lane, rollout: Rollout, skipped: int) -> EntityDecision:
    counted = LaneProgressed(rollout=rollout.id, lane=lane.number, skipped=skipped, ended=True)
    return EntityDecision(None, (), (counted,))


def step_id(lane: Lane) -> str:
    """The id of the operation that the present step of a lane is."""
    return f"{lane.id}/{lane.position}"


def _size(step: Step) -> int:
    return sum(len(names) for names in step.values())

"""Host rollouts: update domains (or hosts) in order, pause, resume, abort, progress (E7, E10, IC6).

A rollout is planned once into lanes. Steps of one lane share scopes and follow one another; lanes
share none, so they run in parallel. A step over several scopes is a wave.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fairwarning.core import limits, windows
from fairwarning.core.commands import (
    AbortRollout,
    Command,
    PauseRollout,
    ResumeRollout,
    RetryLane,
    StartRollout,
)
from fairwarning.core.decision import EntityDecision, Fact, FactType
from fairwarning.core.errors import Conflict, NotFound, Refused
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
from fairwarning.core.model import (
    Lane,
    Machine,
    Power,
    Rollout,
    RolloutStatus,
    Scope,
)
from fairwarning.core.operation_rules import event_type, notice_seconds
from fairwarning.core.record import changed
from fairwarning.core.times import iso


class Moment(NamedTuple):
    """A moment in fleet time, and the seconds by which that is ahead of wall time."""

    now: float
    clock_ahead: int


Read = Callable[[str], Scope | None]
Step = Mapping[str, tuple[str, ...]]

# --- Planning ----------------------------------------------------------------------------------


def plan(
    scopes: Iterable[Scope], *, by_host: bool, hosts: tuple[str, ...] | None
) -> list[list[Step]]:
    """Plan the lanes, each a list of steps: by update domain, or by host. There is at least one."""
    groups: dict[tuple[str, ...], dict[str, list[Machine]]] = {}
    for scope in scopes:
        for machine in scope.machines.values():
            if machine.power is Power.DEALLOCATED or (hosts and machine.host not in hosts):
                continue
            key: tuple[str, ...] = (
                (machine.host,) if by_host else (scope.id, f"{machine.update_domain:03d}")
            )
            if not all(key):
                raise Refused("NoHost", f"{machine.name!r} has no host; roll out by domain instead")
            groups.setdefault(key, {}).setdefault(scope.id, []).append(machine)
    if not groups:
        raise Refused("NothingToDo", "none of these scopes has a machine on a host to work on")
    for key, members in groups.items():
        _check_one_domain(key[0], members)
    return _lanes([groups[key] for key in sorted(groups)])


def _check_one_domain(host: str, members: Mapping[str, list[Machine]]) -> None:
    """A host must not have machines of two update domains of one scope (IC6)."""
    for scope, machines in members.items():
        if len({machine.update_domain for machine in machines}) > 1:
            raise Refused(
                "HostSpansDomains",
                f"host {host!r} carries machines of {scope!r} in several update domains; "
                "roll out by domain instead",
            )


def _lanes(steps: list[dict[str, list[Machine]]]) -> list[list[Step]]:
    """Put steps that share a scope, directly or through other steps, into one lane."""
    leader: dict[str, str] = {}

    def find(scope: str) -> str:
        while leader.setdefault(scope, scope) != scope:
            leader[scope] = scope = leader[leader[scope]]
        return scope

    for step in steps:
        first, *rest = step
        for scope in rest:
            leader[find(scope)] = find(first)
    lanes: dict[str, list[Step]] = {}
    for step in steps:
        named = {scope: tuple(m.name for m in machines) for scope, machines in step.items()}
        lanes.setdefault(find(next(iter(step))), []).append(named)
    return list(lanes.values())


# --- The rollout ---------------------------------------------------------------------------------


def _start(
    rollout: Rollout | None, command: StartRollout, read: Read, now: float
) -> EntityDecision:
    """Plan a rollout and start its first lanes."""
    if rollout is not None:
        raise Conflict("RolloutExists", f"a rollout {rollout.id!r} exists already")
    lanes = plan(
        [_known(read, scope) for scope in command.scopes],
        by_host=command.by_host,
        hosts=command.hosts,
    )
    planned = Rollout(
        id=command.rollout,
        kind=command.kind,
        actor=command.actor,
        started_at=now,
        batch=command.batch,
        lanes=len(lanes),
        machines=sum(len(names) for lane in lanes for step in lane for names in step.values()),
        duration_seconds=command.duration_seconds,
        halt_percent=command.halt_percent,
        request=command.request,
    )
    by_host = command.by_host or command.hosts
    entities = tuple(
        Lane(
            id=lane_id(planned.id, n),
            rollout=planned.id,
            number=n,
            steps=tuple(steps),
            hosts=_hosts(steps, read) if by_host else (),
        )
        for n, steps in enumerate(lanes)
    )
    going, sends = _start_lanes(planned)
    return EntityDecision(going, (Fact(FactType.ROLLOUT_STARTED),), sends, entities)


def _hosts(steps: list[Step], read: Read) -> tuple[str, ...]:
    """The hosts of the machines of these steps."""
    hosts = (
        _known(read, scope).machines[name].host
        for step in steps
        for scope, names in step.items()
        for name in names
    )
    return tuple(dict.fromkeys(hosts))


def decide(rollout: Rollout | None, command: Command, read: Read, now: float) -> EntityDecision:
    """Decide `command` on a rollout."""
    if isinstance(command, StartRollout):
        return _start(rollout, command, read, now)
    if rollout is None:
        raise NotFound("UnknownRollout", f"there is no rollout {getattr(command, 'rollout', '')!r}")
    match command:
        case PauseRollout():
            return _pause(rollout)
        case ResumeRollout():
            return _resume(rollout)
        case AbortRollout():
            return _abort(rollout)
        case LanePaused():
            return EntityDecision(changed(rollout, waiting=(*rollout.waiting, command.lane)))
        case LaneProgressed():
            return _lane_progressed(rollout, command, now)
        case _:
            raise AssertionError(command)


def _pause(rollout: Rollout) -> EntityDecision:
    _check_status(rollout, RolloutStatus.RUNNING, "paused")
    return EntityDecision(
        changed(rollout, status=RolloutStatus.PAUSED), (Fact(FactType.ROLLOUT_PAUSED),)
    )


def _resume(rollout: Rollout) -> EntityDecision:
    _check_status(rollout, RolloutStatus.PAUSED, "resumed")
    waiting = rollout.waiting
    going, sends = _start_lanes(changed(rollout, status=RolloutStatus.RUNNING, why="", waiting=()))
    woken = tuple(AdvanceLane(lane=lane_id(rollout.id, n)) for n in waiting)
    return EntityDecision(going, (Fact(FactType.ROLLOUT_RESUMED),), woken + sends)


def _abort(rollout: Rollout) -> EntityDecision:
    """Abort a rollout; it ends with the last of its running lanes."""
    if rollout.status not in {RolloutStatus.RUNNING, RolloutStatus.PAUSED}:
        _check_status(rollout, RolloutStatus.RUNNING, "aborted")
    sends = tuple(AbortLane(lane=lane_id(rollout.id, n)) for n in rollout.running)
    assert sends  # a lane ends only while the rollout is running, and then the next one starts
    aborted = changed(rollout, status=RolloutStatus.ABORTED)
    return EntityDecision(aborted, (Fact(FactType.ROLLOUT_ABORTED),), sends)


def _check_status(rollout: Rollout, status: RolloutStatus, wish: str) -> None:
    if rollout.status is not status:
        raise Conflict(
            "RolloutState", f"rollout {rollout.id!r} is {rollout.status} and cannot be {wish}"
        )


def _lane_progressed(rollout: Rollout, command: LaneProgressed, now: float) -> EntityDecision:
    rollout = changed(
        rollout,
        done=rollout.done + command.done,
        failed=rollout.failed + command.failed,
        skipped=rollout.skipped + command.skipped,
    )
    facts: tuple[Fact, ...] = ()
    if (
        command.failed > 0
        and rollout.status is RolloutStatus.RUNNING
        and (why := _failure_limit_exceeded(rollout))
    ):
        rollout = changed(rollout, status=RolloutStatus.PAUSED, why=why)
        facts = (Fact(FactType.ROLLOUT_PAUSED, detail=why),)
    if not command.ended:
        return EntityDecision(rollout, facts)
    running = tuple(n for n in rollout.running if n != command.lane)
    rollout, sends = _start_lanes(changed(rollout, running=running))
    if rollout.running or (
        rollout.next_lane < rollout.lanes and rollout.status is not RolloutStatus.ABORTED
    ):
        return EntityDecision(rollout, facts, sends)
    aborted = rollout.status is RolloutStatus.ABORTED
    status = RolloutStatus.ABORTED if aborted else RolloutStatus.DONE
    ended = changed(rollout, status=status, ended_at=now)
    return EntityDecision(ended, (*facts, Fact(FactType.ROLLOUT_ENDED, detail=status)))


def _failure_limit_exceeded(rollout: Rollout) -> str:
    """Why the rollout pauses, if too many machines have failed."""
    failed, machines, most = rollout.failed, rollout.machines, rollout.halt_percent
    if most is None or failed * 100 <= most * machines:
        return ""
    return f"{failed} of {machines} machines failed, more than {most} %"


def _start_lanes(rollout: Rollout) -> tuple[Rollout, tuple[Command, ...]]:
    """Start lanes until `batch` of them are running."""
    if rollout.status is not RolloutStatus.RUNNING:
        return rollout, ()
    room = rollout.batch - len(rollout.running)
    last = min(rollout.next_lane + room, rollout.lanes)
    fresh = tuple(range(rollout.next_lane, last))
    going = changed(rollout, running=rollout.running + fresh, next_lane=last)
    return going, tuple(AdvanceLane(lane=lane_id(rollout.id, n)) for n in fresh)


def rollout_of_step(operation: str) -> str:
    """The rollout whose step has this operation; empty if the id is not that of a step."""
    rollout, _, step = operation.partition("/")
    lane, _, position = step.partition("/")
    return rollout if lane.isdigit() and position.isdigit() else ""


def lane_id(rollout: str, number: int) -> str:
    """The id of a lane."""
    return f"{rollout}/{number}"


def _known(read: Read, scope: str) -> Scope:
    entity = read(scope)
    if entity is None:
        raise NotFound("UnknownScope", f"there is no scope {scope!r}")
    return entity


# --- Lanes ---------------------------------------------------------------------------------------


def decide_lane(
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
    busy = [name for scope, names in step.items() for name in _busy(_known(read, scope), names)]
    if busy:
        return _defer(lane, Fact(FactType.STEP_DEFERRED, machines=tuple(busy)), now)
    scopes = [_known(read, scope) for scope in step]
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


def progress(rollout: Rollout) -> float:
    """The share of machines that are done, failed or skipped, from 0 to 1."""
    return (rollout.done + rollout.failed + rollout.skipped) / rollout.machines

"""Host rollouts: update domains (or hosts) in order, pause, resume, abort, progress (E7, E10, IC6).

A rollout is planned once into lanes. Steps of one lane share scopes and follow one another; lanes
share none, so they run in parallel. A step over several scopes is a wave.
"""

from collections.abc import Callable, Iterable, Mapping

from fairwarning.core.commands import (
    AbortRollout,
    Command,
    PauseRollout,
    ResumeRollout,
    StartRollout,
)
from fairwarning.core.decision import EntityDecision, Fact, FactType
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.messages import (
    AbortLane,
    AdvanceLane,
    LanePaused,
    LaneProgressed,
)
from fairwarning.core.model import (
    Lane,
    Machine,
    Power,
    Rollout,
    RolloutStatus,
    Scope,
)
from fairwarning.core.record import changed

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
        [known_scope(read, scope) for scope in command.scopes],
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
        known_scope(read, scope).machines[name].host
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


def known_scope(read: Read, scope: str) -> Scope:
    """The scope of this name."""
    entity = read(scope)
    if entity is None:
        raise NotFound("UnknownScope", f"there is no scope {scope!r}")
    return entity


def progress(rollout: Rollout) -> float:
    """The share of machines that are done, failed or skipped, from 0 to 1."""
    return (rollout.done + rollout.failed + rollout.skipped) / rollout.machines

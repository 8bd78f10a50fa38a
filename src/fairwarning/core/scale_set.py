"""Scale sets: their models, placement groups and terminate queue (T1 to T7)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from fairwarning.core import joining, limits
from fairwarning.core.commands import (
    Command,
    Configure,
    CreateSet,
    Delete,
    DeleteSet,
    JoinSet,
    OperateInstances,
    ProtectInstances,
    Scale,
    UpdateSet,
    UpgradeInstances,
)
from fairwarning.core.decision import EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.messages import (
    AddInstances,
    ApplyModel,
    DeleteAnnounced,
    DeleteApproved,
    DeleteLeftQueue,
    DeletionFailed,
    InstanceDeleted,
    LinkSet,
    RemoveEmptyScope,
    SetProtection,
    StartQueuedDelete,
    TargetDeleted,
    TargetDeletionFailed,
)
from fairwarning.core.model import (
    Impact,
    ImpactKind,
    Machine,
    PendingDelete,
    ScaleInRule,
    ScaleSet,
    Scope,
    UpgradeMode,
)
from fairwarning.core.operation_rules import OPERATION_RULES
from fairwarning.core.record import changed

V = TypeVar("V")
Read = Callable[[str], Scope | None]
Groups = Mapping[str, Scope]
Pick = tuple[str, Machine]
"""An instance: its scope and the machine."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def host_name(prefix: str, instance: int) -> str:
    """`web` and 85 give `web00002D`: the id in base 36, six places (T7)."""
    digits = ""
    for _ in range(6):
        instance, digit = divmod(instance, 36)
        digits = _DIGITS[digit] + digits
    return prefix + digits


def decide(scale_set: ScaleSet | None, command: Command, read: Read) -> EntityDecision:
    """Decide `command` on a set; `read` returns the scopes of its placement groups."""
    if isinstance(command, CreateSet):
        return _create(scale_set, command)
    if scale_set is None:
        raise NotFound("UnknownSet", f"there is no scale set {getattr(command, 'set', '')!r}")
    if handler := _QUEUE_HANDLERS.get(type(command)):
        return handler(scale_set, command)
    groups = {name: scope for name in scale_set.groups if (scope := read(name))}
    return _HANDLERS[type(command)](scale_set, command, groups)


# --- The set and its model --------------------------------------------------------------------


def _create(scale_set: ScaleSet | None, command: CreateSet) -> EntityDecision:
    if scale_set is not None:
        raise Conflict("SetExists", f"there is a scale set {scale_set.id!r} already")
    name = command.name or command.set
    born = ScaleSet(
        id=command.set,
        name=name,
        group=command.group,
        prefix=command.prefix or name,
        terminate_seconds=command.terminate_seconds,
        upgrade=command.upgrade,
        scale_in=command.scale_in,
        priority=command.priority,
        eviction=command.eviction,
        update_domains=command.update_domains,
        fault_domains=command.fault_domains,
        rules=command.rules,
        size=command.size,
        zones=command.zones,
        tags=command.tags,
        flexible=command.flexible,
        subnet=command.subnet,
    )
    grown, sends = _grow(born, command.capacity, {})
    return EntityDecision(grown, (Fact(FactType.SET_CREATED),), sends)


def _update(scale_set: ScaleSet, command: UpdateSet, groups: Groups) -> EntityDecision:
    _check_not_deleting(scale_set)
    updated = changed(
        scale_set,
        upgrade=command.upgrade or scale_set.upgrade,
        scale_in=command.scale_in or scale_set.scale_in,
        rules=command.rules or scale_set.rules,
        tags=_or(command.tags, scale_set.tags),
        terminate_seconds=_or(command.terminate_seconds, scale_set.terminate_seconds),
        size=_or(command.size, scale_set.size),
    )
    before, after = ((s.terminate_seconds, s.size, s.tags) for s in (scale_set, updated))
    if command.renewed or before != after:
        updated = changed(updated, model=scale_set.model + 1)
    sends: list[Command] = []
    if command.rules is not None:
        sends += [Configure(scope=scope, rules=command.rules) for scope in scale_set.groups]
    if updated.upgrade is UpgradeMode.AUTOMATIC:
        sends += _apply_model(updated, _named(updated, None, groups))
    return EntityDecision(
        updated, (Fact(FactType.SET_CHANGED, detail=f"model {updated.model}"),), tuple(sends)
    )


def _or(value: V | None, standing: V) -> V:
    return standing if value is None else value


def _link(scale_set: ScaleSet, command: LinkSet) -> EntityDecision:
    return EntityDecision(changed(scale_set, resource=command.resource))


def _upgrade(scale_set: ScaleSet, command: UpgradeInstances, groups: Groups) -> EntityDecision:
    picks = _named(scale_set, command.instances, groups)
    return EntityDecision(scale_set, (), tuple(_apply_model(scale_set, picks)))


def _apply_model(scale_set: ScaleSet, picks: Iterable[Pick]) -> list[Command]:
    return [
        ApplyModel(
            scope=scope,
            machines=names,
            model=scale_set.model,
            terminate_seconds=scale_set.terminate_seconds,
            size=scale_set.size,
            tags=scale_set.tags,
        )
        for scope, names in _by_scope(pick for pick in picks if pick[1].model).items()
    ]


def _protect(scale_set: ScaleSet, command: ProtectInstances, groups: Groups) -> EntityDecision:
    picks = _named(scale_set, command.instances, groups)
    sends = tuple(
        SetProtection(
            scope=scope,
            machines=names,
            protected=command.protected,
            shielded=command.shielded,
        )
        for scope, names in _by_scope(picks).items()
    )
    return EntityDecision(scale_set, (), sends)


# --- Adding and deleting instances --------------------------------------------------------------


def _scale(scale_set: ScaleSet, command: Scale, groups: Groups) -> EntityDecision:
    _check_not_deleting(scale_set)
    staying = _staying(groups)
    fact = Fact(
        FactType.SET_CHANGED, operation=command.operation, detail=f"capacity {command.capacity}"
    )
    if command.capacity >= len(staying):
        grown, sends = _grow(scale_set, command.capacity - len(staying), groups)
        return EntityDecision(grown, (fact,), sends)
    leaving = _choose(scale_set.scale_in, staying, len(staying) - command.capacity, groups)
    return EntityDecision(scale_set, (fact,), _deletes(command, leaving))


def _operate(scale_set: ScaleSet, command: OperateInstances, groups: Groups) -> EntityDecision:
    picks = _named(scale_set, command.instances, groups)
    if command.action is Delete:
        fact = Fact(FactType.SET_CHANGED, operation=command.operation, detail=f"{len(picks)} fewer")
        return EntityDecision(scale_set, (fact,), _deletes(command, picks))
    sends = tuple(
        command.action(
            scope=scope, machines=names, operation=command.operation, actor=command.actor
        )
        for scope, names in _by_scope(picks).items()
    )
    return EntityDecision(scale_set, (), sends)


def _delete(scale_set: ScaleSet, command: DeleteSet, groups: Groups) -> EntityDecision:
    """Delete the set. It counts as one impact, so the operation ends with its removal."""
    _check_not_deleting(scale_set)
    in_deletion = changed(scale_set, deleting=command.operation)
    fact = Fact(FactType.SET_CHANGED, operation=command.operation, detail="being deleted")
    planned = OperationProgress(command.operation, planned=1)
    if not _instances(groups):
        return _remove(in_deletion, (fact,), (planned,))
    return EntityDecision(
        in_deletion, (fact,), _deletes(command, _staying(groups)), progress=(planned,)
    )


def _instance_deleted(scale_set: ScaleSet, _: InstanceDeleted, groups: Groups) -> EntityDecision:
    if scale_set.deleting and not _instances(groups):
        return _remove(scale_set, (), ())
    return EntityDecision(scale_set)


def _deletion_failed(scale_set: ScaleSet, command: DeletionFailed) -> EntityDecision:
    """An instance was not deleted, so the set stays; it may be deleted again."""
    if not scale_set.deleting:
        return EntityDecision(scale_set)
    failed = OperationProgress(scale_set.deleting, failed=1, error=command.why)
    resource, why = scale_set.resource, command.why
    sends = (TargetDeletionFailed(resource=resource, why=why),) if resource else ()
    return EntityDecision(changed(scale_set, deleting=""), (), sends, progress=(failed,))


def _remove(
    scale_set: ScaleSet, facts: tuple[Fact, ...], progress: tuple[OperationProgress, ...]
) -> EntityDecision:
    sends: list[Command] = [RemoveEmptyScope(scope=scope) for scope in scale_set.groups]
    if scale_set.resource:
        sends.append(TargetDeleted(resource=scale_set.resource))
    done = OperationProgress(scale_set.deleting, done=1)
    return EntityDecision(
        None, (*facts, Fact(FactType.SET_REMOVED)), tuple(sends), progress=(*progress, done)
    )


def _deletes(
    command: Scale | OperateInstances | DeleteSet, picks: Iterable[Pick]
) -> tuple[Command, ...]:
    return tuple(
        Delete(scope=scope, machines=names, operation=command.operation, actor=command.actor)
        for scope, names in _by_scope(picks).items()
    )


def groups_of_new_set(command: CreateSet) -> list[str]:
    """The placement groups that a new set gets, to load them at once."""
    return [
        f"{command.set}/{number}"
        for number in range(-(-command.capacity // limits.PLACEMENT_GROUP_MACHINES))
    ]


def _grow(scale_set: ScaleSet, count: int, groups: Groups) -> tuple[ScaleSet, tuple[Command, ...]]:
    """Add instances to the first group with room, or to a new one; ids are never reused (T7)."""
    first = scale_set.next_instance
    domains = {
        scope: [m.update_domain for m in groups[scope].machines.values()] for scope in groups
    }
    zones = Counter(machine.zone for _, machine in _instances(groups))
    born: dict[str, list[Machine]] = {}
    for instance in range(first, first + count):
        scope = next(
            (s for s, used in domains.items() if len(used) < limits.PLACEMENT_GROUP_MACHINES), None
        )
        if scope is None:
            scope = f"{scale_set.id}/{len(domains)}"
            domains[scope] = []
        used = domains[scope]
        domain = min(range(scale_set.update_domains), key=used.count)
        used.append(domain)
        zone = min(scale_set.zones, key=zones.__getitem__, default="")
        zones[zone] += 1
        born.setdefault(scope, []).append(_instance(scale_set, instance, domain, zone))
    grown = changed(scale_set, next_instance=first + count, groups=tuple(domains))
    sends = tuple(
        AddInstances(
            scope=scope,
            machines=tuple(machines),
            owner=scale_set.id,
            group=scale_set.group,
            rules=scale_set.rules,
        )
        for scope, machines in born.items()
    )
    return grown, sends


def _join(scale_set: ScaleSet, command: JoinSet, groups: Groups) -> EntityDecision:
    _check_not_deleting(scale_set)
    grown, add = joining.join(scale_set, command, groups)
    return EntityDecision(grown, (Fact(FactType.SET_CHANGED, detail="1 joined"),), (add,))


def _instance(scale_set: ScaleSet, instance: int, domain: int, zone: str) -> Machine:
    return Machine(
        name=f"{scale_set.name}_{instance}",
        host_name=host_name(scale_set.prefix, instance),
        update_domain=domain,
        fault_domain=instance % scale_set.fault_domains,
        priority=scale_set.priority,
        eviction=scale_set.eviction,
        terminate_seconds=scale_set.terminate_seconds,
        instance=instance,
        model=scale_set.model,
        size=scale_set.size,
        zone=zone,
        tags=scale_set.tags,
        subnet=scale_set.subnet,
    )


# --- Choosing instances -------------------------------------------------------------------------


def _instances(groups: Groups) -> list[Pick]:
    return [(scope.id, m) for scope in groups.values() for m in scope.machines.values()]


def _staying(groups: Groups) -> list[Pick]:
    """The instances that are not in deletion."""
    return [
        (scope, machine)
        for scope, machine in _instances(groups)
        if (impact := groups[scope].impacts.get(machine.name)) is None
        or impact.kind is not ImpactKind.DELETE
    ]


def _named(scale_set: ScaleSet, ids: tuple[int, ...] | None, groups: Groups) -> list[Pick]:
    picks = _instances(groups)
    if ids is None:
        return [pick for pick in picks if not pick[1].shielded]
    known = {machine.instance: (scope, machine) for scope, machine in picks}
    for instance in ids:
        if instance not in known:
            raise NotFound(
                "UnknownInstance", f"scale set {scale_set.id!r} has no instance {instance}"
            )
    return [known[instance] for instance in ids]


def _choose(rule: ScaleInRule, picks: list[Pick], count: int, groups: Groups) -> list[Pick]:
    """The instances that scale-in deletes. Protected and busy instances are skipped."""
    free = [
        (scope, machine)
        for scope, machine in picks
        if not (machine.protected or machine.shielded)
        and _may_go(groups[scope].impacts.get(machine.name))
    ]
    if len(free) < count:
        raise Conflict(
            "NotEnoughInstances",
            f"{count} instances would have to go, but only {len(free)} are neither protected "
            "nor being worked on",
        )
    if rule is ScaleInRule.NEWEST:
        free.sort(key=lambda pick: (-pick[1].created_at, -pick[1].instance))
    elif rule is ScaleInRule.OLDEST:
        free.sort(key=lambda pick: (pick[1].created_at, pick[1].instance))
    else:
        return _balanced(free, count)
    return free[:count]


def _may_go(impact: Impact | None) -> bool:
    """Whether a delete may replace the pending impact (E5)."""
    return impact is None or (
        not impact.in_progress and impact.kind in OPERATION_RULES[Delete, None].replaces
    )


def _balanced(free: list[Pick], count: int) -> list[Pick]:
    """The default policy: the highest id of the fullest zone and fault domain, repeatedly."""
    zones = Counter(machine.zone for _, machine in free)
    domains: dict[tuple[str, int], list[Pick]] = {}
    for pick in sorted(free, key=lambda pick: pick[1].instance):
        domains.setdefault((pick[1].zone, pick[1].fault_domain), []).append(pick)
    chosen = []
    for _ in range(count):
        fullest = max(
            domains, key=lambda d: (zones[d[0]], len(domains[d]), domains[d][-1][1].instance)
        )
        chosen.append(domains[fullest].pop())
        zones[fullest[0]] -= 1
        domains = {domain: picks for domain, picks in domains.items() if picks}
    return chosen


def _by_scope(picks: Iterable[Pick]) -> dict[str, tuple[str, ...]]:
    names: dict[str, list[str]] = {}
    for scope, machine in picks:
        names.setdefault(scope, []).append(machine.name)
    return {scope: tuple(machines) for scope, machines in names.items()}


def _check_not_deleting(scale_set: ScaleSet) -> None:
    if scale_set.deleting:
        raise Conflict("SetDeleting", f"scale set {scale_set.id!r} is being deleted")


# --- The terminate queue (T6) ---------------------------------------------------------------------


def _delete_announced(scale_set: ScaleSet, command: DeleteAnnounced) -> EntityDecision:
    return EntityDecision(changed(scale_set, queue=(*scale_set.queue, command.entry)))


def _delete_approved(scale_set: ScaleSet, command: DeleteApproved) -> EntityDecision:
    queue = tuple(
        changed(entry, approved=True) if entry.event == command.event else entry
        for entry in scale_set.queue
    )
    return _start_queued(scale_set, queue)


def _delete_left_queue(scale_set: ScaleSet, command: DeleteLeftQueue) -> EntityDecision:
    return _start_queued(scale_set, tuple(e for e in scale_set.queue if e.event != command.event))


def _start_queued(scale_set: ScaleSet, queue: tuple[PendingDelete, ...]) -> EntityDecision:
    """Start approved deletes that no earlier or simultaneous delete holds back."""
    same_time = {entry.not_before for entry in queue if not entry.approved}
    kept: list[PendingDelete] = []
    released: list[Command] = []
    behind = False
    for entry in queue:
        if entry.approved and not behind and entry.not_before not in same_time:
            released.append(StartQueuedDelete(scope=entry.scope, event=entry.event))
        else:
            kept.append(entry)
            behind = behind or not entry.approved
    return EntityDecision(changed(scale_set, queue=tuple(kept)), (), tuple(released))


_HANDLERS: dict[type[Command], Callable[..., EntityDecision]] = {
    UpdateSet: _update,
    JoinSet: _join,
    UpgradeInstances: _upgrade,
    ProtectInstances: _protect,
    Scale: _scale,
    OperateInstances: _operate,
    DeleteSet: _delete,
    InstanceDeleted: _instance_deleted,
}
_QUEUE_HANDLERS: dict[type[Command], Callable[..., EntityDecision]] = {
    LinkSet: _link,
    DeletionFailed: _deletion_failed,
    DeleteAnnounced: _delete_announced,
    DeleteApproved: _delete_approved,
    DeleteLeftQueue: _delete_left_queue,
}
"""Commands that need no placement group."""

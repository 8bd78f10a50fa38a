"""Scale sets: their models, placement groups and terminate queue (T1 to T7)."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from fairwarning.core import choosing, growing, joining, terminate_queue
from fairwarning.core.choosing import Groups, Pick
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
from fairwarning.core.growing import check_not_deleting
from fairwarning.core.messages import (
    ApplyModel,
    DeleteAnnounced,
    DeleteApproved,
    DeleteLeftQueue,
    DeletionFailed,
    GroupPolled,
    InstanceDeleted,
    LinkSet,
    RemoveEmptyScope,
    SetProtection,
    ShareGroupPoll,
    TargetDeleted,
    TargetDeletionFailed,
)
from fairwarning.core.model import (
    Priority,
    ScaleSet,
    Scope,
    UpgradeMode,
)
from fairwarning.core.record import changed

V = TypeVar("V")
Read = Callable[[str], Scope | None]


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
        windows=command.windows,
        tags=command.tags,
        flexible=command.flexible,
        subnet=command.subnet,
    )
    _check_notice(born)
    grown, sends = growing.grow(born, command.capacity, {})
    return EntityDecision(grown, (Fact(FactType.SET_CREATED),), sends)


def _update(scale_set: ScaleSet, command: UpdateSet, groups: Groups) -> EntityDecision:
    check_not_deleting(scale_set)
    updated = changed(
        scale_set,
        upgrade=command.upgrade or scale_set.upgrade,
        scale_in=command.scale_in or scale_set.scale_in,
        rules=command.rules or scale_set.rules,
        tags=_or(command.tags, scale_set.tags),
        terminate_seconds=_or(command.terminate_seconds, scale_set.terminate_seconds),
        size=_or(command.size, scale_set.size),
    )
    _check_notice(updated)
    before, after = ((s.terminate_seconds, s.size, s.tags) for s in (scale_set, updated))
    if command.renewed or before != after:
        updated = changed(updated, model=scale_set.model + 1)
    sends: list[Command] = []
    if command.rules is not None:
        sends += [Configure(scope=scope, rules=command.rules) for scope in scale_set.groups]
    if updated.upgrade is UpgradeMode.AUTOMATIC:
        sends += _apply_model(updated, choosing.named(updated, None, groups))
    return EntityDecision(
        updated, (Fact(FactType.SET_CHANGED, detail=f"model {updated.model}"),), tuple(sends)
    )


def _check_notice(scale_set: ScaleSet) -> None:
    """Refuse the notice of a delete on a Spot set, which would have no effect (T4)."""
    if scale_set.terminate_seconds and scale_set.priority is Priority.SPOT:
        text = "Spot instances get no notice of a delete: turn terminate notification off"
        raise Conflict("SpotNotice", text)


def _or(value: V | None, standing: V) -> V:
    return standing if value is None else value


def _group_polled(scale_set: ScaleSet, command: GroupPolled) -> EntityDecision:
    """A poll of one placement group enables all, and keeps all enabled (M14)."""
    others = (scope for scope in scale_set.groups if scope != command.scope)
    return EntityDecision(
        scale_set, (), tuple(ShareGroupPoll(scope=scope, at=command.at) for scope in others)
    )


def _link(scale_set: ScaleSet, command: LinkSet) -> EntityDecision:
    return EntityDecision(changed(scale_set, resource=command.resource))


def _upgrade(scale_set: ScaleSet, command: UpgradeInstances, groups: Groups) -> EntityDecision:
    picks = choosing.named(scale_set, command.instances, groups)
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
        for scope, names in choosing.by_scope(pick for pick in picks if pick[1].model).items()
    ]


def _protect(scale_set: ScaleSet, command: ProtectInstances, groups: Groups) -> EntityDecision:
    picks = choosing.named(scale_set, command.instances, groups)
    sends = tuple(
        SetProtection(
            scope=scope,
            machines=names,
            protected=command.protected,
            shielded=command.shielded,
        )
        for scope, names in choosing.by_scope(picks).items()
    )
    return EntityDecision(scale_set, (), sends)


# --- Adding and deleting instances --------------------------------------------------------------


def _scale(scale_set: ScaleSet, command: Scale, groups: Groups) -> EntityDecision:
    check_not_deleting(scale_set)
    staying = choosing.staying(groups)
    fact = Fact(
        FactType.SET_CHANGED, operation=command.operation, detail=f"capacity {command.capacity}"
    )
    if command.capacity >= len(staying):
        grown, sends = growing.grow(scale_set, command.capacity - len(staying), groups)
        return EntityDecision(grown, (fact,), sends)
    count, free = len(staying) - command.capacity, choosing.free(staying, groups)
    if len(free) < count:
        raise Conflict(
            "NotEnoughInstances",
            f"{count} instances would have to go, but only {len(free)} are neither protected "
            "nor being worked on",
        )
    leaving = choosing.choose(scale_set.scale_in, free, count, staying)
    return EntityDecision(scale_set, (fact,), _deletes(command, leaving))


def _operate(scale_set: ScaleSet, command: OperateInstances, groups: Groups) -> EntityDecision:
    picks = choosing.named(scale_set, command.instances, groups)
    facts: tuple[Fact, ...] = ()
    if command.action is Delete:
        detail = f"{len(picks)} fewer"
        facts = (Fact(FactType.SET_CHANGED, operation=command.operation, detail=detail),)
    sends = tuple(
        command.action(
            scope=scope, machines=names, operation=command.operation, actor=command.actor
        )
        for scope, names in choosing.by_scope(picks).items()
    )
    return EntityDecision(scale_set, facts, sends)


def _delete(scale_set: ScaleSet, command: DeleteSet, groups: Groups) -> EntityDecision:
    """Delete the set. It counts as one impact, so the operation ends with its removal."""
    check_not_deleting(scale_set)
    in_deletion = changed(scale_set, deleting=command.operation)
    fact = Fact(FactType.SET_CHANGED, operation=command.operation, detail="being deleted")
    planned = OperationProgress(command.operation, planned=1)
    if not choosing.instances(groups):
        return _remove(in_deletion, (fact,), (planned,))
    return EntityDecision(
        in_deletion, (fact,), _deletes(command, choosing.staying(groups)), progress=(planned,)
    )


def _instance_deleted(scale_set: ScaleSet, _: InstanceDeleted, groups: Groups) -> EntityDecision:
    if scale_set.deleting and not choosing.instances(groups):
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


def _deletes(command: Scale | DeleteSet, picks: Iterable[Pick]) -> tuple[Command, ...]:
    return tuple(
        Delete(scope=scope, machines=names, operation=command.operation, actor=command.actor)
        for scope, names in choosing.by_scope(picks).items()
    )


def _join(scale_set: ScaleSet, command: JoinSet, groups: Groups) -> EntityDecision:
    check_not_deleting(scale_set)
    grown, add = joining.join(scale_set, command, groups)
    return EntityDecision(grown, (Fact(FactType.SET_CHANGED, detail="1 joined"),), (add,))


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
    GroupPolled: _group_polled,
    DeletionFailed: _deletion_failed,
    DeleteAnnounced: terminate_queue.delete_announced,
    DeleteApproved: terminate_queue.delete_approved,
    DeleteLeftQueue: terminate_queue.delete_left_queue,
}
"""Commands that need no placement group."""

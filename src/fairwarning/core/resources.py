"""ARM resources: created, changed and removed together with what they describe."""

from typing import Protocol, TypeVar

from fairwarning.core.commands import Command, JoinSet, Remove, ResourceCommand, Write
from fairwarning.core.decision import EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.messages import (
    AwaitRemoval,
    LinkMachine,
    LinkSet,
    ReleaseResource,
    RemovalFailed,
    RemoveEmptyScope,
    TargetDeleted,
    TargetDeletionFailed,
    UsedResourceRemoved,
    UseResource,
)
from fairwarning.core.model import ImpactKind, Resource, ScaleSet, Scope
from fairwarning.core.record import changed

E = TypeVar("E", Scope, ScaleSet, Resource)


class EntityReader(Protocol):
    """Reads the entities that a resource describes."""

    def get(self, kind: type[E], name: str) -> E | None: ...


def decide(
    resource: Resource | None, command: ResourceCommand, now: float, entities: EntityReader
) -> EntityDecision:
    """Decide `command` on a resource."""
    if isinstance(command, Write):
        return _write(resource, command, now, entities)
    if resource is None:
        raise NotFound("UnknownResource", f"there is no resource {command.resource!r}")
    if isinstance(command, UseResource):
        return _use(resource, command)
    if isinstance(command, ReleaseResource):
        return _release(resource, command, entities)
    if isinstance(command, UsedResourceRemoved):
        return _forget_used(resource, command)
    if isinstance(command, Remove):
        return _remove(resource, command, entities)
    if isinstance(command, RemovalFailed):
        return _keep(changed(resource, removed_by=""), "it could not be removed")
    if isinstance(command, AwaitRemoval):
        return _await_removal(resource, command, entities)
    if isinstance(command, TargetDeletionFailed):
        return _keep(resource, command.why)
    assert isinstance(command, TargetDeleted)
    return _target_deleted(resource, entities)


def _write(
    resource: Resource | None, command: Write, now: float, entities: EntityReader
) -> EntityDecision:
    _check_version(resource, command)
    if resource is not None:
        _check_not_being_removed(resource)
    if command.within:
        around = entities.get(Resource, command.within)
        if around is None:
            raise NotFound("UnknownResource", f"there is no resource {command.within!r}")
        _check_not_being_removed(around)
    creates_nothing = resource is None and not command.follow
    if creates_nothing and command.scope and entities.get(Scope, command.scope) is None:
        raise NotFound("UnknownScope", f"there is no scope {command.scope!r}")
    written = changed(
        resource or Resource(id=command.resource),
        body=command.body,
        group=command.group,
        name=command.name,
        scope=command.scope,
        machine=command.machine,
        set=command.set,
        uses=command.uses,
        owns=command.owns,
        written_at=now,
    )
    fact = Fact(FactType.RESOURCE_WRITTEN, operation=command.operation)
    joins = any(isinstance(follow, JoinSet) for follow in command.follow)
    links = () if joins else _links(resource, written)  # a machine that joins a set has its link
    sends = (*command.follow, *links, *_uses(resource, written))
    return EntityDecision(written, (fact,), sends)


def _links(before: Resource | None, after: Resource) -> tuple[Command, ...]:
    """Link the resource to its target; sent last, as following commands may create it."""
    if before and (before.scope, before.machine, before.set) == (
        after.scope, after.machine, after.set,
    ):  # fmt: skip
        return ()
    if after.machine:
        return (LinkMachine(scope=after.scope, machine=after.machine, resource=after.id),)
    return (LinkSet(set=after.set, resource=after.id),) if after.set else ()


# --- Resources that use others --------------------------------------------------------------------


def _uses(before: Resource | None, after: Resource) -> tuple[Command, ...]:
    """Tell the resources that are in use from now on, and those that are not any more."""
    used = before.uses if before else ()
    released = (name for name in used if name not in after.uses)
    taken = (name for name in after.uses if name not in used)
    return (
        *(ReleaseResource(resource=name, user=after.id) for name in released),
        *(UseResource(resource=name, user=after.id) for name in taken),
    )


def _use(resource: Resource, command: UseResource) -> EntityDecision:
    _check_not_being_removed(resource)
    if resource.used_by not in {"", command.user}:
        raise Conflict("InUse", f"{resource.name!r} is in use by another resource")
    return EntityDecision(changed(resource, used_by=command.user))


def _release(
    resource: Resource, command: ReleaseResource, entities: EntityReader
) -> EntityDecision:
    if resource.used_by != command.user:
        return EntityDecision(resource)
    free = changed(resource, used_by="")
    describes_nothing = not (free.scope or free.set)
    if command.remove and describes_nothing:
        return _target_deleted(free, entities)
    return EntityDecision(free)


def _forget_used(resource: Resource, command: UsedResourceRemoved) -> EntityDecision:
    uses = tuple(name for name in resource.uses if name != command.removed)
    owns = tuple(name for name in resource.owns if name != command.removed)
    return EntityDecision(changed(resource, uses=uses, owns=owns))


# --- Removing -------------------------------------------------------------------------------------


def _remove(resource: Resource, command: Remove, entities: EntityReader) -> EntityDecision:
    _check_version(resource, command)
    _check_not_being_removed(resource)
    if resource.used_by:
        raise Conflict("InUse", f"{resource.name!r} is in use by another resource")
    scope = entities.get(Scope, resource.scope) if resource.scope and not resource.machine else None
    if scope and scope.machines and not command.follow:
        raise Conflict(
            "NotEmpty", f"{resource.name!r} holds {len(scope.machines)} machines; delete them first"
        )
    waits = tuple(
        AwaitRemoval(resource=name, operation=command.operation) for name in command.awaits
    )
    return EntityDecision(
        changed(resource, removed_by=command.operation), (), (*command.follow, *waits)
    )


def _await_removal(
    resource: Resource, command: AwaitRemoval, entities: EntityReader
) -> EntityDecision:
    if not _is_being_removed(resource, entities):  # it was when the caller looked: read again
        raise Conflict("Changed", f"{resource.name!r} is not being removed any more")
    awaited = (*resource.awaited, command.operation)
    waits = OperationProgress(command.operation, planned=1)
    return EntityDecision(changed(resource, awaited=awaited), progress=(waits,))


def _is_being_removed(resource: Resource, entities: EntityReader) -> bool:
    """Whether the described machine or set is in deletion."""
    if resource.machine:
        scope = entities.get(Scope, resource.scope)
        impact = scope.impacts.get(resource.machine) if scope else None
        return impact is not None and impact.kind is ImpactKind.DELETE
    if resource.set:
        scale_set = entities.get(ScaleSet, resource.set)
        return scale_set is not None and bool(scale_set.deleting)
    return bool(resource.removed_by)


def _target_deleted(resource: Resource, entities: EntityReader) -> EntityDecision:
    sends: tuple[Command, ...] = ()
    if resource.scope and not resource.machine:
        scope = entities.get(Scope, resource.scope)
        if scope and scope.machines:  # one was added meanwhile
            return _keep(changed(resource, removed_by=""), "machines were added to it")
        sends = (RemoveEmptyScope(scope=resource.scope),)
    sends += tuple(
        ReleaseResource(resource=name, user=resource.id, remove=name in resource.owns)
        for name in resource.uses
    )
    if resource.used_by:
        sends += (UsedResourceRemoved(resource=resource.used_by, removed=resource.id),)
    done = tuple(OperationProgress(operation, done=1) for operation in resource.awaited)
    return EntityDecision(None, (Fact(FactType.RESOURCE_REMOVED),), sends, progress=done)


def _keep(resource: Resource, why: str) -> EntityDecision:
    """The resource stays: operations that wait for its removal fail."""
    failed = tuple(
        OperationProgress(operation, failed=1, error=why) for operation in resource.awaited
    )
    return EntityDecision(changed(resource, awaited=()), progress=failed)


def _check_version(resource: Resource | None, command: Write | Remove) -> None:
    if command.at is not None and command.at != (resource.version if resource else 0):
        raise Conflict("Changed", f"{command.resource!r} changed meanwhile; read it again")


def _check_not_being_removed(resource: Resource) -> None:
    if resource.removed_by:
        raise Conflict("BeingRemoved", f"{resource.name or resource.id!r} is being removed")

"""Resources: what somebody wrote about a thing comes, changes and goes with the thing."""

from typing import Protocol

from fairwarning.core.commands import Command, Remove, ResourceCommand, Write
from fairwarning.core.decision import EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.messages import (
    AwaitRemoval,
    LinkMachine,
    LinkSet,
    RemovalFailed,
    RemoveEmptyScope,
    TargetDeleted,
    TargetDeletionFailed,
)
from fairwarning.core.model import ImpactKind, Resource, ScaleSet, Scope
from fairwarning.core.record import changed


class EntityReader(Protocol):
    """Whoever lets us read what a resource stands for."""

    def read(self, scope: str) -> Scope | None: ...

    def scale_set(self, name: str) -> ScaleSet | None: ...

    def resource(self, name: str) -> Resource | None: ...


def decide(
    resource: Resource | None, command: ResourceCommand, now: float, world: EntityReader
) -> EntityDecision:
    """What `command` does to the resource, and sends to what it stands for."""
    if isinstance(command, Write):
        return _write(resource, command, now, world)
    if resource is None:
        raise NotFound("UnknownResource", f"there is no resource {command.resource!r}")
    if isinstance(command, Remove):
        return _remove(resource, command, world)
    if isinstance(command, RemovalFailed):
        return _keep(changed(resource, doomed=""), "it could not be removed")
    if isinstance(command, AwaitRemoval):
        return _await_removal(resource, command, world)
    if isinstance(command, TargetDeletionFailed):
        return _keep(resource, command.why)
    assert isinstance(command, TargetDeleted)
    return _target_deleted(resource, world)


def _write(
    resource: Resource | None, command: Write, now: float, world: EntityReader
) -> EntityDecision:
    if command.at is not None and command.at != (resource.version if resource else 0):
        raise Conflict("Changed", f"{command.resource!r} changed meanwhile; read it again")
    if resource is not None:
        _check_not_being_removed(resource)
    if command.within:
        around = world.resource(command.within)
        if around is None:
            raise NotFound("UnknownResource", f"there is no resource {command.within!r}")
        _check_not_being_removed(around)
    written = changed(
        resource or Resource(id=command.resource),
        body=command.body,
        group=command.group,
        name=command.name,
        scope=command.scope,
        machine=command.machine,
        set=command.set,
        written_at=now,
    )
    fact = Fact(FactType.RESOURCE_WRITTEN, operation=command.operation)
    return EntityDecision(written, (fact,), (*command.follow, *_links(resource, written)))


def _links(before: Resource | None, after: Resource) -> tuple[Command, ...]:
    """After what follows: that may be what makes the thing."""
    if before and (before.scope, before.machine, before.set) == (
        after.scope, after.machine, after.set,
    ):  # fmt: skip
        return ()
    if after.machine:
        return (LinkMachine(scope=after.scope, machine=after.machine, resource=after.id),)
    return (LinkSet(set=after.set, resource=after.id),) if after.set else ()


def _remove(resource: Resource, command: Remove, world: EntityReader) -> EntityDecision:
    _check_not_being_removed(resource)
    scope = world.read(resource.scope) if resource.scope and not resource.machine else None
    if scope and scope.machines and not command.follow:
        raise Conflict(
            "NotEmpty", f"{resource.name!r} holds {len(scope.machines)} machines; delete them first"
        )
    waits = tuple(
        AwaitRemoval(resource=name, operation=command.operation) for name in command.awaits
    )
    return EntityDecision(
        changed(resource, doomed=command.operation), (), (*command.follow, *waits)
    )


def _await_removal(
    resource: Resource, command: AwaitRemoval, world: EntityReader
) -> EntityDecision:
    if not _is_being_removed(resource, world):  # it did when somebody looked: let them look again
        raise Conflict("Changed", f"{resource.name!r} is not being removed any more")
    awaited = (*resource.awaited, command.operation)
    waits = OperationProgress(command.operation, planned=1)
    return EntityDecision(changed(resource, awaited=awaited), progress=(waits,))


def _is_being_removed(resource: Resource, world: EntityReader) -> bool:
    """Whether what it stands for is on its way out."""
    if resource.machine:
        scope = world.read(resource.scope)
        impact = scope.impacts.get(resource.machine) if scope else None
        return impact is not None and impact.kind is ImpactKind.DELETE
    if resource.set:
        scale_set = world.scale_set(resource.set)
        return scale_set is not None and bool(scale_set.deleting)
    return bool(resource.doomed)


def _target_deleted(resource: Resource, world: EntityReader) -> EntityDecision:
    sends: tuple[Command, ...] = ()
    if resource.scope and not resource.machine:
        scope = world.read(resource.scope)
        if scope and scope.machines:  # somebody put one in meanwhile
            return _keep(changed(resource, doomed=""), "machines were added to it")
        sends = (RemoveEmptyScope(scope=resource.scope),)
    done = tuple(OperationProgress(one, done=1) for one in resource.awaited)
    return EntityDecision(None, (Fact(FactType.RESOURCE_REMOVED),), sends, progress=done)


def _keep(resource: Resource, why: str) -> EntityDecision:
    """It stays: whoever waits for its end has failed."""
    failed = tuple(OperationProgress(one, failed=1, error=why) for one in resource.awaited)
    return EntityDecision(changed(resource, awaited=()), progress=failed)


def _check_not_being_removed(resource: Resource) -> None:
    if resource.doomed:
        raise Conflict("BeingRemoved", f"{resource.name or resource.id!r} is being removed")

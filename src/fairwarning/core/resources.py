"""Resources: what somebody wrote about a thing comes, changes and goes with the thing."""

from collections.abc import Callable

from fairwarning.core.commands import Command, Remove, ResourceCommand, Write
from fairwarning.core.decision import Did, Fact, Progress, Turn
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.messages import Await, Dissolve, Endure, Stay, Tie, TieSet, Vanish
from fairwarning.core.model import Resource, Scope
from fairwarning.core.record import changed

ReadScope = Callable[[str], Scope | None]
ReadResource = Callable[[str], Resource | None]


def decide(
    resource: Resource | None,
    command: ResourceCommand,
    now: float,
    scopes: ReadScope,
    resources: ReadResource,
) -> Turn:
    """What `command` does to the resource, and sends to what it stands for."""
    if isinstance(command, Write):
        return _write(resource, command, now, resources)
    if resource is None:
        raise NotFound("UnknownResource", f"there is no resource {command.resource!r}")
    if isinstance(command, Remove):
        return _remove(resource, command, scopes)
    if isinstance(command, Stay):
        return _endure(changed(resource, doomed=""), "it could not be removed")
    if isinstance(command, Await):
        awaited = (*resource.awaited, command.operation)
        waits = Progress(command.operation, planned=1)
        return Turn(changed(resource, awaited=awaited), progress=(waits,))
    if isinstance(command, Endure):
        return _endure(resource, command.why)
    assert isinstance(command, Vanish)
    return _vanish(resource, scopes)


def _write(resource: Resource | None, command: Write, now: float, resources: ReadResource) -> Turn:
    if command.at is not None and command.at != (resource.version if resource else 0):
        raise Conflict("Changed", f"{command.resource!r} changed meanwhile; read it again")
    if resource is not None:
        _check_stays(resource)
    if command.within:
        around = resources(command.within)
        if around is None:
            raise NotFound("UnknownResource", f"there is no resource {command.within!r}")
        _check_stays(around)
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
    fact = Fact(Did.RESOURCE_WRITTEN, operation=command.operation)
    return Turn(written, (fact,), (*command.follow, *_ties(resource, written)))


def _ties(before: Resource | None, after: Resource) -> tuple[Command, ...]:
    """After what follows: that may be what makes the thing."""
    if before and (before.scope, before.machine, before.set) == (
        after.scope, after.machine, after.set,
    ):  # fmt: skip
        return ()
    if after.machine:
        return (Tie(scope=after.scope, machine=after.machine, resource=after.id),)
    return (TieSet(set=after.set, resource=after.id),) if after.set else ()


def _remove(resource: Resource, command: Remove, scopes: ReadScope) -> Turn:
    _check_stays(resource)
    scope = scopes(resource.scope) if resource.scope and not resource.machine else None
    if scope and scope.machines and not command.follow:
        raise Conflict(
            "NotEmpty", f"{resource.name!r} holds {len(scope.machines)} machines; delete them first"
        )
    waits = tuple(Await(resource=one, operation=command.operation) for one in command.awaits)
    return Turn(changed(resource, doomed=command.operation), (), (*command.follow, *waits))


def _vanish(resource: Resource, scopes: ReadScope) -> Turn:
    sends: tuple[Command, ...] = ()
    if resource.scope and not resource.machine:
        scope = scopes(resource.scope)
        if scope and scope.machines:  # somebody put one in meanwhile
            return _endure(changed(resource, doomed=""), "machines were added to it")
        sends = (Dissolve(scope=resource.scope),)
    done = tuple(Progress(one, done=1) for one in resource.awaited)
    return Turn(None, (Fact(Did.RESOURCE_REMOVED),), sends, progress=done)


def _endure(resource: Resource, why: str) -> Turn:
    """It stays: whoever waits for its end has failed."""
    failed = tuple(Progress(one, failed=1, why=why) for one in resource.awaited)
    return Turn(changed(resource, awaited=()), progress=failed)


def _check_stays(resource: Resource) -> None:
    if resource.doomed:
        raise Conflict("BeingRemoved", f"{resource.name or resource.id!r} is being removed")

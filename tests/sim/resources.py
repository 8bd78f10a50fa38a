"""What is written about scopes and sets: made with them, gone with them, never without them."""

from random import Random

from fairwarning.core.commands import (
    Command,
    CreateScope,
    CreateSet,
    Delete,
    DeleteSet,
    Remove,
    Write,
)
from fairwarning.core.model import (
    Entity,
    ImpactKind,
    Ref,
    Resource,
    ScaleSet,
    Scope,
)
from fairwarning.service import resources
from tests.sim.books import Books
from tests.sim.violations import must

GROUPS = ("g1", "g2")


def group(name: str) -> Command:
    """A group; a second time it is refused, or written anew after it was removed."""
    return resources.create_group(name, "here")


def create(random: Random, command: CreateScope | CreateSet) -> Command:
    """The command, mostly with the resources of what it makes."""
    if random.random() < 0.3:
        return command
    return resources.create(command, random.choice(GROUPS))


def rewrite(random: Random, books: Books) -> Command | None:
    """Write one of them again, sometimes as somebody who read it a while ago."""
    if not books.resources:
        return None
    one = random.choice(list(books.resources.values()))
    at = one.version if random.random() < 0.8 else one.version - 1
    return Write(
        resource=one.id,
        group=one.group,
        name=one.name,
        body=f'{{"at": {at}}}',
        at=max(at, 0),
        scope=one.scope,
        machine=one.machine,
        set=one.set,
    )


def remove_group(random: Random, books: Books, operation: str) -> Command:
    """A group with all that is in it, as the control plane asks for it."""
    name = random.choice(GROUPS)
    inside = [one for one in books.resources.values() if one.group == name]
    scopes = dict.fromkeys(one.scope for one in inside if one.scope)
    follow: list[Command] = [
        Delete(scope=scope, machines=names, operation=operation)
        for scope in scopes
        if (found := books.scopes.get(scope)) and (names := _staying(found)) and not found.owner
    ]
    sets = [one for one in inside if one.set and not books.sets[one.set].deleting]
    follow += [DeleteSet(set=one.set, operation=operation) for one in sets]
    leaving = [one.id for one in inside if _leaves(books, one)]
    others = tuple(one.id for one in inside if not one.machine and not one.set)
    return Remove(
        resource=resources.group_id(name),
        operation=operation,
        follow=tuple(follow),
        others=others,
        awaits=tuple(leaving),
    )


def _staying(scope: Scope) -> tuple[str, ...]:
    return tuple(name for name in scope.machines if not _goes(scope, name))


def _goes(scope: Scope, name: str) -> bool:
    impact = scope.impacts.get(name)
    return impact is not None and impact.kind is ImpactKind.DELETE


def _leaves(books: Books, one: Resource) -> bool:
    if one.set:
        return bool(books.sets[one.set].deleting)
    return bool(one.machine) and _goes(books.scopes[one.scope], one.machine)


def concerns_c1(ref: Ref, change: tuple[Entity | None, Entity | None]) -> bool:
    """Whether a change can break it: to look at all of it takes its time."""
    before, after = change
    if isinstance(before, Scope) and isinstance(after, Scope):
        return before.machines is not after.machines
    return ref[0] is Resource or (ref[0] in {Scope, ScaleSet} and (before is None or after is None))


def c1(books: Books) -> None:
    """A resource and what it stands for know of each other, or neither is there."""
    for one in books.resources.values():
        _check(books, one)
    for scope in books.scopes.values():
        for machine in scope.machines.values():
            known = not machine.resource or machine.resource in books.resources
            must(known, "C1", f"{machine.name} has {machine.resource}, which is not there")


def _check(books: Books, one: Resource) -> None:
    if one.machine:
        scope = books.scopes.get(one.scope)
        machine = scope.machines.get(one.machine) if scope else None
        must(machine and machine.resource == one.id, "C1", f"{one.id} stands for no machine")
    elif one.scope:
        must(one.scope in books.scopes, "C1", f"{one.id} stands for no scope")
    elif one.set:
        must(one.set in books.sets, "C1", f"{one.id} stands for no set")

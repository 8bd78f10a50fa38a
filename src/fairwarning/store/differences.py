"""What a batch does to the machines of a scope, which stores keep apart from the scope itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import is_

from fairwarning.core.errors import Conflict
from fairwarning.core.model import Entity, Machine, Ref, Scope

_NONE: Mapping[str, Machine] = {}


@dataclass(frozen=True, slots=True)
class Differences:
    """Machines of one scope: those that are gone, changed in their place, and new at the end."""

    scope: str
    gone: list[Machine]
    changed: list[tuple[Machine, Machine]]  # before, after
    fresh: list[Machine]


def differences(ref: Ref, before: Entity | None, after: Entity | None) -> Differences | None:
    """What became of a scope's machines; None when nothing did, which is what mostly happens.

    Values are compared by identity: a machine that is the same object is the same machine.
    """
    old = before.machines if isinstance(before, Scope) else _NONE
    new = after.machines if isinstance(after, Scope) else _NONE
    if old is new or (len(old) == len(new) and all(map(is_, old.values(), new.values()))):
        return None
    kept = [name for name in old if name in new]
    if list(new)[: len(kept)] != kept:  # another order, which must survive: all of them anew
        return Differences(ref[1], list(old.values()), [], list(new.values()))
    return Differences(
        ref[1],
        [machine for name, machine in old.items() if name not in new],
        [(old[name], new[name]) for name in kept if old[name] is not new[name]],
        [machine for name, machine in new.items() if name not in old],
    )


def leaving(moves: Iterable[Differences]) -> Iterator[tuple[str, Machine]]:
    """Machines that are no more what they were, with their scopes."""
    for move in moves:
        yield from ((move.scope, machine) for machine in move.gone)
        yield from ((move.scope, before) for before, _ in move.changed)


def arriving(moves: Iterable[Differences]) -> Iterator[tuple[str, Machine]]:
    """Machines as they are now, with their scopes."""
    for move in moves:
        yield from ((move.scope, after) for _, after in move.changed)
        yield from ((move.scope, machine) for machine in move.fresh)


def stale_version(ref: Ref) -> Conflict:
    """Somebody else changed the entity (IK1)."""
    return Conflict("Stale", f"{ref[0].__name__} {ref[1]!r} changed meanwhile; load it again")


def address_taken(address: str) -> Conflict:
    """An address names one machine of the whole fleet (M22)."""
    return Conflict("AddressTaken", f"another machine has address {address!r}; pick another")

"""Differences in the machines of a scope, which stores keep in rows separate from the scope."""

from collections.abc import Iterable, Iterator, Mapping
from operator import is_

from fairwarning.core.errors import Conflict
from fairwarning.core.model import Entity, Machine, Ref, Scope
from fairwarning.core.record import short_record

_NO_MACHINES: Mapping[str, Machine] = {}


@short_record
class Differences:
    """Machines of one scope: removed, changed in place, and added at the end."""

    scope: str
    removed: list[Machine]
    changed: list[tuple[Machine, Machine]]  # before, after
    added: list[Machine]


def differences(ref: Ref, before: Entity | None, after: Entity | None) -> Differences | None:
    """Compare the machines of a scope before and after; None, the usual case, when they are equal.

    Machines are compared by identity, because an unchanged machine is the same object.
    """
    old = before.machines if isinstance(before, Scope) else _NO_MACHINES
    new = after.machines if isinstance(after, Scope) else _NO_MACHINES
    if old is new or (len(old) == len(new) and all(map(is_, old.values(), new.values()))):
        return None
    kept = [name for name in old if name in new]
    if list(new)[: len(kept)] != kept:  # the order changed and must be preserved: rewrite all
        return Differences(ref[1], list(old.values()), [], list(new.values()))
    return Differences(
        ref[1],
        [machine for name, machine in old.items() if name not in new],
        [(old[name], new[name]) for name in kept if old[name] is not new[name]],
        [machine for name, machine in new.items() if name not in old],
    )


def machines_before(diffs: Iterable[Differences]) -> Iterator[tuple[str, Machine]]:
    """Yield removed and changed machines as they were, with their scopes."""
    for diff in diffs:
        yield from ((diff.scope, machine) for machine in diff.removed)
        yield from ((diff.scope, before) for before, _ in diff.changed)


def machines_after(diffs: Iterable[Differences]) -> Iterator[tuple[str, Machine]]:
    """Yield changed and added machines as they are now, with their scopes."""
    for diff in diffs:
        yield from ((diff.scope, after) for _, after in diff.changed)
        yield from ((diff.scope, machine) for machine in diff.added)


def stale_version(ref: Ref) -> Conflict:
    """Return the error for an entity that another command changed (IK1)."""
    return Conflict("Stale", f"{ref[0].__name__} {ref[1]!r} has changed; load it again and retry")

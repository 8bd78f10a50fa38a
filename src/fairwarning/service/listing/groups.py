"""The machines of a fleet in groups, as an operator thinks of them, and the state of each."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from fairwarning.core.model import EventStatus, Machine, Power, Scope, ScopeKind


class MachineState(StrEnum):
    """What an operator has to know of a machine first; the most urgent one comes first."""

    FAILED = "failed"  # its last impact
    IMPACT = "impact"  # in progress
    NOTICE = "notice"  # it has a scheduled event
    STOPPED = "stopped"  # or deallocated
    NO_POLLS = "no polls"  # nobody in its scope polls, so it gets no notice
    RUNNING = "running"


@dataclass(eq=False, slots=True)
class MachineGroup:
    """A scale set, an availability set, a cloud service, or all standalone machines."""

    key: str
    name: str
    kind: ScopeKind
    scopes: dict[str, None] = field(default_factory=dict)  # in order
    machines: int = 0
    version: int = 0
    """Changes whenever one of the scopes does."""


class MachineGroups:
    """All groups by their keys. A key is the same for as long as the group exists."""

    def __init__(self) -> None:
        self.by_key: dict[str, MachineGroup] = {}
        self._versions = count(1)

    def replace(self, before: Scope | None, scope: Scope | None) -> None:
        """Take over a change of a scope."""
        if before is not None:
            self._count(before, -1)
        if scope is not None:
            self._count(scope, 1)
        if before is not None and (scope is None or _key(scope) != _key(before)):
            group = self.by_key[_key(before)]
            del group.scopes[before.id]
            if not group.scopes:
                del self.by_key[group.key]

    def _count(self, scope: Scope, sign: int) -> None:
        key = _key(scope)
        group = self.by_key.get(key)
        if group is None:
            name = "" if scope.kind is ScopeKind.STANDALONE else scope.owner or scope.id
            group = self.by_key[key] = MachineGroup(key, name, scope.kind)
        group.scopes[scope.id] = None
        group.machines += sign * len(scope.machines)
        group.version = next(self._versions)


def _key(scope: Scope) -> str:
    if scope.kind is ScopeKind.STANDALONE:
        return "standalone"
    return f"set {scope.owner}" if scope.owner else f"scope {scope.id}"


def machine_states(
    scope: Scope, failed: Collection[tuple[str, str]]
) -> Iterator[tuple[Machine, MachineState]]:
    """The machines of a scope with their states; `failed` has those whose last impact failed."""
    marked = _events_and_impacts(scope)
    idle = MachineState.RUNNING if scope.enabled else MachineState.NO_POLLS
    for name, machine in scope.machines.items():
        if failed and (scope.id, name) in failed:
            yield machine, MachineState.FAILED
        elif name in marked:
            yield machine, marked[name]
        else:
            yield machine, idle if machine.power is Power.RUNNING else MachineState.STOPPED


def _events_and_impacts(scope: Scope) -> dict[str, MachineState]:
    marked: dict[str, MachineState] = {}
    for event in scope.events.values():
        marked |= dict.fromkeys(event.resources, MachineState.NOTICE)
    for event in scope.events.values():
        if event.status is EventStatus.STARTED:
            marked |= dict.fromkeys(event.resources, MachineState.IMPACT)
    for name, impact in scope.impacts.items():
        if impact.in_progress:
            marked[name] = MachineState.IMPACT
    return marked

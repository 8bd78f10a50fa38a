"""The indexes of the memory store: sorted keys, due times, machines and the change feed."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from fairwarning.core.errors import AddressTaken
from fairwarning.core.model import Entity, Ref, Scope
from fairwarning.store.differences import (
    Differences,
    machines_after,
    machines_before,
)
from fairwarning.store.store import ScopeChange

End = tuple[float, str, str]  # when an operation or a rollout ended, its kind and its id
K = TypeVar("K", int, str, End)

_SLACK = 256  # stale entries allowed beyond the number of live ones before a rebuild


class SortedKeys(Generic[K]):
    """Keys in order. A page of them costs the same wherever it begins."""

    def __init__(self) -> None:
        self._keys: list[K] = []

    def add(self, key: K) -> None:
        insort(self._keys, key)

    def remove(self, key: K) -> None:
        del self._keys[bisect_left(self._keys, key)]

    def after(self, after: K, limit: int) -> list[K]:
        first = bisect_right(self._keys, after)
        return self._keys[first : first + limit]


class DueTimes:
    """Due times: a heap in which an outdated entry stays until it reaches the top.

    Entities due at the same time come in order of creation, as in the databases.
    """

    def __init__(self) -> None:
        self._times: dict[Ref, float] = {}
        self._numbers: dict[Ref, int] = {}
        self._last = 0
        self._heap: list[tuple[float, int, Ref]] = []

    def put(self, ref: Ref, due: float | None) -> None:
        number = self._numbers.get(ref)
        if number is None:
            self._last = number = self._numbers[ref] = self._last + 1
        if due is None:
            self._times.pop(ref, None)
        elif self._times.get(ref) != due:
            self._times[ref] = due
            heappush(self._heap, (due, number, ref))
            if len(self._heap) > 2 * len(self._times) + _SLACK:
                self._heap = [(at, self._numbers[key], key) for key, at in self._times.items()]
                heapify(self._heap)

    def forget(self, ref: Ref) -> None:
        """Forget an entity that was removed; another of its name is then a new one."""
        del self._numbers[ref]

    def first(self) -> float | None:
        while self._heap:
            due, _, ref = self._heap[0]
            if self._times.get(ref) == due:
                return due
            heappop(self._heap)
        return None

    def until(self, now: float, limit: int) -> list[Ref]:
        due_refs: dict[Ref, float] = {}  # a time that was set twice may be in the heap twice
        while len(due_refs) < limit and (due := self.first()) is not None and due <= now:
            due_refs[heappop(self._heap)[2]] = due
        for ref, due in due_refs.items():
            heappush(self._heap, (due, self._numbers[ref], ref))
        return list(due_refs)


class MachineIndex:
    """Machines by number, by name and by address."""

    def __init__(self) -> None:
        self.by_number: dict[int, tuple[str, str]] = {}  # -> scope, name
        self.numbers: SortedKeys[int] = SortedKeys()
        self._last = 0
        self._names: dict[str, dict[str, int]] = {}  # name -> scope -> number
        self._addresses: dict[str, int] = {}  # -> number

    def check(self, diffs: Sequence[Differences]) -> None:
        """Reject an address that another machine has and keeps."""
        freed = {machine.address for _, machine in machines_before(diffs)}
        claimed: set[str] = set()
        for _, machine in machines_after(diffs):
            address = machine.address
            if address and (
                address in claimed or (address in self._addresses and address not in freed)
            ):
                raise AddressTaken(address)
            claimed.add(address)

    def apply(self, diffs: Sequence[Differences]) -> None:
        for _, machine in machines_before(diffs):
            self._addresses.pop(machine.address, None)
        for diff in diffs:
            for machine in diff.removed:
                self._remove(diff.scope, machine.name)
            for machine in diff.added:
                self._last += 1
                self.by_number[self._last] = (diff.scope, machine.name)
                self.numbers.add(self._last)
                self._names.setdefault(machine.name, {})[diff.scope] = self._last
        for scope, machine in machines_after(diffs):
            if machine.address:
                self._addresses[machine.address] = self._names[machine.name][scope]

    def _remove(self, scope: str, name: str) -> None:
        scopes = self._names[name]
        number = scopes.pop(scope)
        del self.by_number[number]
        self.numbers.remove(number)
        if not scopes:
            del self._names[name]

    def of_name(self, name: str) -> list[int]:
        return [number for _, number in sorted(self._names.get(name, {}).items())]

    def number_at(self, key: int | str) -> int:
        """The number of the machine of this number or address; 0 if there is none."""
        number = self._addresses.get(key, 0) if isinstance(key, str) else key
        return number if number in self.by_number else 0

    def of_scope(self, scope: Entity | None) -> list[int]:
        if not isinstance(scope, Scope):
            return []
        return sorted(self._names[name][scope.id] for name in scope.machines)


class ChangeFeed:
    """Scopes in order of their latest change. Readers skip an entry that a newer one replaced."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._positions: list[int] = []
        self._scopes: list[str] = []
        self._last = self._batch_began = 0

    @property
    def position(self) -> int:
        return self._last

    def put(self, scope: str) -> None:
        self._last += 1
        self._newest[scope] = self._last
        self._positions.append(self._last)
        self._scopes.append(scope)
        if len(self._scopes) > 2 * len(self._newest) + _SLACK:
            order = sorted((position, name) for name, position in self._newest.items())
            self._positions = [position for position, _ in order]
            self._scopes = [name for _, name in order]

    def forget(self, scope: str) -> None:
        """Forget a scope that was removed."""
        del self._newest[scope]

    def end_batch(self) -> None:
        """Advance the position with every batch, as in the databases."""
        self._last = self._batch_began = max(self._last, self._batch_began + 1)

    def after(self, after: int, limit: int) -> list[ScopeChange]:
        changes: list[ScopeChange] = []
        for at in range(bisect_right(self._positions, after), len(self._positions)):
            if len(changes) == limit:
                break
            position, scope = self._positions[at], self._scopes[at]
            if self._newest.get(scope) == position:
                changes.append(ScopeChange(position, scope))
        return changes

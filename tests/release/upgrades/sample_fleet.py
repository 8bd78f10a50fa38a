"""A fleet with something of everything, as a version of Fairwarning leaves it behind."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairwarning.core.commands import Restart, StartRollout
from fairwarning.core.model import ImpactKind
from fairwarning.store import codec
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Batch, Store
from tests.arm.everything import Everything, fill
from tests.fixtures.fleet import all_entities, standalone

Json = Any
_PAGE = 1000


@dataclass(slots=True)
class Steps:
    """Everything that was written to a store, in order, to be written to another one."""

    steps: list[Batch | Mapping[str, float]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    async def write(self, store: Store) -> None:
        """Write the same to another store."""
        for name, value in self.notes.items():
            await store.add_note_if_absent(name, value)
        for step in self.steps:
            if isinstance(step, Batch):
                await store.commit(step)
            else:
                await store.record_polls(step)


class RecordingStore(MemoryStore):
    """The memory store, which remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()

    async def commit(self, batch: Batch) -> float | None:
        self.steps.steps.append(batch)
        return await super().commit(batch)

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        self.steps.steps.append(polls)
        await super().record_polls(polls)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        self.steps.notes[name] = value
        return await super().add_note_if_absent(name, value)


def create() -> RecordingStore:
    """Let a fleet live for some hours, and stop it in the middle of its work."""
    store = RecordingStore()
    with Everything(store=store) as arm:
        fill(arm)
        for name in ("polled", "restarted", "approved", "maintained"):
            arm.do(standalone(name))
            arm.poll(name)
        for hours in range(3):
            arm.advance(3600)
            arm.poll("polled")
            arm.do(Restart(scope="approved", operation=f"early-{hours}", machines=("approved",)))
            arm.approve("approved", "approved")
        arm.advance(600)
        arm.do(Restart(scope="restarted", operation="late", machines=("restarted",)))
        arm.do(Restart(scope="approved", operation="last", machines=("approved",)))
        arm.approve("approved", "approved")
        scopes = ("maintained", "polled")
        arm.do(StartRollout(rollout="hosts", scopes=scopes, kind=ImpactKind.REBOOT))
    return store


async def facts(store: Store) -> Json:
    """What a store says about its fleet: entities, machines, journal, polls and times."""
    entities = await all_entities(store)
    machines = await store.list_machines(0, _PAGE)
    scopes = await store.recorded_polls(sorted({place.scope for place in machines}))
    return {
        "entities": {
            f"{kind.__name__} {name}": json.loads(codec.encode(entity))
            for (kind, name), entity in sorted(entities.items(), key=lambda item: str(item[0]))
            if entity is not None
        },
        "machines": [
            [place.number, place.scope, json.loads(codec.encode(place.machine))]
            for place in machines
        ],
        "journal": [line async for line in _lines(store)],
        "polls": scopes,
        "scopes with events": await store.scopes_with_events("", _PAGE),
        "unfinished impacts": [impact.id for impact in await store.unfinished_impacts("", _PAGE)],
        "next due": await store.next_due(),
        "ended": [name for _, name in await store.ended_entities(float("inf"), _PAGE)],
    }


async def _lines(store: Store) -> AsyncIterator[Json]:
    after = 0
    while entries := await store.journal(after=after, limit=_PAGE):
        for entry in entries:
            line, fact = entry.line, entry.line.fact
            announced = codec.announcement(fact.announcement)
            yield [
                entry.number, line.at, line.actor, line.entity[0].__name__, line.entity[1],
                fact.type.value, fact.event, list(fact.machines), fact.operation, fact.detail,
                json.loads(announced) if announced else None,
            ]  # fmt: skip
        after = entries[-1].number


def differences(expected: Json, actual: Json, path: str = "") -> list[str]:
    """Where the actual value lacks or changes something; members that are new do not count."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        changes: list[str] = []
        for key, value in expected.items():
            changes += differences(value, actual.get(key), f"{path}/{key}")
        return changes
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        changes = []
        for number, (before, after) in enumerate(zip(expected, actual, strict=True)):
            changes += differences(before, after, f"{path}/{number}")
        return changes
    return [] if expected == actual else [f"{path}: {expected!r} is {actual!r} now"]

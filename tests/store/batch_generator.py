"""Generates the batches that stores are tested with, from commands decided by the real rules."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import ClassVar, TypeVar

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import (
    AdvanceTime,
    Command,
    CreateScope,
    CreateSet,
    Poll,
    ReportImpact,
    RetryLane,
)
from fairwarning.core.decision import Announcement, Fact, FactType
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    Entity,
    EventType,
    Impact,
    Lane,
    Machine,
    Ref,
    Rollout,
    ScaleSet,
    Scope,
    Source,
)
from fairwarning.core.record import changed
from fairwarning.store.store import Batch
from tests.fixtures.random_commands import PolledEvent, RandomCommands

NOON = 1_767_960_000.25
E = TypeVar("E", bound=Entity)


def line_about(entity: Ref, event: str = "", *, at: float = 1.5, detail: str = "") -> JournalLine:
    """Return a journal line; one machine name has a comma, and events are announced."""
    announcement = Announcement(EventType.REBOOT, Source.USER, 1_767_960_900) if event else None
    fact = Fact(FactType.STARTED, event, ("m", 'n,"o'), "o", detail, announcement)
    return JournalLine(at, "operator", entity, fact)


class BatchGenerator:
    """Generates batches and knows what a store must contain after them."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.now = NOON
        self.entities: dict[Ref, Entity] = {}
        self.removed: set[Ref] = set()
        self.lines: list[JournalLine] = []
        self.impacts: dict[str, Impact] = {}
        self._commands = StoreCommands(self.random, self)

    def batch(self, commands: Iterable[Command], **notes: str) -> Batch:
        """Decide these commands in order; refused commands have no effect."""
        changes: dict[Ref, tuple[Entity | None, Entity | None]] = {}
        lines: list[JournalLine] = []
        impacts: list[Impact] = []
        settled: list[str] = []
        for command in commands:
            try:
                outcome = cascade.run(command, self.now, self.entities.get)
            except Refused:
                continue
            for ref, (before, after) in outcome.changes.items():
                changes[ref] = (changes[ref][0] if ref in changes else before, after)
                self._set(ref, after)
            lines += outcome.lines
            impacts += outcome.impacts
            settled += outcome.settled
        self.lines += lines
        self.impacts.update((impact.id, impact) for impact in impacts)
        for name in settled:
            del self.impacts[name]
        return Batch(self.now, changes, lines, impacts, settled, notes)

    def _set(self, ref: Ref, entity: Entity | None) -> None:
        if entity is None:
            self.entities.pop(ref, None)
            self.removed.add(ref)
        else:
            self.entities[ref] = entity

    def saved(self) -> Callable[[], None]:
        """Return a function that undoes everything generated from now on."""
        saved = dict(self.entities), list(self.lines), dict(self.impacts)

        def restore() -> None:
            self.entities, self.lines, self.impacts = saved

        return restore

    def names(self, kind: type[Entity]) -> list[str]:
        return [name for known, name in self.entities if known is kind]

    def random_batch(self, size: int) -> Batch:
        self.now += self.random.choice((0.125, 1.5, 40.0, 700.0))
        return self.batch([self.random_command() for _ in range(size)], clock=str(self.now))

    def random_command(self) -> Command:
        return self._commands.command()

    # --- What random commands are drawn for -------------------------------------------------------

    @property
    def scopes(self) -> dict[str, Scope]:
        return self._of_kind(Scope)

    @property
    def sets(self) -> dict[str, ScaleSet]:
        return self._of_kind(ScaleSet)

    @property
    def rollouts(self) -> dict[str, Rollout]:
        return self._of_kind(Rollout)

    @property
    def open(self) -> dict[str, PolledEvent]:
        return {
            event: PolledEvent(scope.id) for scope in self.scopes.values() for event in scope.events
        }

    def _of_kind(self, kind: type[E]) -> dict[str, E]:
        return {name: entity for (_, name), entity in self.entities.items() if type(entity) is kind}


class StoreCommands(RandomCommands):
    """Commands with unusual texts, and those that the service gives itself."""

    SHARES: ClassVar[Mapping[str, float]] = {
        "approve": 0.08,
        "operate": 0.30,
        "change_set": 0.10,
        "roll_out": 0.08,
        "cancel": 0.04,
        "change_scope": 0.08,
        "give_itself": 0.22,
        "create": 0.10,
    }

    def __init__(self, random: Random, generator: BatchGenerator) -> None:
        super().__init__(random, generator)
        self._generator = generator

    def create(self) -> Command:
        return self.create_set() if self.random.random() < 0.3 else self.create_scope()

    def with_resources(self, command: CreateScope | CreateSet) -> Command:
        """Return the command with a group, which needs no resource."""
        return changed(command, group="Gruppe ü")

    def machine(self, scope: str, number: int) -> Machine:
        """Draw a machine, which may have the name of one in another scope."""
        machine = super().machine(scope, number)
        twin = f"twin-{self.random.randrange(4)}-{self.random.randrange(4)}"
        name = self.random.choice((machine.name, twin))
        return changed(machine, name=name, host_name=f"host of {name}")

    def address(self) -> str:
        """Draw no address, or one that no other machine has, as a store refuses a second one."""
        self.count += 1
        return self.random.choice(("", f"10.1.{self.count // 256}.{self.count % 256}"))

    def subnet(self) -> str:
        """Draw the subnet, of which there is one: in two that overlap, addresses may be equal."""
        return self.random.choice(("", "10.0.0.0/24"))

    def give_itself(self) -> Command:
        """Draw a poll, a timer, the end of an impact or the next attempt of a lane."""
        name = self.any_scope()
        poll = Poll(scope=name, actor="machine")
        commands: list[Command] = [poll, poll, AdvanceTime(scope=name)]
        for impact in self.known.scopes[name].impacts.values():
            error = self.random.choice(("", "", "kaputt: „ß“\0"))
            commands.append(
                ReportImpact(scope=name, machine=impact.machine, impact=impact.id, error=error)
            )
        if lanes := self._generator.names(Lane):
            commands.append(RetryLane(lane=self.random.choice(lanes)))
        return self.random.choice(commands)

"""Generates the batches that stores are tested with, from commands decided by the real rules."""

from collections.abc import Callable, Iterable
from random import Random

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import (
    AbortRollout,
    AddMachines,
    AdvanceTime,
    Approve,
    Cancel,
    Command,
    Configure,
    CreateScope,
    CreateSet,
    Deallocate,
    Delete,
    DeleteSet,
    Evict,
    Fail,
    Maintain,
    PauseRollout,
    Poll,
    ProtectInstances,
    Recommend,
    Redeploy,
    ReportImpact,
    Restart,
    ResumeRollout,
    RetryLane,
    Scale,
    StartRollout,
    UpdateSet,
)
from fairwarning.core.decision import Announcement, Fact, FactType
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    Entity,
    EventType,
    EvictionPolicy,
    Impact,
    ImpactKind,
    Lane,
    Machine,
    Priority,
    Ref,
    Rollout,
    Rules,
    ScaleSet,
    Scope,
    ScopeKind,
    Source,
)
from fairwarning.store.store import Batch

NOON = 1_767_960_000.25


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
        self._count = 0

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
        """Return the ids of the entities of a kind."""
        return [name for known, name in self.entities if known is kind]

    # --- Random commands --------------------------------------------------------------------------

    def random_batch(self, size: int) -> Batch:
        """Return a batch of this many random commands."""
        self.now += self.random.choice((0.125, 1.5, 40.0, 700.0))
        return self.batch([self.random_command() for _ in range(size)], clock=str(self.now))

    def random_command(self) -> Command:
        """Return a random command, which may be refused."""
        scopes = self.names(Scope)
        if len(scopes) < 3 or self.random.random() < 0.1:
            return self._create()
        rest = self.random.random()
        if rest < 0.15 and self.names(ScaleSet):
            return self._on_set(self.random.choice(self.names(ScaleSet)))
        if rest < 0.2:
            return self._start_rollout()
        if rest < 0.3 and self.names(Rollout):
            return self._on_rollout(self.random.choice(self.names(Rollout)))
        return self._on_scope(self.random.choice(scopes))

    def _new_name(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"

    def _create(self) -> Command:
        random = self.random
        if random.random() < 0.3:
            priority = random.choice(tuple(Priority))
            return CreateSet(
                set=self._new_name("set"),
                capacity=random.randrange(5),
                terminate_seconds=0 if priority is Priority.SPOT else random.choice((0, 300, 900)),
                priority=priority,
                update_domains=random.randrange(1, 4),
            )
        kind = random.choice((ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET))
        size = 1 if kind is ScopeKind.STANDALONE else random.randrange(1, 8)
        return CreateScope(
            scope=self._new_name("scope"),
            kind=kind,
            machines=tuple(self._machine() for _ in range(size)),
            rules=Rules(approve_reboot=random.random() < 0.2, user_operations=7),
            group="Gruppe ü",
        )

    def _machine(self) -> Machine:
        random = self.random
        name = self._new_name("m")
        return Machine(
            name=random.choice((name, f"twin-{random.randrange(4)}-{random.randrange(4)}")),
            host_name=f"host of {name}",
            host=f"rack-{random.randrange(3)}",
            address=random.choice(("", f"10.0.0.{name}")),
            update_domain=random.randrange(3),
            fault_domain=random.randrange(3),
            priority=random.choice(tuple(Priority)),
            eviction=random.choice(tuple(EvictionPolicy)),
            terminate_seconds=random.choice((0, 300)),
        )

    def _on_scope(self, name: str) -> Command:
        scope = self.entities[Scope, name]
        assert isinstance(scope, Scope)
        random = self.random
        machines = tuple(
            random.sample(list(scope.machines), min(len(scope.machines), random.randrange(1, 4)))
        )
        events = list(scope.events)
        kind = random.choice((Restart, Redeploy, Evict, Delete, Fail, Deallocate, Recommend))
        choices: list[Callable[[], Command]] = [
            lambda: Poll(scope=name, actor="machine"),
            lambda: AdvanceTime(scope=name),
            lambda: Configure(scope=name, rules=Rules(reboot_seconds=random.randrange(1, 99))),
            lambda: AddMachines(scope=name, machines=(self._machine(),)),
            lambda: Maintain(
                scope=name, operation=self._new_name("op"), machines=machines, migration=True
            ),
            lambda: kind(scope=name, operation=self._new_name("op"), machines=machines),
            lambda: kind(scope=name, operation=self._new_name("op"), machines=machines),
        ]
        if events:
            choices.append(lambda: Approve(scope=name, events=tuple(random.sample(events, 1))))
            choices.append(lambda: Cancel(scope=name, event=random.choice(events)))
        for impact in scope.impacts.values():
            error = random.choice(("", "", "kaputt: „ß“\0"))
            finish = ReportImpact(scope=name, machine=impact.machine, impact=impact.id, error=error)
            choices.append(lambda finish=finish: finish)  # type: ignore[misc]
        return random.choice(choices)()

    def _on_set(self, name: str) -> Command:
        random = self.random
        choices: list[Callable[[], Command]] = [
            lambda: Scale(set=name, operation=self._new_name("op"), capacity=random.randrange(8)),
            lambda: UpdateSet(set=name, terminate_seconds=random.choice((0, 600))),
            lambda: ProtectInstances(set=name, instances=(random.randrange(4),)),
            lambda: DeleteSet(set=name, operation=self._new_name("op")),
        ]
        return random.choice(choices)()

    def _on_rollout(self, name: str) -> Command:
        random = self.random
        lanes = self.names(Lane)
        choices: list[Callable[[], Command]] = [
            lambda: PauseRollout(rollout=name),
            lambda: ResumeRollout(rollout=name),
            lambda: AbortRollout(rollout=name),
        ]
        if lanes:
            choices.append(lambda: RetryLane(lane=random.choice(lanes)))
        return random.choice(choices)()

    def _start_rollout(self) -> Command:
        scopes = self.names(Scope)
        chosen = self.random.sample(scopes, min(len(scopes), 3))
        return StartRollout(
            rollout=self._new_name("rollout"),
            scopes=tuple(chosen),
            kind=self.random.choice((ImpactKind.FREEZE, ImpactKind.REBOOT)),
            by_host=self.random.random() < 0.5,
            batch=2,
        )

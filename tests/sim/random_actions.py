"""Chooses the next action at random, from one `Random` with the seed."""

from collections.abc import Callable
from random import Random

from fairwarning.core import joining
from fairwarning.core.commands import (
    AbortRollout,
    AddMachines,
    Approve,
    Cancel,
    Command,
    Configure,
    CreateScope,
    CreateSet,
    Deallocate,
    Degrade,
    Delete,
    DeleteSet,
    Evict,
    Fail,
    JoinSet,
    Maintain,
    Operate,
    OperateInstances,
    PauseRollout,
    ProtectInstances,
    Recommend,
    Redeploy,
    Reimage,
    Restart,
    ResumeRollout,
    Scale,
    Start,
    StartRollout,
    StartUpgrade,
    Stop,
    UpdateMachine,
    UpdateSet,
    UpgradeInstances,
)
from fairwarning.core.model import (
    EvictionPolicy,
    ImpactKind,
    Machine,
    Priority,
    Rules,
    ScaleInRule,
    ScopeKind,
    UpgradeMode,
)
from fairwarning.service import failpoints
from tests.sim import addresses, resources
from tests.sim.actions import (
    Action,
    Advance,
    DropOld,
    FillDisk,
    Kill,
    Read,
    Send,
    StepWall,
    StopAndStart,
)
from tests.sim.observed_state import FIELDS
from tests.sim.observer import Observer

VERSIONS = tuple(FIELDS)
CRASH_POINTS = tuple(n for n in failpoints.NAMES if not n.startswith(("start", "stop")))
KINDS = (ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY)
PLAIN = (Restart, Redeploy, Fail, Stop, Start, Reimage, Deallocate)
FOR_INSTANCES = (Restart, Redeploy, Delete, Delete, Deallocate, Start, Evict)

USUAL = 0.16, 0.17, 0.77, 0.97, 0.985, 0.99, 0.995
"""Of a number below 1, for each action in order: mostly time, reads, commands; rarely a fault."""
FAULTS = 0.30, 0.31, 0.50, 0.70, 0.82, 0.84, 0.94
"""The same with many faults, of which several together may break what each alone does not."""


class RandomActions:
    """Chooses the next action, given the observed state."""

    def __init__(self, seed: int, observer: Observer) -> None:
        self.random = Random(seed)
        self.observer = observer
        self.count = 0
        self.sent: list[Command] = []
        self.limits = FAULTS if seed % 10 == 9 else USUAL
        self.sizes = (1, 2, 3, 3, 5, 8) if seed % 25 else (3, 20, 60, 101)

    # --- The fleet ---

    def fleet(self) -> list[Action]:
        """Create a random initial fleet."""
        commands: list[Command] = [resources.group(name) for name in resources.GROUPS]
        commands += [self._new_scope() for _ in range(self.random.choice((1, 2, 4)))]
        commands += [self._new_set() for _ in range(self.random.choice((0, 1, 1, 2)))]
        return [Send((command,)) for command in commands]

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _rules(self) -> Rules:
        return Rules(
            approve_reboot=self.random.random() < 0.1,
            approve_redeploy=self.random.random() < 0.1,
            user_operations=self.random.choice((1, 3, 100, 100)),
            enable_delay_seconds=self.random.choice((0, 0, 60)),
            freeze_seconds=self.random.choice((900, 900, 1200)),
            impact_limit_seconds=self.random.choice((120, 3600)),
            maintenance_window=self.random.choice(("", "", "", "2020-01-01T00:00Z PT6H Day")),
        )

    def _machine(self, scope: str, number: int) -> Machine:
        domain = number % self.random.choice((1, 3, 5))
        return Machine(
            name=f"{scope}-m{number}",
            update_domain=domain,
            fault_domain=number % 3,
            # Hosts are shared between scopes, never between domains.
            host=f"host{domain}-{self.random.randrange(2)}",
            priority=self.random.choice((Priority.REGULAR, Priority.REGULAR, Priority.SPOT)),
            eviction=self.random.choice((EvictionPolicy.DEALLOCATE, EvictionPolicy.DELETE)),
            terminate_seconds=self.random.choice((0, 0, 300, 900)),
            address=addresses.address(self.random),
            subnet=addresses.subnet(self.random),
        )

    def _new_scope(self) -> Command:
        name = self._name("scope")
        kind = self.random.choice(
            (ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET, ScopeKind.CLOUD_SERVICE)
        )
        size = 1 if kind is ScopeKind.STANDALONE else self.random.choice(self.sizes)
        machines = tuple(self._machine(name, n) for n in range(size))
        command = CreateScope(
            scope=name,
            kind=kind,
            machines=machines,
            rules=self._rules(),
        )
        return resources.create(self.random, command)

    def _new_set(self) -> Command:
        command = CreateSet(
            set=self._name("set"),
            capacity=self.random.choice(self.sizes),
            terminate_seconds=self.random.choice((0, 300, 300, 600, 900)),
            upgrade=self.random.choice(tuple(UpgradeMode)),
            scale_in=self.random.choice(tuple(ScaleInRule)),
            priority=self.random.choice((Priority.REGULAR, Priority.REGULAR, Priority.SPOT)),
            eviction=self.random.choice(tuple(EvictionPolicy)),
            rules=self._rules(),
            subnet=addresses.subnet(self.random),
            zones=self.random.choice(((), (), ("1", "2", "3"))),
            flexible=self.random.random() < 0.5,
        )
        return resources.create(self.random, command)

    # --- The next action ---

    def action(self) -> Action:
        """Choose an action."""
        draw = self.random.random()
        advance, drop, read, send, kill, stop, step = self.limits
        if draw < advance:
            return Advance(self._seconds())
        if draw < drop:
            return DropOld()
        if draw < read and self.observer.scopes:
            newest = self.random.random() < 0.7
            return Read(self._scope(), "2020-07-01" if newest else self.random.choice(VERSIONS))
        if draw < send:
            return Send(tuple(self._command() for _ in range(self.random.choice((1, 1, 2, 4, 8)))))
        if draw < kill:
            point = self.random.choice(("", *CRASH_POINTS))
            reboot, early = self.random.random() < 0.3, self.random.choice((0.0, 0.0, 7200.0))
            return Kill(point, self.random.choice((0.0, 1.0, 30.0, 1000.0)), reboot, early)
        if draw < stop:
            return StopAndStart()
        if draw < step:
            return StepWall(self.random.choice((-3600.0, -60.0, -3.0, 3.0, 60.0, 3600.0)))
        return FillDisk(self.random.randrange(1, 3))

    def _seconds(self) -> float:
        draw = self.random.random()
        if draw < 0.8:
            return self.random.choice((0.0, 0.1, 0.5, 1.0, 1.0, 3.0, 7.5, 20.0, 30.0, 60.0))
        if draw < 0.993:
            return self.random.choice((60.0, 299.0, 300.0, 600.0, 901.0))
        return self.random.choice((4_000.0, 40_000.0, 100_000.0))

    def _scope(self) -> str:
        return self.random.choice(list(self.observer.scopes))

    def _command(self) -> Command:
        if self.sent and self.random.random() < 0.06:
            return self._again(self.random.choice(self.sent[-40:]))
        if self.observer.forgotten and self.random.random() < 0.05:
            return self.random.choice(self.observer.forgotten[-20:])
        command = self._new_command()
        self.sent.append(command)
        return command

    def _again(self, command: Command) -> Command:
        """A repeated or delayed command; sometimes its key with another command."""
        if isinstance(command, Operate) and self.observer.scopes and self.random.random() < 0.2:
            return Restart(
                scope=self._scope(), machines=command.machines, operation=command.operation
            )
        return command

    def _new_command(self) -> Command:
        makers: list[tuple[float, Callable[[], Command | None]]] = [
            (0.40, self._approve),
            (0.68, self._operate),
            (0.80, self._for_set),
            (0.90, self._rollout),
            (0.94, self._cancel),
            (0.96, self._change),
            (0.98, self._write),
        ]
        if not self.observer.scopes:
            return self._new_scope()
        draw = self.random.random()
        for share, maker in makers:
            if draw < share:
                command = maker()
                if command is not None:
                    return command
        return self._new_scope() if len(self.observer.scopes) < 12 else self._operate()

    def _approve(self) -> Command | None:
        if not self.observer.open:
            return None
        if self.random.random() < 0.05 and (gone := list(self.observer.gone_at)[-20:]):
            event = self.random.choice(gone)
            return Approve(
                scope=self.observer.events[event].scope, events=(event,), actor="machine"
            )
        events = self.random.sample(
            list(self.observer.open), min(len(self.observer.open), self.random.choice((1, 1, 1, 2)))
        )
        scope = self.observer.open[events[0]].scope
        if self.random.random() < 0.05:
            scope = self._scope()  # events of another scope
        elif self.random.random() < 0.9:
            events = [event for event in events if self.observer.open[event].scope == scope]
        return Approve(scope=scope, events=tuple(events), actor="machine")

    def _cancel(self) -> Command | None:
        if not self.observer.open:
            return None
        event = self.random.choice(list(self.observer.open))
        return Cancel(scope=self.observer.open[event].scope, event=event)

    def _operate(self) -> Command:
        scope = self.observer.scopes[self._scope()]
        names = list(scope.machines) or ["unknown"]
        count = min(len(names), self.random.choice((1, 1, 2, 4)))
        machines = tuple(self.random.sample(names, count))
        operation = self._name("op")
        kinds: tuple[type[Operate], ...] = (*PLAIN, Maintain, Maintain, Degrade, Evict, Recommend)
        if not scope.owner:
            kinds = (*kinds, Delete)
        kind = self.random.choice(kinds)
        if kind is Maintain:
            return Maintain(
                scope=scope.id,
                machines=machines,
                operation=operation,
                kind=self.random.choice(KINDS),
                migration=self.random.random() < 0.3,
            )
        return kind(scope=scope.id, machines=machines, operation=operation)

    def _for_set(self) -> Command | None:
        if not self.observer.sets:
            return None
        name = self.random.choice(list(self.observer.sets))
        existing = [
            machine.instance
            for scope in self.observer.sets[name].groups
            if scope in self.observer.scopes
            for machine in self.observer.scopes[scope].machines.values()
        ]
        count = min(len(existing), self.random.choice((1, 1, 2)))
        instances = tuple(self.random.sample(existing, count))
        draw = self.random.random()
        if draw < 0.6 and instances:
            return OperateInstances(
                set=name,
                operation=self._name("op"),
                action=self.random.choice(FOR_INSTANCES),
                instances=instances,
            )
        if draw < 0.8:
            return Scale(
                set=name, operation=self._name("op"), capacity=self.random.choice(self.sizes)
            )
        if draw < 0.87:
            return UpdateSet(set=name, terminate_seconds=self.random.choice((0, 300, 600, 900)))
        if draw < 0.92:
            return self._join(name)
        if draw < 0.93:
            return StartUpgrade(set=name, rollout=self._name("upgrade"))
        if draw < 0.94:
            return UpgradeInstances(set=name, instances=instances or None)
        if draw < 0.98 and instances:
            return ProtectInstances(set=name, instances=instances)
        return DeleteSet(set=name, operation=self._name("op"))

    def _join(self, name: str) -> Command:
        """Add a machine with a name of its own to a set; refused unless that is Flexible."""
        scale_set = self.observer.sets[name]
        scopes = self.observer.scopes
        groups = {scope: scopes[scope] for scope in scale_set.groups if scope in scopes}
        machine = Machine(name=self._name("member"), terminate_seconds=300)
        return JoinSet(set=name, machine=machine, scope=joining.group_with_room(scale_set, groups))

    def _rollout(self) -> Command | None:
        running = [
            name for name, rollout in self.observer.rollouts.items() if rollout.ended_at is None
        ]
        if running and self.random.random() < 0.6:
            name = self.random.choice(running)
            kind = self.random.choice((PauseRollout, ResumeRollout, ResumeRollout, AbortRollout))
            return kind(rollout=name)
        if len(running) > 2:
            return None
        scopes = [name for name, scope in self.observer.scopes.items() if not scope.owner]
        by_host = self.random.random() < 0.5
        if not by_host:
            scopes = list(self.observer.scopes)
        if not scopes:
            return None
        chosen = self.random.sample(scopes, min(len(scopes), self.random.choice((1, 2, 4))))
        return StartRollout(
            rollout=self._name("rollout"),
            scopes=tuple(chosen),
            kind=self.random.choice(KINDS),
            by_host=by_host,
            batch=self.random.choice((1, 2, 10)),
        )

    def _write(self) -> Command | None:
        draw = self.random.random()
        if draw < 0.1:
            return resources.remove_group(self.random, self.observer, self._name("op"))
        if draw < 0.3:
            return resources.group(self.random.choice(resources.GROUPS))
        if draw < 0.4:
            return resources.plain(self.random, self._name("disk"))
        if draw < 0.45:
            return resources.remove(self.random, self.observer, self._name("op"))
        return resources.rewrite(self.random, self.observer)

    def _change(self) -> Command | None:
        name = self._scope()
        draw = self.random.random()
        if draw < 0.4:
            return Configure(scope=name, rules=self._rules())
        if draw < 0.5 and (machines := list(self.observer.scopes[name].machines)):
            chosen = self.random.choice(machines)
            return UpdateMachine(scope=name, machine=chosen, address=addresses.address(self.random))
        return AddMachines(scope=name, machines=(self._machine(name, self.random.randrange(99)),))

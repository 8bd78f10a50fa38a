"""Every command: an imperative each, from outside, checked at the door by `validate`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import ClassVar

from fairwarning.core import checks, limits
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    Entity,
    EvictionPolicy,
    ImpactKind,
    Lane,
    Machine,
    Priority,
    Resource,
    Rollout,
    Rules,
    ScaleInRule,
    ScaleSet,
    Scope,
    ScopeKind,
    UpgradeMode,
)
from fairwarning.core.record import Check, record, required


@record
class Command:
    """Somebody wants something. `actor` says who, for the journal (IC7)."""

    on: ClassVar[type[Entity]]
    target: ClassVar[str]  # the field that names the entity the command is for
    internal: ClassVar[bool] = False  # only the rules send it
    actor: str = required(checks.name, default="operator")


@record
class ScopeCommand(Command):
    """For one scope."""

    on = Scope
    target = "scope"
    scope: str = required(checks.known)


@record
class CreateScope(ScopeCommand):
    """A standalone machine, an availability set or a cloud service comes to be."""

    scope: str = required(checks.name)
    kind: ScopeKind = required(
        checks.one_of(ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET, ScopeKind.CLOUD_SERVICE)
    )
    machines: tuple[Machine, ...] = required(checks.first_machines)
    group: str = required(checks.optional_name, default="")
    rules: Rules = required(checks.rules, default_factory=Rules)


@record
class AddMachines(ScopeCommand):
    """More machines for a scope (not for a scale set's: scale it instead)."""

    machines: tuple[Machine, ...] = required(checks.machines)


@record
class Configure(ScopeCommand):
    """New settings. They change no event that exists."""

    rules: Rules = required(checks.rules)


@record
class UpdateMachine(ScopeCommand):
    """Other values for a machine; what is None stays. They change no event that exists."""

    machine: str = required(checks.known)
    terminate_seconds: int | None = required(checks.or_none(checks.terminate), default=None)
    size: str | None = required(checks.or_none(checks.optional_name), default=None)
    tags: Mapping[str, str] | None = required(checks.or_none(checks.tags), default=None)


@record
class Poll(ScopeCommand):
    """A machine asked for its document; the first time enables the feature (M14)."""

    at: float | None = required(
        checks.or_none(checks.moment), default=None
    )  # when, if not just now


@record
class RecordDelivery(ScopeCommand):
    """Machines have been shown an event: for the journal alone (O7)."""

    event: str = required(checks.known)
    machines: tuple[str, ...] = required(checks.names(limits.SCOPE_MACHINES))


@record
class Approve(ScopeCommand):
    """Start these events now: all of them or, if one is unknown, none (M12, M13)."""

    events: tuple[str, ...] = required(checks.names(limits.APPROVAL_EVENTS))


@record
class Cancel(ScopeCommand):
    """This event will not happen after all."""

    event: str = required(checks.known)


@record
class AdvanceTime(ScopeCommand):
    """Time has passed: do whatever is due."""

    actor: str = required(checks.name, default="clock")


@record
class ReportImpact(ScopeCommand):
    """A driver reports that an impact was carried out, or why it could not be."""

    actor: str = required(checks.name, default="driver")
    machine: str = required(checks.known)
    impact: str = required(checks.known)
    error: str = required(checks.text, default="")


@record
class Operate(ScopeCommand):
    """Something is to happen to machines. `operation` names it for ever: a repeat has no effect."""

    operation: str = required(checks.plain)
    machines: tuple[str, ...] = required(checks.names(limits.SCOPE_MACHINES))


@record
class Restart(Operate):
    """The user restarts machines: Reboot."""


@record
class Redeploy(Operate):
    """The user moves machines to other hosts: Redeploy."""


@record
class Reimage(Operate):
    """The user puts the image back: at once, no event (T4)."""


@record
class Stop(Operate):
    """The user powers machines off: at once, no event (T4)."""


@record
class Deallocate(Operate):
    """The user gives the hardware back: at once, no event (T4)."""


@record
class Start(Operate):
    """The user powers machines on: at once, no event."""


@record
class Delete(Operate):
    """The user deletes machines: Terminate where their model gives notice (T4)."""


@record
class Evict(Operate):
    """The platform takes Spot machines back: Preempt."""


@record
class Recommend(Operate):
    """The platform advises to leave Spot machines: no impact follows."""


@record
class Fail(Operate):
    """Hardware failed without warning: straight to Started (E3)."""


@record
class Degrade(Operate):
    """Hardware is going to fail: Redeploy, up to seven days ahead (E3)."""

    not_before: int | None = required(checks.or_none(checks.date), default=None)


@record
class Maintain(Operate):
    """The platform works on a host: Freeze by default; live migration is a short Freeze (E3)."""

    kind: ImpactKind = required(
        checks.one_of(ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY),
        default=ImpactKind.FREEZE,
    )
    migration: bool = required(checks.boolean, default=False)
    duration_seconds: int = required(checks.duration, default=limits.UNKNOWN_DURATION)


@record
class SetCommand(Command):
    """For one scale set."""

    on = ScaleSet
    target = "set"
    set: str = required(checks.name)


@record
class CreateSet(SetCommand):
    """A scale set comes to be, with its first instances, which are named after it."""

    set: str = required(checks.listed)
    capacity: int = required(checks.whole(0, limits.SET_INSTANCES))
    name: str = required(checks.or_empty(checks.listed), default="")  # the set's id, if not given
    group: str = required(checks.optional_name, default="")
    prefix: str = required(
        checks.optional_name, default=""
    )  # of host names; the name, if not given
    terminate_seconds: int = required(checks.terminate, default=0)
    upgrade: UpgradeMode = required(checks.one_of(*UpgradeMode), default=UpgradeMode.MANUAL)
    scale_in: ScaleInRule = required(checks.one_of(*ScaleInRule), default=ScaleInRule.DEFAULT)
    priority: Priority = required(checks.one_of(*Priority), default=Priority.REGULAR)
    eviction: EvictionPolicy = required(
        checks.one_of(*EvictionPolicy), default=EvictionPolicy.DEALLOCATE
    )
    update_domains: int = required(
        checks.whole(1, limits.UPDATE_DOMAINS_MAX), default=limits.UPDATE_DOMAINS
    )
    fault_domains: int = required(
        checks.whole(1, limits.FAULT_DOMAINS_MAX), default=limits.FAULT_DOMAINS
    )
    rules: Rules = required(checks.rules, default_factory=Rules)
    size: str = required(checks.optional_name, default="")
    zone: str = required(checks.optional_name, default="")
    tags: Mapping[str, str] = required(checks.tags, default_factory=dict)
    flexible: bool = required(checks.boolean, default=False)


@record
class UpdateSet(SetCommand):
    """A new model, or new ways to treat instances; what is None stays."""

    terminate_seconds: int | None = required(checks.or_none(checks.terminate), default=None)
    upgrade: UpgradeMode | None = required(
        checks.or_none(checks.one_of(*UpgradeMode)), default=None
    )
    scale_in: ScaleInRule | None = required(
        checks.or_none(checks.one_of(*ScaleInRule)), default=None
    )
    rules: Rules | None = required(checks.or_none(checks.rules), default=None)
    size: str | None = required(checks.or_none(checks.optional_name), default=None)
    tags: Mapping[str, str] | None = required(checks.or_none(checks.tags), default=None)
    renewed: bool = required(checks.boolean, default=False)  # the model is another in ways not told


@record
class UpgradeInstances(SetCommand):
    """Bring instances to the present model (`manualupgrade`); None is all (T3)."""

    instances: tuple[int, ...] | None = required(checks.or_none(checks.instances), default=None)


@record
class ProtectInstances(SetCommand):
    """Keep instances from being chosen when the set shrinks, or no longer.

    Those that are shielded as well are passed over when something is done to the whole set.
    """

    instances: tuple[int, ...] = required(checks.instances)
    protected: bool = required(checks.boolean, default=True)
    shielded: bool = required(checks.boolean, default=False)


@record
class SetOperation(SetCommand):
    """Something is to happen to instances of a set."""

    operation: str = required(checks.plain)


@record
class Scale(SetOperation):
    """So many instances from now on."""

    capacity: int = required(checks.whole(0, limits.SET_INSTANCES))


OF_A_SET = (Restart, Redeploy, Reimage, Stop, Deallocate, Start, Delete, Evict)
"""What goes through the set when it is to happen to one of its instances."""


@record
class OperateInstances(SetOperation):
    """What `Restart`, `Delete` and the like do, for instances of a set; None is all."""

    action: type[Operate] = required(checks.one_of(*OF_A_SET))
    instances: tuple[int, ...] | None = required(checks.or_none(checks.instances), default=None)


@record
class DeleteSet(SetOperation):
    """The whole set goes, each instance with its notice."""


@record
class RolloutCommand(Command):
    """For one rollout."""

    on = Rollout
    target = "rollout"
    rollout: str = required(checks.plain)


@record
class StartRollout(RolloutCommand):
    """Work through the machines of these scopes, a domain or a host at a time (E7)."""

    scopes: tuple[str, ...] = required(checks.names(limits.ROLLOUT_SCOPES))
    kind: ImpactKind = required(
        checks.one_of(ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY),
        default=ImpactKind.FREEZE,
    )
    by_host: bool = required(checks.boolean, default=False)
    hosts: tuple[str, ...] | None = required(
        checks.or_none(checks.names(limits.ROLLOUT_SCOPES)), default=None
    )  # only machines on these
    batch: int = required(checks.whole(1, limits.ROLLOUT_BATCH_MAX), default=limits.ROLLOUT_BATCH)
    duration_seconds: int = required(checks.duration, default=limits.UNKNOWN_DURATION)
    halt_percent: int | None = required(checks.or_none(checks.whole(0, 100)), default=None)


@record
class PauseRollout(RolloutCommand):
    """Begin nothing new; what was announced goes on."""


@record
class ResumeRollout(RolloutCommand):
    """Go on where the pause stopped it."""


@record
class AbortRollout(RolloutCommand):
    """End it: its Scheduled events are cancelled, Started ones run out."""


@record
class LaneCommand(Command):
    """For one lane of a rollout."""

    on = Lane
    target = "lane"
    lane: str = required(checks.known)


@record
class RetryLane(LaneCommand):
    """Time has passed: try a step that found its machines busy again."""

    actor: str = required(checks.name, default="clock")


def _commands(value: object) -> str | None:
    """Not too many commands; each is checked by itself."""
    if not isinstance(value, tuple) or len(value) > limits.FOLLOWING_COMMANDS:
        return f"at most {limits.FOLLOWING_COMMANDS} commands"
    return None


@record
class ResourceCommand(Command):
    """For one resource. What follows happens together with it, or neither does."""

    on = Resource
    target = "resource"
    resource: str = required(checks.resource)
    operation: str = required(
        checks.optional_name, default=""
    )  # empty: nobody will ask how it went
    follow: tuple[Command, ...] = required(_commands, default=())


@record
class Write(ResourceCommand):
    """Keep what somebody wrote about a thing."""

    body: str = required(checks.body)
    group: str = required(checks.optional_name, default="")
    name: str = required(checks.optional_name, default="")
    within: str = required(
        checks.optional_resource, default=""
    )  # a resource that has to be there, and to stay
    at: int | None = required(checks.or_none(checks.whole(0, 2**53)), default=None)
    """The version it was read at, 0 if there was none; None: whatever is there."""
    scope: str = required(checks.optional, default="")
    machine: str = required(checks.optional, default="")
    set: str = required(checks.optional, default="")


@record
class Remove(ResourceCommand):
    """The resource goes, and others with it, once all that follows has been done.

    What is being removed already has to be gone before it.
    """

    operation: str = required(checks.plain)
    others: tuple[str, ...] = required(checks.resources, default=())
    awaits: tuple[str, ...] = required(
        checks.resources, default=()
    )  # what is being removed already


_ABSTRACT = frozenset(
    {
        Command,
        ScopeCommand,
        Operate,
        SetCommand,
        SetOperation,
        RolloutCommand,
        LaneCommand,
        ResourceCommand,
    }
)
_CHECKS: dict[type, tuple[tuple[str, Check], ...]] = {}


def _checks(kind: type[Command]) -> tuple[tuple[str, Check], ...]:
    if kind not in _CHECKS:
        _CHECKS[kind] = tuple(
            (f.name, f.metadata["check"]) for f in fields(kind) if "check" in f.metadata
        )
    return _CHECKS[kind]


def validate(command: object) -> None:
    """Refuse a command from outside that holds what it may not (the text says what it may)."""
    if not isinstance(command, Command) or command.internal or type(command) in _ABSTRACT:
        raise Refused("BadCommand", f"{type(command).__name__} is not a command; see core/commands")
    for name, check in _checks(type(command)):
        if allowed := check(getattr(command, name)):
            kind = type(command).__name__
            raise Refused("BadCommand", f"{kind}.{name} must be {allowed}")
    if isinstance(command, ResourceCommand):
        _check_following(command)


def operation_of(command: Command) -> str:
    """The operation that a command is accepted under; empty if there is none."""
    if isinstance(command, Operate | SetOperation | ResourceCommand):
        return command.operation
    return ""


def _check_following(command: ResourceCommand) -> None:
    """All that follows is sound, and part of one operation: known or new as a whole (IC2)."""
    for one in command.follow:
        validate(one)
        if operation_of(one) not in {"", command.operation}:
            kind = type(command).__name__
            raise Refused("BadCommand", f"what follows a {kind} must be of the same operation")

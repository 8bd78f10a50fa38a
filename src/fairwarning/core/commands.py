"""Every command that callers may send. `validate` checks its fields."""

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
    Operation,
    Priority,
    Resource,
    Rollout,
    Rules,
    ScaleInRule,
    ScaleSet,
    Scope,
    ScopeKind,
    SetAside,
    UpgradeMode,
)
from fairwarning.core.record import Check, checked, record


@record
class Command:
    """A request to change something. The journal records `actor` (IC7)."""

    on: ClassVar[type[Entity]]
    target: ClassVar[str]  # the field that names the entity it addresses
    internal: ClassVar[bool] = False  # sent by the rules only, never by a caller
    actor: str = checked(checks.known, default="operator")  # also the name of a machine
    request: str = checked(checks.text, default="")  # what the caller asked for, in its words


@record
class ScopeCommand(Command):
    """A command to a scope."""

    on = Scope
    target = "scope"
    scope: str = checked(checks.known)


@record
class CreateScope(ScopeCommand):
    """Create a standalone machine, an availability set or a cloud service."""

    scope: str = checked(checks.unspaced)
    kind: ScopeKind = checked(
        checks.one_of(ScopeKind.STANDALONE, ScopeKind.AVAILABILITY_SET, ScopeKind.CLOUD_SERVICE)
    )
    machines: tuple[Machine, ...] = checked(checks.first_machines)
    group: str = checked(checks.optional_name, default="")
    rules: Rules = checked(checks.rules, default_factory=Rules)


@record
class AddMachines(ScopeCommand):
    """Add machines to a scope. Scale sets are scaled instead."""

    machines: tuple[Machine, ...] = checked(checks.machines)


@record
class Configure(ScopeCommand):
    """Change the settings of a scope. Existing events keep theirs."""

    rules: Rules = checked(checks.rules)


@record
class UpdateMachine(ScopeCommand):
    """Change a machine; None keeps a value. Existing events do not change."""

    machine: str = checked(checks.known)
    terminate_seconds: int | None = checked(checks.or_none(checks.terminate), default=None)
    size: str | None = checked(checks.or_none(checks.optional_name), default=None)
    tags: Mapping[str, str] | None = checked(checks.or_none(checks.tags), default=None)
    address: str | None = checked(checks.or_none(checks.or_empty(checks.address)), default=None)


@record
class Poll(ScopeCommand):
    """A machine polls; the first poll enables Scheduled Events (M14).

    With `at`, a machine polled then: this renews what is enabled, and enables nothing.
    """

    at: float | None = checked(checks.or_none(checks.moment), default=None)  # None: now


@record
class RecordDelivery(ScopeCommand):
    """Journal that an event was delivered to these machines (O7)."""

    event: str = checked(checks.known)
    machines: tuple[str, ...] = checked(checks.names(limits.SCOPE_MACHINES))


@record
class RecordRefusal(ScopeCommand):
    """Journal that an approval by this machine was refused (O7)."""

    machine: str = checked(checks.known)
    reason: str = checked(checks.text)


@record
class Approve(ScopeCommand):
    """Approve these events: all of them or, if one is unknown, none (M12, M13)."""

    events: tuple[str, ...] = checked(checks.names(limits.APPROVAL_EVENTS))


@record
class Cancel(ScopeCommand):
    """Cancel a Scheduled event."""

    event: str = checked(checks.known)


@record
class AdvanceTime(ScopeCommand):
    """Do what is due by now."""

    actor: str = checked(checks.name, default="clock")


@record
class ReportImpact(ScopeCommand):
    """A driver reports that it carried an impact out, or why it could not."""

    actor: str = checked(checks.name, default="driver")
    machine: str = checked(checks.known)
    impact: str = checked(checks.known)
    error: str = checked(checks.text, default="")


@record
class GiveUpImpact(ScopeCommand):
    """The driver had an impact for longer than its limit, and has not reported it."""

    actor: str = checked(checks.name, default="clock")
    machine: str = checked(checks.known)
    impact: str = checked(checks.known)


@record
class Operate(ScopeCommand):
    """An operation on machines. A repeat with the same `operation` id has no effect (IC2)."""

    operation: str = checked(checks.plain)
    machines: tuple[str, ...] = checked(checks.names(limits.SCOPE_MACHINES))


@record
class Restart(Operate):
    """A user restarts machines: Reboot."""


@record
class Redeploy(Operate):
    """A user moves machines to other hosts: Redeploy."""


@record
class Reimage(Operate):
    """A user reimages machines: at once, without an event (T4)."""


@record
class Stop(Operate):
    """A user powers machines off: at once, without an event (T4)."""


@record
class Deallocate(Operate):
    """A user deallocates machines: at once, without an event (T4)."""


@record
class Start(Operate):
    """A user powers machines on: at once, without an event."""


@record
class Delete(Operate):
    """A user deletes machines: Terminate where their model gives notice (T4)."""


@record
class Evict(Operate):
    """The platform evicts Spot machines: Preempt."""


@record
class Recommend(Operate):
    """The platform recommends leaving Spot machines; no impact follows."""


@record
class Fail(Operate):
    """Hardware failed without warning: the event appears as Started (E3)."""


@record
class Degrade(Operate):
    """Hardware is predicted to fail: Redeploy, up to seven days ahead (E3)."""

    not_before: int | None = checked(checks.or_none(checks.date), default=None)


@record
class Maintain(Operate):
    """The platform maintains a host: Freeze by default; live migration is a short Freeze (E3)."""

    kind: ImpactKind = checked(
        checks.one_of(ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY),
        default=ImpactKind.FREEZE,
    )
    migration: bool = checked(checks.boolean, default=False)
    duration_seconds: int = checked(checks.duration, default=limits.UNKNOWN_DURATION)


@record
class SetCommand(Command):
    """A command to a scale set."""

    on = ScaleSet
    target = "set"
    set: str = checked(checks.known)


@record
class CreateSet(SetCommand):
    """Create a scale set with its first instances, which are named after it."""

    set: str = checked(checks.listed)
    capacity: int = checked(checks.whole(0, limits.SET_INSTANCES))
    name: str = checked(checks.or_empty(checks.listed), default="")  # empty: the set's id
    group: str = checked(checks.optional_name, default="")
    prefix: str = checked(checks.optional_name, default="")  # of host names; empty: the set's name
    terminate_seconds: int = checked(checks.terminate, default=0)
    upgrade: UpgradeMode = checked(checks.one_of(*UpgradeMode), default=UpgradeMode.MANUAL)
    scale_in: ScaleInRule = checked(checks.one_of(*ScaleInRule), default=ScaleInRule.DEFAULT)
    priority: Priority = checked(checks.one_of(*Priority), default=Priority.REGULAR)
    eviction: EvictionPolicy = checked(
        checks.one_of(*EvictionPolicy), default=EvictionPolicy.DEALLOCATE
    )
    update_domains: int = checked(
        checks.whole(1, limits.UPDATE_DOMAINS_MAX), default=limits.UPDATE_DOMAINS
    )
    fault_domains: int = checked(
        checks.whole(1, limits.FAULT_DOMAINS_MAX), default=limits.FAULT_DOMAINS
    )
    rules: Rules = checked(checks.rules, default_factory=Rules)
    size: str = checked(checks.optional_name, default="")
    zones: tuple[str, ...] = checked(checks.zones, default=())
    windows: bool = checked(checks.boolean, default=False)
    tags: Mapping[str, str] = checked(checks.tags, default_factory=dict)
    flexible: bool = checked(checks.boolean, default=False)
    subnet: str = checked(checks.or_empty(checks.subnet), default="")


@record
class UpdateSet(SetCommand):
    """Change the model or the policies of a scale set; None keeps a value."""

    terminate_seconds: int | None = checked(checks.or_none(checks.terminate), default=None)
    upgrade: UpgradeMode | None = checked(checks.or_none(checks.one_of(*UpgradeMode)), default=None)
    scale_in: ScaleInRule | None = checked(
        checks.or_none(checks.one_of(*ScaleInRule)), default=None
    )
    rules: Rules | None = checked(checks.or_none(checks.rules), default=None)
    size: str | None = checked(checks.or_none(checks.optional_name), default=None)
    tags: Mapping[str, str] | None = checked(checks.or_none(checks.tags), default=None)
    renewed: bool = checked(
        checks.boolean, default=False
    )  # the model changed in ways that the rules do not see


@record
class JoinSet(SetCommand):
    """Add a machine with a name of its own to a Flexible set.

    The machine keeps its size, tags and notice when the set's model changes.
    """

    machine: Machine = checked(checks.machine)
    scope: str = checked(checks.known)  # from `joining.group_with_room`
    resource: str = checked(checks.optional_resource, default="")  # that describes the machine


@record
class UpgradeInstances(SetCommand):
    """Apply the current model to instances (`manualupgrade`); None: to all (T3)."""

    instances: tuple[int, ...] | None = checked(checks.or_none(checks.instances), default=None)


@record
class ProtectInstances(SetCommand):
    """Protect instances from scale-in, or stop protecting them.

    Operations on the whole set skip instances that are also shielded.
    """

    instances: tuple[int, ...] = checked(checks.instances)
    protected: bool = checked(checks.boolean, default=True)
    shielded: bool = checked(checks.boolean, default=False)


@record
class SetOperation(SetCommand):
    """An operation on instances of a set."""

    operation: str = checked(checks.plain)


@record
class Scale(SetOperation):
    """Set the number of instances."""

    capacity: int = checked(checks.whole(0, limits.SET_INSTANCES))


OF_A_SET = (Restart, Redeploy, Reimage, Stop, Deallocate, Start, Delete, Evict)
"""Operations that go through the scale set when they concern its instances."""


@record
class OperateInstances(SetOperation):
    """`Restart`, `Delete` and so on for instances of a set; None: for all."""

    action: type[Operate] = checked(checks.one_of(*OF_A_SET))
    instances: tuple[int, ...] | None = checked(checks.or_none(checks.instances), default=None)


@record
class DeleteSet(SetOperation):
    """Delete a scale set; each instance gets its notice."""


@record
class RolloutCommand(Command):
    """A command to a rollout."""

    on = Rollout
    target = "rollout"
    rollout: str = checked(checks.known)


@record
class StartRollout(RolloutCommand):
    """Maintain the machines of these scopes, one update domain or host at a time (E7)."""

    rollout: str = checked(checks.plain)
    scopes: tuple[str, ...] = checked(checks.names(limits.ROLLOUT_SCOPES))
    kind: ImpactKind = checked(
        checks.one_of(ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY),
        default=ImpactKind.FREEZE,
    )
    by_host: bool = checked(checks.boolean, default=False)
    hosts: tuple[str, ...] | None = checked(
        checks.or_none(checks.names(limits.ROLLOUT_SCOPES)), default=None
    )  # empty: all hosts
    batch: int = checked(checks.whole(1, limits.ROLLOUT_BATCH_MAX), default=limits.ROLLOUT_BATCH)
    duration_seconds: int = checked(checks.duration, default=limits.UNKNOWN_DURATION)
    halt_percent: int | None = checked(checks.or_none(checks.whole(0, 100)), default=None)
    operation: str = checked(checks.or_empty(checks.plain), default="")  # its idempotency key


@record
class PauseRollout(RolloutCommand):
    """Start no further steps; announced events continue."""


@record
class ResumeRollout(RolloutCommand):
    """Continue a paused rollout."""


@record
class AbortRollout(RolloutCommand):
    """End a rollout: cancel its Scheduled events, let Started ones finish."""


@record
class LaneCommand(Command):
    """A command to a lane of a rollout."""

    on = Lane
    target = "lane"
    lane: str = checked(checks.known)


@record
class RetryLane(LaneCommand):
    """Retry a step whose machines were busy."""

    actor: str = checked(checks.name, default="clock")


@record
class ResourceCommand(Command):
    """A command to a resource. The commands in `follow` are decided in the same transaction."""

    on = Resource
    target = "resource"
    resource: str = checked(checks.resource)
    operation: str = checked(
        checks.optional_name, default=""
    )  # empty: the caller does not track it
    follow: tuple[Command, ...] = checked(checks.commands, default=())


@record
class Write(ResourceCommand):
    """Store a resource."""

    body: str = checked(checks.body)
    group: str = checked(checks.optional_name, default="")
    name: str = checked(checks.optional_name, default="")
    within: str = checked(
        checks.optional_resource, default=""
    )  # a resource that must exist and not be in deletion
    at: int | None = checked(checks.or_none(checks.whole(0, 2**53)), default=None)
    """The version that the caller has read, 0 for none; None: any."""
    scope: str = checked(checks.optional, default="")
    machine: str = checked(checks.optional, default="")
    set: str = checked(checks.optional, default="")
    uses: tuple[str, ...] = checked(checks.resources, default=())
    owns: tuple[str, ...] = checked(checks.resources, default=())  # removed with it


@record
class Remove(ResourceCommand):
    """Remove a resource, and `others` with it, once the following commands have completed.

    Resources that are in deletion already must be removed first. A resource that another one uses
    is not removed alone.
    """

    operation: str = checked(checks.plain)
    others: tuple[str, ...] = checked(checks.resources, default=())
    awaits: tuple[str, ...] = checked(
        checks.resources, default=()
    )  # resources that are in deletion already
    at: int | None = checked(checks.or_none(checks.whole(0, 2**53)), default=None)
    """The version that the caller has read; None: any."""


@record
class Release(Command):
    """Decide on an entity again that was set aside because of a bug (IB1)."""

    on = SetAside
    target = "entity"
    entity: str = checked(checks.known)  # kind and id, such as "Scope/web"


@record
class Drop(Command):
    """Drop an entity that ended before a time (IR1)."""

    actor: str = checked(checks.name, default="retention")
    before: float = checked(checks.moment)


@record
class DropOperation(Drop):
    """Drop an operation; a command with its id is then a new operation (IC2)."""

    on = Operation
    target = "operation"
    operation: str = checked(checks.known)


@record
class DropRollout(Drop):
    """Drop a rollout, after its operations and lanes."""

    on = Rollout
    target = "rollout"
    rollout: str = checked(checks.known)


@record
class DropLane(Drop):
    """Drop a lane of a rollout that ended before a time."""

    on = Lane
    target = "lane"
    lane: str = checked(checks.known)


_CHECKS: dict[type, tuple[tuple[str, Check], ...]] = {}


def _checks(kind: type[Command]) -> tuple[tuple[str, Check], ...]:
    if kind not in _CHECKS:
        _CHECKS[kind] = tuple(
            (f.name, f.metadata["check"]) for f in fields(kind) if "check" in f.metadata
        )
    return _CHECKS[kind]


def _is_abstract(kind: type[Command]) -> bool:
    """Whether a class only groups the commands that callers may send."""
    return any(not special.internal for special in kind.__subclasses__())


def validate(command: object) -> None:
    """Raise `Refused` for a command with a bad field; the text says what is allowed."""
    if not isinstance(command, Command) or command.internal or _is_abstract(type(command)):
        raise Refused("BadCommand", f"{type(command).__name__} is not a command; see core/commands")
    for name, check in _checks(type(command)):
        if allowed := check(getattr(command, name)):
            raise Refused("BadCommand", f"{name} must be {allowed}")
    if isinstance(command, ResourceCommand):
        _check_following(command)


def target_of(command: Command) -> str:
    """The id of the entity that a command addresses."""
    return str(getattr(command, command.target))


_STARTS_OPERATION = (Operate, SetOperation, ResourceCommand, StartRollout)


def operation_of(command: Command) -> str:
    """The id of the operation that a command starts; empty if none."""
    if isinstance(command, _STARTS_OPERATION):
        return command.operation
    return ""


def _check_following(command: ResourceCommand) -> None:
    """The following commands must be valid and belong to one operation (IC2)."""
    for following in command.follow:
        validate(following)
        if operation_of(following) not in {"", command.operation}:
            kind = type(command).__name__
            raise Refused("BadCommand", f"what follows a {kind} must be of the same operation")

"""The rules of each operation as data: the event it announces and its impact (E1, E3)."""

from fairwarning.core import limits
from fairwarning.core.commands import (
    Deallocate,
    Degrade,
    Delete,
    Evict,
    Fail,
    Maintain,
    Operate,
    Recommend,
    Redeploy,
    Reimage,
    Restart,
    Start,
    Stop,
)
from fairwarning.core.model import (
    EventType,
    ImpactKind,
    Machine,
    Power,
    Priority,
    Rules,
    Source,
)
from fairwarning.core.record import changed, record

_PENDING_WORK = frozenset({ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY})


@record
class OperationRule:
    """What an operation announces, on whose behalf, and what it does to the machine."""

    impact: ImpactKind | None
    event: EventType | None = None  # None: happens at once, without an event (T4)
    source: Source = Source.USER
    text: str = ""
    duration_seconds: int = limits.UNKNOWN_DURATION
    per_machine: bool = False  # one event per machine, not per update domain
    sudden: bool = False  # the event appears as Started
    spot_only: bool = False
    powers: frozenset[Power] = frozenset(Power)
    replaces: frozenset[ImpactKind] = frozenset()  # pending impacts that it replaces (E5)
    replaces_platform: frozenset[ImpactKind] = frozenset()  # if the platform announced them
    interrupts: frozenset[ImpactKind] = frozenset()  # impacts in progress that it ends


START = OperationRule(impact=ImpactKind.START, replaces_platform=_PENDING_WORK)
"""From deallocated it places the machine anew; from stopped the platform's event stays (E5)."""

_ON_A_HOST = frozenset({Power.RUNNING, Power.STOPPED})

OPERATION_RULES: dict[tuple[type[Operate], ImpactKind | None], OperationRule] = {
    (Restart, None): OperationRule(
        impact=ImpactKind.REBOOT,
        event=EventType.REBOOT,
        text="Virtual machine is going to be restarted as requested by authorized user.",
        powers=_ON_A_HOST,
    ),
    (Redeploy, None): OperationRule(
        impact=ImpactKind.REDEPLOY,
        event=EventType.REDEPLOY,
        text="Virtual machine is going to be redeployed as requested by authorized user.",
        powers=_ON_A_HOST,
        replaces_platform=_PENDING_WORK,
    ),
    (Reimage, None): OperationRule(impact=ImpactKind.REIMAGE, replaces_platform=_PENDING_WORK),
    (Stop, None): OperationRule(
        impact=ImpactKind.STOP, powers=_ON_A_HOST, replaces_platform=_PENDING_WORK
    ),
    (Deallocate, None): OperationRule(
        impact=ImpactKind.DEALLOCATE, replaces_platform=_PENDING_WORK
    ),
    (Start, None): START,
    (Delete, None): OperationRule(
        impact=ImpactKind.DELETE,
        event=EventType.TERMINATE,
        text="Virtual machine is going to be deleted as requested by authorized user.",
        per_machine=True,
        replaces=_PENDING_WORK,
    ),
    (Evict, None): OperationRule(
        impact=ImpactKind.EVICT,
        event=EventType.PREEMPT,
        source=Source.PLATFORM,
        per_machine=True,
        spot_only=True,
        powers=_ON_A_HOST,
        replaces=_PENDING_WORK,
    ),
    (Recommend, None): OperationRule(
        impact=None,
        event=EventType.SPOT_REBALANCE,
        source=Source.PLATFORM,
        per_machine=True,
        spot_only=True,
        powers=_ON_A_HOST,
    ),
    (Fail, None): OperationRule(
        impact=ImpactKind.REDEPLOY,
        event=EventType.REDEPLOY,
        source=Source.PLATFORM,
        text="Virtual machine has encountered a failure.",
        sudden=True,
        powers=_ON_A_HOST,
        replaces=_PENDING_WORK,
        interrupts=_PENDING_WORK,
    ),
    (Degrade, None): OperationRule(
        impact=ImpactKind.REDEPLOY,
        event=EventType.REDEPLOY,
        source=Source.PLATFORM,
        text="Virtual machine has encountered a failure.",
        powers=_ON_A_HOST,
    ),
    (Maintain, ImpactKind.FREEZE): OperationRule(
        impact=ImpactKind.FREEZE,
        event=EventType.FREEZE,
        source=Source.PLATFORM,
        text="Host server is undergoing maintenance.",
        duration_seconds=limits.FREEZE_DURATION_SECONDS,
        powers=_ON_A_HOST,
    ),
    (Maintain, ImpactKind.REBOOT): OperationRule(
        impact=ImpactKind.REBOOT,
        event=EventType.REBOOT,
        source=Source.PLATFORM,
        text="Host server is undergoing maintenance.",
        powers=_ON_A_HOST,
    ),
    (Maintain, ImpactKind.REDEPLOY): OperationRule(
        impact=ImpactKind.REDEPLOY,
        event=EventType.REDEPLOY,
        source=Source.PLATFORM,
        text="Host Server infrastructure is undergoing maintenance.",
        powers=_ON_A_HOST,
    ),
}
_MIGRATION_TEXT = (
    "Virtual machine is being paused because of a memory-preserving Live Migration operation."
)


def rule_of(command: Operate) -> OperationRule:
    """The rule for this command."""
    if not isinstance(command, Maintain):
        return OPERATION_RULES[type(command), None]
    rule = OPERATION_RULES[Maintain, command.kind]
    if is_migration(command):
        rule = changed(
            rule, text=_MIGRATION_TEXT, duration_seconds=limits.MIGRATION_DURATION_SECONDS
        )
    if command.duration_seconds != limits.UNKNOWN_DURATION:
        rule = changed(rule, duration_seconds=command.duration_seconds)
    return rule


def is_migration(command: Maintain) -> bool:
    """Whether single machines move to other hosts, and freeze for a moment only."""
    return command.migration and command.kind is ImpactKind.FREEZE


def event_type(kind: ImpactKind) -> EventType:
    """The event type that announces host maintenance of this kind."""
    event = OPERATION_RULES[Maintain, kind].event
    assert event is not None
    return event


def notice_seconds(rules: Rules, kind: EventType, machine: Machine) -> int:
    """The notice of an event of this type: NotBefore minus creation (E1)."""
    if kind is EventType.TERMINATE:
        # Spot machines get no Terminate event (T4).
        return 0 if machine.priority is Priority.SPOT else machine.terminate_seconds
    return int(getattr(rules, _NOTICES[kind]))


_NOTICES = {
    EventType.FREEZE: "freeze_seconds",
    EventType.REBOOT: "reboot_seconds",
    EventType.REDEPLOY: "redeploy_seconds",
    EventType.PREEMPT: "preempt_seconds",
    EventType.SPOT_REBALANCE: "recommend_seconds",
}

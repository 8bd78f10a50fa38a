"""What a transition or an impact makes of an event or a machine, as tables (IL1)."""

from enum import StrEnum

from fairwarning.core.decision import FactType
from fairwarning.core.errors import Bug
from fairwarning.core.model import (
    EventStatus,
    EvictionPolicy,
    Impact,
    ImpactKind,
    Machine,
    Power,
    guid,
)


class EventTransition(StrEnum):
    """The transitions of an event."""

    ANNOUNCE = "announce"
    APPEAR_STARTED = "appear started"  # without notice: sudden failure, automatic approval
    START = "start"
    CANCEL = "cancel"
    LAPSE = "lapse"  # advice without an impact
    END = "end"


TRANSITIONS: dict[EventStatus | None, dict[EventTransition, EventStatus | None]] = {
    None: {
        EventTransition.ANNOUNCE: EventStatus.SCHEDULED,
        EventTransition.APPEAR_STARTED: EventStatus.STARTED,
    },
    EventStatus.SCHEDULED: {
        EventTransition.START: EventStatus.STARTED,
        EventTransition.CANCEL: None,
        EventTransition.LAPSE: None,
    },
    EventStatus.STARTED: {EventTransition.END: None},
}
"""All allowed transitions (IL1). None: not in the document."""

POWER_AFTER = {
    ImpactKind.REBOOT: Power.RUNNING,
    ImpactKind.REDEPLOY: Power.RUNNING,
    ImpactKind.START: Power.RUNNING,
    ImpactKind.STOP: Power.STOPPED,
    ImpactKind.DEALLOCATE: Power.DEALLOCATED,
    ImpactKind.EVICT: Power.DEALLOCATED,
}
"""The power state after an impact; other impacts do not change it."""

KEEP_POWER = frozenset({ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY})
"""If the platform does it: the power state is its user's (E5)."""

FACT_OF_END = {
    EventTransition.CANCEL: FactType.CANCELLED,
    EventTransition.LAPSE: FactType.LAPSED,
    EventTransition.END: FactType.ENDED,
}
"""The fact about an event that has left the document."""


def next_status(status: EventStatus | None, move: EventTransition) -> EventStatus | None:
    """The status after a transition; `Bug` for one that is not in the table."""
    try:
        return TRANSITIONS[status][move]
    except KeyError:
        raise Bug(f"no transition {move!r} from {status} (IL1)") from None


def moves(machine: Machine, kind: ImpactKind) -> bool:
    """Whether a machine is on another host after an impact."""
    deallocated = machine.power is Power.DEALLOCATED
    return kind is ImpactKind.REDEPLOY or (kind is ImpactKind.START and deallocated)


def deletes(machine: Machine, kind: ImpactKind) -> bool:
    """Whether a machine is gone after an impact."""
    return kind is ImpactKind.DELETE or (
        kind is ImpactKind.EVICT and machine.eviction is EvictionPolicy.DELETE
    )


def spare_host(impact: Impact) -> str:
    """The name of a host that nothing else is on."""
    return f"spare-{guid(impact.id)[:8].lower()}"

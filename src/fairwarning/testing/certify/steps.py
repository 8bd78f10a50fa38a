"""The steps of a trap, as data: events and faults, and expectations. `trap_run` runs them."""

from dataclasses import dataclass

from fairwarning.core.commands import Maintain, Operate, Restart
from fairwarning.core.model import ImpactKind
from fairwarning.service.faults import FaultKind

ME = "web_1"
"""The machine that the program runs in; its host name is web000001."""
OTHER = "web_0"
SIMILAR = "web_10"
"""A machine whose name contains that of the program's machine."""


@dataclass(frozen=True, slots=True)
class _EventStep:
    """A step about an event; by default the one of the program's own machine."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class AnnounceEvent:
    """Schedule an event for machines; later steps refer to it as `event`."""

    event: str = "own"
    action: type[Operate] = Restart
    machines: tuple[str, ...] = (ME,)
    kind: ImpactKind | None = None  # of maintenance
    seconds: int | None = None  # how long the maintenance takes


@dataclass(frozen=True, slots=True)
class ExpectPolls:
    """Expect more polls."""

    times: int = 1


class ExpectRead(_EventStep):
    """Expect that the program reads the event in time."""


class ExpectApproval(_EventStep):
    """Expect that the program approves the event in time."""


@dataclass(frozen=True, slots=True)
class ExpectNoApproval:
    """Expect that the program reads the event and does not approve it."""

    event: str
    seconds: float | None = None  # or as long as it may prepare


class ExpectOneApproval(_EventStep):
    """Expect that the program approves an event that does not change, and not again and again."""


class AwaitEventEnd(_EventStep):
    """Wait until the machine is back after the event and the program polls again."""


class ExpectMachineGone(_EventStep):
    """Wait until the event is over and the machine and its program are gone."""


@dataclass(frozen=True, slots=True)
class CancelAnnouncedEvent:
    """Cancel the event."""

    event: str


@dataclass(frozen=True, slots=True)
class InjectFault:
    """Answer requests with a fault for a while."""

    kind: FaultKind
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DisableFeature:
    """Let a day pass without polls, which disables the feature; another machine enables it."""


@dataclass(frozen=True, slots=True)
class LosePower:
    """Kill the program without a warning, unless the event has started."""

    event: str = ""


@dataclass(frozen=True, slots=True)
class PowerOn:
    """Start the program if it is not running, and expect a poll."""


Step = (
    AnnounceEvent
    | ExpectPolls
    | ExpectRead
    | ExpectApproval
    | ExpectNoApproval
    | ExpectOneApproval
    | AwaitEventEnd
    | ExpectMachineGone
    | CancelAnnouncedEvent
    | InjectFault
    | DisableFeature
    | LosePower
    | PowerOn
)

CHANGE_DOCUMENT: tuple[Step, ...] = (
    AnnounceEvent("change", action=Maintain, machines=(OTHER,), kind=ImpactKind.FREEZE),
    CancelAnnouncedEvent("change"),
)
"""Change the document twice, back to its old events: its incarnation grows by two."""

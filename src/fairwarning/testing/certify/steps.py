"""What a trap is made of: what happens, and what is expected. Data; `running.py` carries it out."""

from dataclasses import dataclass

from fairwarning.core.commands import Maintain, Operate, Restart
from fairwarning.core.model import ImpactKind
from fairwarning.service.faults import FaultKind

ME = "web_1"
"""The machine that the program is; its host name is web000001."""
OTHER = "web_0"


@dataclass(frozen=True, slots=True)
class AnnounceEvent:
    """Something is going to happen to machines; later steps call it by `event`."""

    event: str = "own"
    action: type[Operate] = Restart
    machines: tuple[str, ...] = (ME,)
    kind: ImpactKind | None = None  # of maintenance
    seconds: int | None = None  # how long the maintenance takes


@dataclass(frozen=True, slots=True)
class ExpectPolls:
    """Expected: it goes on asking, so many times."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class ExpectRead:
    """Expected: it reads of the event, in time."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class ExpectApproval:
    """Expected: it approves the event, in time."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class ExpectNoApproval:
    """Expected: it reads of the event, and does not approve it."""

    event: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ExpectOneApproval:
    """Expected: it does not approve the event over and over, though it stays as it is."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class StartEvent:
    """The event begins: if the program does not approve it soon, an operator does."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class AwaitEventEnd:
    """Until the event is over and, if the machine went down, the program asks again."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class ExpectMachineGone:
    """The event is over, and the machine and its program with it."""

    event: str = "own"


@dataclass(frozen=True, slots=True)
class CancelAnnouncedEvent:
    """The event is cancelled."""

    event: str


@dataclass(frozen=True, slots=True)
class InjectFault:
    """The endpoint answers with a fault for a while."""

    kind: FaultKind
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DisableFeature:
    """Nobody asks for a day: the feature goes off, and another machine switches it on again."""


@dataclass(frozen=True, slots=True)
class LosePower:
    """The machine goes down without a warning, unless the event has begun and did that."""

    event: str = ""


@dataclass(frozen=True, slots=True)
class PowerOn:
    """The machine starts, if it is off, and the program with it. Expected: it asks."""


Step = (
    AnnounceEvent
    | ExpectPolls
    | ExpectRead
    | ExpectApproval
    | ExpectNoApproval
    | ExpectOneApproval
    | StartEvent
    | AwaitEventEnd
    | ExpectMachineGone
    | CancelAnnouncedEvent
    | InjectFault
    | DisableFeature
    | LosePower
    | PowerOn
)

STIR: tuple[Step, ...] = (
    AnnounceEvent("stir", action=Maintain, machines=(OTHER,), kind=ImpactKind.FREEZE),
    CancelAnnouncedEvent("stir"),
)
"""The document is another twice, and then as before: its number has grown by two."""

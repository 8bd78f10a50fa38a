"""The traps, as data. Each begins once the program, which is machine web_1 of three, has asked."""

from dataclasses import dataclass

from fairwarning.core.commands import Delete, Evict, Fail, Maintain, Redeploy
from fairwarning.core.model import ImpactKind
from fairwarning.service.faults import FaultKind
from fairwarning.testing.certify.allowances import HASTE_SECONDS, OTHERS_SECONDS
from fairwarning.testing.certify.steps import (
    ME,
    OTHER,
    STIR,
    AnnounceEvent,
    AwaitEventEnd,
    CancelAnnouncedEvent,
    DisableFeature,
    ExpectApproval,
    ExpectMachineGone,
    ExpectNoApproval,
    ExpectOneApproval,
    ExpectPolls,
    ExpectRead,
    InjectFault,
    LosePower,
    PowerOn,
    StartEvent,
    Step,
)


@dataclass(frozen=True, slots=True)
class Trap:
    """What happens to a program, and what it should make of it."""

    name: str
    happens: str
    good: str  # what a good handler does
    steps: tuple[Step, ...]
    spot: bool = False  # the machines are Spot ones


_OWN = (AnnounceEvent(), ExpectApproval())  # afterwards, it does its work as ever


TRAPS = (
    Trap(
        name="scale-set-name",
        happens="The platform plans to reboot web_1, whose host name is web000001.",
        good="Asks /metadata/instance/compute/name who it is; the host name is another.",
        steps=(
            AnnounceEvent(action=Maintain, kind=ImpactKind.REBOOT),
            ExpectApproval(),
            AwaitEventEnd(),
        ),
    ),
    Trap(
        name="other-machine",
        happens="A user restarts web_0, which is in the same document.",
        good="Approves only events whose Resources name its own machine.",
        steps=(
            AnnounceEvent("other", machines=(OTHER,)),
            ExpectNoApproval("other", OTHERS_SECONDS),
        ),
    ),
    Trap(
        name="two-resources",
        happens="A user restarts web_0 and web_1: one event names both.",
        good="Knows that an approval is for all machines of the event, and agrees with them first.",
        steps=(
            AnnounceEvent("both", machines=(OTHER, ME)),
            ExpectNoApproval("both", HASTE_SECONDS),
        ),
    ),
    Trap(
        name="new-event-while-busy",
        happens="While an event of web_0 stands, web_1 is restarted, and then redeployed.",
        good="Looks at every event of each document, whatever else is under way.",
        steps=(
            AnnounceEvent("other", action=Maintain, machines=(OTHER,), kind=ImpactKind.REBOOT),
            ExpectRead("other"),
            AnnounceEvent("first"),
            ExpectApproval("first"),
            AwaitEventEnd("first"),
            AnnounceEvent("second", action=Redeploy),
            ExpectApproval("second"),
            AwaitEventEnd("second"),
        ),
    ),
    Trap(
        name="cancelled-event",
        happens="The platform plans to reboot web_1 and web_2, and calls it off. Later a user "
        "restarts web_1.",
        good="Takes an event that is gone and was never Started for cancelled: goes back to work.",
        steps=(
            AnnounceEvent("off", action=Maintain, machines=(ME, "web_2"), kind=ImpactKind.REBOOT),
            ExpectNoApproval("off", 1.0),
            CancelAnnouncedEvent("off"),
            ExpectPolls(),
            *_OWN,
        ),
    ),
    Trap(
        name="started-without-notice",
        happens="Hardware fails: web_0's first, then web_1's. The events are Started at once, "
        "their NotBefore is empty. Later a user restarts web_1.",
        good="Reads an empty NotBefore; does not try to prepare for, or approve, what has begun.",
        steps=(
            AnnounceEvent("other", action=Fail, machines=(OTHER,)),
            ExpectNoApproval("other", 0.0),
            ExpectPolls(),
            AnnounceEvent("sudden", action=Fail),
            AwaitEventEnd("sudden"),
            *_OWN,
        ),
    ),
    Trap(
        name="freeze",
        happens="web_1 stands still for 3 s. Later a user restarts it.",
        good="Goes on after a pause: it was neither rebooted, nor is the endpoint gone.",
        steps=(
            AnnounceEvent("pause", action=Maintain, kind=ImpactKind.FREEZE, seconds=3),
            StartEvent("pause"),
            AwaitEventEnd("pause"),
            *_OWN,
        ),
    ),
    Trap(
        name="empty-body",
        happens="The endpoint answers 200 with nothing in it. Later a user restarts web_1.",
        good="Takes an empty answer for no news, and asks again.",
        steps=(InjectFault(FaultKind.EMPTY), *_OWN),
    ),
    Trap(
        name="throttled",
        happens="The endpoint answers 429. Later a user restarts web_1.",
        good="Waits as long as Retry-After says, or a second, and asks again.",
        steps=(InjectFault(FaultKind.TOO_MANY), *_OWN),
    ),
    Trap(
        name="gone",
        happens="The endpoint answers 410 for a while. Later a user restarts web_1.",
        good="Waits a little and asks again: 410 passes, within some 70 s in Azure.",
        steps=(InjectFault(FaultKind.GONE), *_OWN),
    ),
    Trap(
        name="slow-answer",
        happens="Each answer takes 4 s. Later a user restarts web_1.",
        good="Waits for the answer (the very first may take two minutes), or asks again.",
        steps=(InjectFault(FaultKind.DELAY, delay_seconds=4.0), *_OWN),
    ),
    Trap(
        name="counter-restart",
        happens="The feature was off for a day: DocumentIncarnation starts again at 1. Then a user "
        "restarts web_1.",
        good="Acts on the events of a document, and never expects its number to grow.",
        steps=(
            *STIR,
            *STIR,
            *STIR,
            ExpectPolls(),
            DisableFeature(),
            *_OWN,
        ),
    ),
    Trap(
        name="duplicate-document",
        happens="The set shrinks by web_0, then by web_1, whose approval has to wait for web_0's: "
        "the document stays as it is.",
        good="Remembers what it has approved.",
        steps=(
            AnnounceEvent("earlier", action=Delete, machines=(OTHER,)),
            AnnounceEvent(action=Delete),
            ExpectOneApproval(),
        ),
    ),
    Trap(
        name="reboot-in-the-middle",
        happens="A user restarts web_1, which loses its power while it prepares; and is restarted "
        "again while it is down.",
        good="Looks, when it starts, for events that are there already, and takes them up again.",
        steps=(
            AnnounceEvent("before"),
            LosePower("before"),
            PowerOn(),
            ExpectApproval("before"),
            AwaitEventEnd("before"),
            LosePower(),
            AnnounceEvent("meanwhile"),
            PowerOn(),
            ExpectApproval("meanwhile"),
            AwaitEventEnd("meanwhile"),
        ),
    ),
    Trap(
        name="short-notice",
        happens="web_1, a Spot machine, is evicted: 30 s of notice.",
        good="Asks every second, so that it reads of an eviction while there is time.",
        steps=(
            AnnounceEvent(action=Evict),
            ExpectRead(),
            StartEvent(),
            ExpectMachineGone(),
        ),
        spot=True,
    ),
)

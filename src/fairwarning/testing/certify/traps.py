"""The traps, as data. A trap starts after the first poll of the program, which runs in web_1."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

from fairwarning.core.commands import Delete, Evict, Fail, Redeploy
from fairwarning.core.model import ImpactKind
from fairwarning.service.faults import FaultKind
from fairwarning.testing.certify.allowances import GLANCE_SECONDS
from fairwarning.testing.certify.environment import ME, OTHER
from fairwarning.testing.certify.trap_run import Step
from fairwarning.testing.certify.trap_run import TrapRun as Run

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Trap:
    """A situation that handlers often get wrong, with what a correct handler does."""

    name: str
    happens: str
    good: str  # what a correct handler does
    steps: tuple[Step, ...]
    spot: bool = False  # whether the machines are Spot machines


def _do(
    step: Callable[Concatenate[Run, P], Awaitable[object]], *args: P.args, **options: P.kwargs
) -> Step:
    """Return a step with arguments; without them, a method of a run is a step itself."""
    return lambda run: step(run, *args, **options)


# Checks that the program still handles its events.
_OWN = (Run.announce, Run.expect_approval)


def _fault(
    kind: FaultKind,
    name: str,
    happens: str,
    good: str = "Waits and polls again.",
    *,
    delay_seconds: float = 0.0,
) -> Trap:
    happens = f"{happens} Later a user restarts web_1."
    return Trap(name, happens, good, (_do(Run.inject_fault, kind, delay_seconds), *_OWN))


TRAPS = (
    Trap(
        name="scale-set-name",
        happens="The platform schedules a reboot of web_1, whose host name is web000001.",
        good="Reads its name from /metadata/instance/compute/name; the host name differs.",
        steps=(
            _do(Run.announce, maintain=ImpactKind.REBOOT),
            Run.expect_approval,
            Run.await_end,
        ),
    ),
    Trap(
        name="other-machine",
        happens="A user restarts web_0, whose event is in the same document.",
        good="Approves only events that list its own machine in Resources.",
        steps=(
            _do(Run.announce, "other", (OTHER,)),
            _do(Run.expect_no_approval, "other"),
        ),
    ),
    Trap(
        name="similar-name",
        happens="A user restarts web_10, whose name begins with web_1.",
        good="Compares whole names: Resources is a list.",
        steps=(
            _do(Run.announce, "other", ("web_10",)),
            _do(Run.expect_no_approval, "other"),
        ),
    ),
    Trap(
        name="two-resources",
        happens="A user restarts web_0 and web_1; one event lists both.",
        good="Agrees with the other machine first, because an approval applies to all machines of "
        "the event.",
        steps=(
            _do(Run.announce, "both", (OTHER, ME)),
            _do(Run.expect_no_approval, "both"),
        ),
    ),
    Trap(
        name="new-event-while-busy",
        happens="While an event of web_0 is scheduled, web_1 is restarted. Then web_1 is "
        "redeployed and web_2 is rebooted.",
        good="Handles every event of every document, even while another event is in progress.",
        steps=(
            _do(Run.announce, "other", (OTHER,), maintain=ImpactKind.REBOOT),
            _do(Run.expect_read, "other"),
            _do(Run.announce, "first"),
            _do(Run.expect_approval, "first"),
            _do(Run.await_end, "first"),
            _do(Run.announce, "second", action=Redeploy),
            _do(Run.announce, "last", ("web_2",), maintain=ImpactKind.REBOOT),
            _do(Run.expect_approval, "second"),
            _do(Run.await_end, "second"),
        ),
    ),
    Trap(
        name="cancelled-event",
        happens="The platform schedules a reboot of web_1 and web_2 and cancels it. Later a user "
        "restarts web_1.",
        good="Treats an event that disappears without having been Started as cancelled, and "
        "resumes work.",
        steps=(
            _do(Run.announce, "off", (ME, "web_2"), maintain=ImpactKind.REBOOT),
            _do(Run.expect_no_approval, "off", GLANCE_SECONDS),
            _do(Run.cancel, "off"),
            Run.expect_polls,
            *_OWN,
        ),
    ),
    Trap(
        name="started-without-notice",
        happens="The hardware of web_0 fails, then that of web_1 and web_2. The events are Started "
        "immediately, with an empty NotBefore. Later a user restarts web_1.",
        good="Accepts an empty NotBefore, and neither prepares for nor approves an event that has "
        "started.",
        steps=(
            _do(Run.announce, "other", (OTHER,), action=Fail),
            _do(Run.expect_no_approval, "other", GLANCE_SECONDS),
            _do(Run.announce, "sudden", (ME, "web_2"), action=Fail),
            _do(Run.await_end, "sudden"),
            _do(Run.expect_no_approval, "sudden"),
            *_OWN,
        ),
    ),
    Trap(
        name="started-at-boot",
        happens="The hardware of web_1 fails. When web_1 is back, its event is still Started.",
        good="Approves only events that are Scheduled.",
        steps=(
            Run.lose_power,
            _do(Run.announce, action=Fail),
            Run.power_on,
            _do(Run.expect_no_approval, "own"),
        ),
    ),
    Trap(
        name="freeze",
        happens="The platform freezes web_1 for 3 s. Later a user restarts it.",
        good="Handles the Freeze event, and continues after the pause; it takes the pause for "
        "neither a reboot nor an outage of the endpoint.",
        steps=(
            _do(Run.announce, "pause", maintain=ImpactKind.FREEZE, seconds=3),
            _do(Run.expect_approval, "pause"),
            _do(Run.await_end, "pause"),
            *_OWN,
        ),
    ),
    Trap(
        name="redeploy",
        happens="A user redeploys web_1.",
        good="Handles the Redeploy event; the temporary disk is lost.",
        steps=(_do(Run.announce, action=Redeploy), Run.expect_approval, Run.await_end),
    ),
    Trap(
        name="terminate",
        happens="The set scales in by web_1, with 5 minutes of notice.",
        good="Handles the Terminate event; api-versions before 2019-01-01 do not show it.",
        steps=(
            _do(Run.announce, action=Delete),
            Run.expect_approval,
            Run.expect_machine_gone,
        ),
    ),
    _fault(
        FaultKind.EMPTY,
        "empty-body",
        "The endpoint answers 200 with an empty body.",
        "Ignores an empty body and polls again.",
    ),
    _fault(
        FaultKind.TRUNCATED,
        "cut-body",
        "The endpoint's answers end in the middle.",
        "Ignores an answer that is not complete JSON and polls again.",
    ),
    _fault(FaultKind.RESET, "reset", "The endpoint resets connections."),
    _fault(FaultKind.NOT_FOUND, "not-found", "The endpoint answers 404."),
    _fault(FaultKind.ERROR, "server-error", "The endpoint answers 500."),
    _fault(
        FaultKind.TOO_MANY,
        "throttled",
        "The endpoint answers 429.",
        "Waits for the time in Retry-After, or for a second, and polls again.",
    ),
    _fault(
        FaultKind.GONE,
        "gone",
        "The endpoint answers 410 for a while.",
        "Waits and polls again; in Azure, 410 ends within about 70 s.",
    ),
    _fault(
        FaultKind.DELAY,
        "slow-answer",
        "Each answer takes 4 s.",
        "Waits for the answer (the first may take two minutes), or polls again.",
        delay_seconds=4.0,
    ),
    Trap(
        name="approval-fails",
        happens="A user restarts web_1. The endpoint answers the first approval with 429, and the "
        "second one with 500.",
        good="Approves again until the endpoint answers 200.",
        steps=(Run.fail_approvals, *_OWN),
    ),
    Trap(
        name="counter-restart",
        happens="The feature was disabled for a day, so DocumentIncarnation restarts at 1. Then a "
        "user restarts web_1.",
        good="Handles the events of every document, whether or not DocumentIncarnation grows.",
        steps=(
            *(3 * (Run.change_document,)),
            Run.expect_polls,
            Run.disable_feature,
            *_OWN,
        ),
    ),
    Trap(
        name="duplicate-document",
        happens="The set scales in by web_0, then by web_1. The approval of web_1 waits for that "
        "of web_0, so the document does not change.",
        good="Remembers which events it has approved.",
        steps=(
            _do(Run.announce, "earlier", (OTHER,), action=Delete),
            _do(Run.announce, action=Delete),
            Run.expect_one_approval,
        ),
    ),
    Trap(
        name="reboot-in-the-middle",
        happens="A user restarts web_1, which loses power while it prepares. Another restart is "
        "scheduled while it is down.",
        good="Handles the events that already exist when it starts.",
        steps=(
            _do(Run.announce, "before"),
            _do(Run.lose_power, "before"),
            Run.power_on,
            _do(Run.expect_approval, "before"),
            _do(Run.await_end, "before"),
            Run.lose_power,
            _do(Run.announce, "meanwhile"),
            Run.power_on,
            _do(Run.expect_approval, "meanwhile"),
            _do(Run.await_end, "meanwhile"),
        ),
    ),
    Trap(
        name="short-notice",
        happens="web_1, a Spot machine, is evicted with 30 s of notice.",
        good="Polls every second, so that it reads the Preempt event in time, and handles it; "
        "api-versions before 2017-11-01 do not show it.",
        steps=(
            _do(Run.announce, action=Evict),
            Run.expect_approval,
            Run.expect_machine_gone,
        ),
        spot=True,
    ),
)

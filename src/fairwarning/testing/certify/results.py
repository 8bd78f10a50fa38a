"""The result of a trap, and the rules that apply to a handler in every trap."""

from dataclasses import dataclass

from fairwarning.testing.certify import allowances
from fairwarning.testing.certify.environment import Observations, ObservedEvent, TrapFailed
from fairwarning.testing.certify.steps import ME
from fairwarning.testing.certify.traps import Trap


@dataclass(frozen=True, slots=True)
class TrapResult:
    """The result of one program in one trap."""

    trap: Trap
    survived: bool
    seen: str
    seconds: float
    ignored: frozenset[str] = frozenset()  # types of its own events that it did not handle
    handled: frozenset[str] = frozenset()  # types of events that it did
    output: str = ""  # the end of what the program printed


def check_rules(seen: Observations, prepare_seconds: float) -> None:
    """Raise `TrapFailed` if the program approved a wrong event or polled too often."""
    for event in seen.events.values():
        if event.approved_by == ME:
            _check_approval(event, prepare_seconds)
    if seen.refused["rate"] > allowances.RATE_REFUSALS:
        text = (
            "sent more than 5 requests a second:"
            f" {seen.refused['rate']} requests were refused with 429"
        )
        raise TrapFailed(text)


def _check_approval(event: ObservedEvent, prepare_seconds: float) -> None:
    names = " and ".join(event.resources)
    if ME not in event.resources:
        raise TrapFailed(f"approved an event of {names}, which is another machine")
    if len(event.resources) > 1 and approval_seconds(event) < prepare_seconds:
        raise TrapFailed(
            f"approved the event of {names} {approval_seconds(event):.1f} s after reading it,"
            " without waiting for the other machine"
        )


def approval_seconds(event: ObservedEvent) -> float:
    """Return the seconds from the first read of an event to its approval."""
    assert event.approved_at is not None
    return max(0.0, event.approved_at - (event.read_at or event.at))

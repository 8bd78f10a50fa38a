"""What no handler may do, in whichever trap; and the verdict on one."""

from dataclasses import dataclass

from fairwarning.testing.certify import allowances
from fairwarning.testing.certify.stage import Observations, ObservedEvent, TrapFailed
from fairwarning.testing.certify.steps import ME
from fairwarning.testing.certify.traps import Trap


@dataclass(frozen=True, slots=True)
class TrapResult:
    """How a program came out of a trap."""

    trap: Trap
    survived: bool
    seen: str
    seconds: float
    silent: bool | None = None  # it approved none of its own; None: it read of none, or need not


def judge(seen: Observations) -> None:
    """Raise Trapped if it went too far. Whose event is whose is all that there is to know."""
    for told in seen.events.values():
        if told.approved_by == ME:
            _check_whose(told)
    if seen.refused["rate"] > allowances.RATE_REFUSALS:
        text = f"more than 5 requests a second: {seen.refused['rate']} were refused with 429"
        raise TrapFailed(text)


def _check_whose(told: ObservedEvent) -> None:
    names = " and ".join(told.resources)
    if ME not in told.resources:
        raise TrapFailed(f"it approved an event of {names}, which is not its own")
    if len(told.resources) > 1 and took(told) < allowances.HASTE_SECONDS:
        raise TrapFailed(
            f"it approved at once, {took(told):.1f} s after reading of it, for {names}"
        )


def took(told: ObservedEvent) -> float:
    """Seconds from the first reading of a notice to its approval."""
    assert told.approved_at is not None
    return max(0.0, told.approved_at - (told.read_at or told.at))

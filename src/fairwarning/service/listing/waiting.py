"""Sentences about events and impacts that something waits for."""

from collections.abc import Sequence

from fairwarning.core.model import Event, Impact, Scope
from fairwarning.core.times import iso
from fairwarning.service.history.explanations import join_names

_DAY_SECONDS = 86400


class Moments:
    """Writes times: without the date if they are less than a day from now."""

    def __init__(self, now: float) -> None:
        self._now = now

    def text(self, moment: float) -> str:
        """The time of day, `20:36:00Z`, with the date if it is needed."""
        date, _, time = iso(int(moment)).partition("T")
        return time if abs(moment - self._now) < _DAY_SECONDS else f"{date} {time}"


def event_sentence(scope: Scope, event: Event, moments: Moments) -> str:
    """A scheduled event: until when it starts, and whose approval it still needs."""
    until = moments.text(event.not_before)
    text = f"{event.type} of {join_names(event.resources)} in scope {scope.id}"
    peers = f", approval in {join_names(event.awaits)}" if event.awaits else ""
    return f"{text}{peers}, until {until} at the latest"


def impact_sentence(scope: Scope, impacts: Sequence[Impact], moments: Moments) -> str:
    """Impacts in progress in one scope: until when they end or count as failed."""
    until = moments.text(max(impact.deadline or 0.0 for impact in impacts))
    names = join_names([impact.machine for impact in impacts])
    return f"the impact on {names} in scope {scope.id}, until {until} at the latest"

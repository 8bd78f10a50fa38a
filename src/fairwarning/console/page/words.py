"""Wording of times, names and states on the page. Pure."""

from datetime import UTC, datetime

from fairwarning.console.api.responses import AcceptedOperation
from fairwarning.core.times import spoken

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

# The state of a machine while an impact is in progress.
_IMPACT_STATES = {
    "freeze": "frozen",
    "reboot": "rebooting",
    "redeploy": "redeploying",
    "evict": "being evicted",
    "delete": "being deleted",
    "reimage": "being reimaged",
    "stop": "stopping",
    "deallocate": "deallocating",
    "start": "starting",
}


def epoch(time: str) -> int:
    """Return the seconds since 1970 of a time in the API's format."""
    return int(datetime.fromisoformat(time).timestamp())


def time_of_day(time: str | None, now: str = "") -> str:
    """Format a time as a time of day, with the date unless it is the date of `now`."""
    if not time:
        return ""
    when = datetime.fromisoformat(time)
    if now and when.date() == datetime.fromisoformat(now).date():
        return f"{when:%H:%M:%S}"
    return f"{when.day} {when:%b %H:%M:%S}"


def date(seconds: int) -> str:
    """Format the date of a time: `18 Nov`."""
    when = datetime.fromtimestamp(seconds, UTC)
    return f"{when.day} {when:%b}"


def duration(seconds: float | None) -> str:
    """Format a duration in at most two units: `4 min 30 s`."""
    if seconds is None:
        return "unknown"
    return spoken(round(seconds))


def countdown(until: str, now: str) -> str:
    """Format the remaining time: `14:32`, `1:02:11`, `6 d 23 h`. page.js has the same function."""
    left = max(epoch(until) - epoch(now), 0)
    if left >= _DAY:
        return f"{left // _DAY} d {left % _DAY // _HOUR} h"
    hours, rest = divmod(left, _HOUR)
    minutes, seconds = divmod(rest, _MINUTE)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def clock_rate(rate: float) -> str:
    """Describe the rate of the fleet's clock."""
    return "paused" if not rate else f"running at \N{MULTIPLICATION SIGN}{rate:g}"


def machine_state(power: str, impact: str | None) -> str:
    """Describe a machine by the impact in progress, or by its power state."""
    return _IMPACT_STATES.get(impact, impact) if impact else power


def join_names(names: list[str] | tuple[str, ...], most: int = 3) -> str:
    """Join names; after `most` names, say how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def count(number: int, singular: str, plural: str = "") -> str:
    """Format a number with its noun: `1 machine`, `3 machines`."""
    return f"{number:,} {noun(number, singular, plural)}"


def noun(number: int, singular: str, plural: str = "") -> str:
    """Return the noun for a number of things, without the number."""
    return singular if number == 1 else plural or f"{singular}s"


def describe_accepted(accepted: AcceptedOperation) -> str:
    """Describe the effect of an accepted operation."""
    if not accepted.events:
        return "completed." if accepted.operation.ended_at else "in progress, without notice."
    first = accepted.events[0]
    types = ", ".join(dict.fromkeys(event.type for event in accepted.events))
    if first.status == "Started":
        return f"{types} started."
    machines = join_names([name for event in accepted.events for name in event.resources])
    return f"{types} scheduled for {machines}, not before {time_of_day(first.not_before)[-8:]}."

"""How times and states are said on the page. Pure."""

from datetime import UTC, datetime

from fairwarning.console.api.responses import AcceptedOperation
from fairwarning.core.times import spoken

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

# What is being done to a machine, while it is.
_DOING = {
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
    """Seconds since 1970 of a time as the API says it."""
    return int(datetime.fromisoformat(time).timestamp())


def moment(time: str | None, now: str = "") -> str:
    """The time of day; with its date where that is not the date of `now`."""
    if not time:
        return ""
    when = datetime.fromisoformat(time).astimezone(UTC)
    if now and when.date() == datetime.fromisoformat(now).astimezone(UTC).date():
        return f"{when:%H:%M:%S}"
    return f"{when.day} {when:%b %H:%M:%S}"


def span(seconds: float | None) -> str:
    """How long something takes, in at most two units: `4 min 30 s`."""
    if seconds is None:
        return "not known"
    return spoken(round(seconds))


def countdown(until: str, now: str) -> str:
    """What is left, as a clock shows it: `14:32`, `1:02:11`, `6 d 23 h`. page.js does the same."""
    left = max(epoch(until) - epoch(now), 0)
    if left >= _DAY:
        return f"{left // _DAY} d {left % _DAY // _HOUR} h"
    hours, rest = divmod(left, _HOUR)
    minutes, seconds = divmod(rest, _MINUTE)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def rate(value: float) -> str:
    """How fast the fleet's clock runs."""
    return "frozen" if not value else f"runs \N{MULTIPLICATION SIGN}{value:g}"


def doing(power: str, under_way: str | None) -> str:
    """What a machine is at."""
    return _DOING.get(under_way, under_way) if under_way else power


def names(given: list[str] | tuple[str, ...], most: int = 3) -> str:
    """Some names, and how many more there are."""
    more = len(given) - most
    return ", ".join(given[:most]) + (f" and {more} more" if more > 0 else "")


def count(number: int, one: str, many: str = "") -> str:
    """`1 machine`, `3 machines`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def accepted(answer: AcceptedOperation) -> str:
    """What an accepted operation has led to, for people."""
    if not answer.events:
        return "done at once." if answer.operation.ended_at else "under way, without notice."
    first = answer.events[0]
    kinds = ", ".join(dict.fromkeys(event.type for event in answer.events))
    if first.status == "Started":
        return f"{kinds} has started."
    told = names([name for event in answer.events for name in event.resources])
    return f"{kinds} is announced for {told}, not before {moment(first.not_before)[-8:]}."

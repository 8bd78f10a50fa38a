"""Wording of times, names and states on the page, and the Jinja environment with it as filters."""

import re
from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote
from uuid import uuid4

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairwarning.console.api.responses import AcceptedOperation, ExplanationStepInfo, MachineInfo
from fairwarning.core.times import parse_duration, spoken

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

KINDS = {
    "Standalone": "standalone machine",
    "AvailabilitySet": "availability set",
    "PlacementGroup": "placement group",
    "CloudService": "cloud service",
}
FAULTS = {
    "delay": "Delayed response",
    "empty": "200 OK with an empty body",
    "control": "Control characters in the body",
    "truncated": "Truncated body",
    "404": "404 Not Found",
    "410": "410 Gone",
    "429": "429 Too Many Requests",
    "500": "500 Internal Server Error",
    "reset": "Connection reset",
}

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


# --- Templates ---


@cache
def environment() -> Environment:
    """Build the environment, once: compiling its templates takes a quarter of a second."""
    env = Environment(
        loader=PackageLoader("fairwarning.console.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    env.filters |= {
        "count": count,
        "countdown": countdown,
        "epoch": epoch,
        "fault": lambda kind: FAULTS.get(kind, kind),
        "kind": lambda kind: KINDS.get(kind, kind),
        "link": link,
        "minutes": lambda notice: parse_duration(notice) // 60 if notice else 5,
        "moment": time_of_day,
        "names": join_names,
        "notice": _notice,
        "rate": clock_rate,
        "sentence": _sentence,
        "duration": duration,
        "spaced": _spaced,
        "state": _machine_state,
        "status_class": _status_class,
    }
    env.globals |= {"new_key": new_key, "preview_id": _preview_id}
    return env


def new_key() -> str:
    """Return a new idempotency key."""
    return uuid4().hex


def link(machine: MachineInfo) -> str:
    """Return the path of a machine's page."""
    return machine_path(machine.scope, machine.name)


def machine_path(scope: str, name: str) -> str:
    """Return the path of a machine's page, with its scope: names are unique only within a scope."""
    return f"/machines/{quote(scope)}/{quote(name)}"


def _machine_state(machine: MachineInfo) -> str:
    """Describe a machine by the impact in progress, or by its power state."""
    return _IMPACT_STATES.get(machine.doing, machine.doing) if machine.doing else machine.power


def _status_class(machine: MachineInfo) -> str:
    """Return the CSS class for a machine's status; text beside it says the same."""
    if machine.doing or any(event.status == "Started" for event in machine.events):
        return "impacted"
    if machine.events:
        return "scheduled"
    return "" if machine.power == "running" else "off"


def _notice(notice: str | None) -> str:
    return duration(parse_duration(notice)) if notice else "off"


def _sentence(step: ExplanationStepInfo) -> str:
    """Return the step's text with a capital, unless it starts with an actor or a machine."""
    first = step.text.partition(" ")[0].rstrip(",")
    if first in {step.actor, *step.machines}:
        return step.text
    return step.text[:1].upper() + step.text[1:]


def _spaced(did: str) -> str:
    """Split `ImpactBegun` into words: `Impact begun`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", did).capitalize()


def _preview_id(action: str) -> str:
    """Return the element id of a form's preview."""
    return "preview" + re.sub(r"[^A-Za-z0-9_-]", "-", action)

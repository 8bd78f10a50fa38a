"""The Jinja environment of the page, with autoescaping, and its filters."""

import re
from functools import cache
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairwarning.console.api.responses import ExplanationStepInfo, MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.preview import new_key
from fairwarning.core.times import parse_duration

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
        "count": words.count,
        "countdown": words.countdown,
        "epoch": words.epoch,
        "fault": lambda kind: FAULTS.get(kind, kind),
        "kind": lambda kind: KINDS.get(kind, kind),
        "link": link,
        "minutes": lambda notice: parse_duration(notice) // 60 if notice else 5,
        "moment": words.time_of_day,
        "names": words.join_names,
        "notice": _notice,
        "rate": words.clock_rate,
        "sentence": _sentence,
        "duration": words.duration,
        "spaced": _spaced,
        "state": lambda machine: words.machine_state(machine.power, machine.doing),
        "status_class": _status_class,
    }
    env.globals |= {"new_key": new_key, "preview_id": _preview_id}
    return env


def link(machine: MachineInfo) -> str:
    """Return the path of a machine's page."""
    return machine_path(machine.scope, machine.name)


def machine_path(scope: str, name: str) -> str:
    """Return the path of a machine's page, with its scope: names are unique only within a scope."""
    return f"/machines/{quote(scope)}/{quote(name)}"


def _status_class(machine: MachineInfo) -> str:
    """Return the CSS class for a machine's status; text beside it says the same."""
    if machine.doing or any(event.status == "Started" for event in machine.events):
        return "impacted"
    if machine.events:
        return "scheduled"
    return "" if machine.power == "running" else "off"


def _notice(notice: str | None) -> str:
    return words.duration(parse_duration(notice)) if notice else "off"


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

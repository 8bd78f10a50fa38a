"""The one Jinja environment: templates of this package, everything escaped."""

import re
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairwarning.console.api.responses import ExplanationStepInfo, MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.preview import fresh
from fairwarning.core.times import parse_duration

KINDS = {
    "Standalone": "a machine by itself",
    "AvailabilitySet": "availability set",
    "PlacementGroup": "placement group",
    "CloudService": "cloud service",
}
FAULTS = {
    "delay": "answers late",
    "empty": "200 with nothing in it",
    "control": "control characters in the body",
    "truncated": "half a body",
    "404": "404 Not Found",
    "410": "410 Gone",
    "429": "429 Too Many Requests",
    "500": "500 Internal Server Error",
    "reset": "resets the connection",
}


def environment() -> Environment:
    """With the filters that the templates use."""
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
        "moment": words.moment,
        "mood": _mood,
        "names": words.names,
        "notice": _notice,
        "rate": words.rate,
        "sentence": _sentence,
        "span": words.span,
        "spaced": _spaced,
        "state": lambda machine: words.doing(machine.power, machine.doing),
    }
    env.globals |= {"fresh": fresh, "about": _about}
    return env


def link(machine: MachineInfo) -> str:
    """Where a machine is shown. With its scope, since machines of two groups may share a name."""
    return f"/machines/{quote(machine.scope)}/{quote(machine.name)}"


def _mood(machine: MachineInfo) -> str:
    """How a machine is drawn; the words beside it say the same."""
    if machine.doing or any(event.status == "Started" for event in machine.events):
        return "hit"
    if machine.events:
        return "soon"
    return "" if machine.power == "running" else "off"


def _notice(notice: str | None) -> str:
    return words.span(parse_duration(notice)) if notice else "none, it goes at once"


def _sentence(step: ExplanationStepInfo) -> str:
    """Its text with a capital, unless it begins with somebody's name."""
    first = step.text.partition(" ")[0].rstrip(",")
    if first in {step.actor, *step.machines}:
        return step.text
    return step.text[:1].upper() + step.text[1:]


def _spaced(did: str) -> str:
    """`ImpactBegun` as people write it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", did).capitalize()


def _about(action: str) -> str:
    """An id for what is said about a form."""
    return "about" + re.sub(r"[^A-Za-z0-9_-]", "-", action)

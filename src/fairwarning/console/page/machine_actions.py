"""The actions on a machine: which are possible now, which are not, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from fairwarning.console.api import bodies
from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.page import words
from fairwarning.console.page.preview import (
    OperationPreview,
    PreviewInput,
    new_key,
    preview,
)
from fairwarning.console.page.request import PageRequest
from fairwarning.core.errors import Refused
from fairwarning.core.model import Event, EventStatus, Impact, Scope

_DURATION = PreviewInput("duration_seconds", "seconds", "9")
_KIND = PreviewInput(
    "kind",
    "impact",
    "freeze",
    (("freeze", "Freeze"), ("reboot", "Reboot"), ("redeploy", "Redeploy")),
)
_USER = "User operations"
_PLATFORM = "Platform events"
_ACTIONS: tuple[tuple[str, str, str, tuple[PreviewInput, ...]], ...] = (
    (_USER, "restart", "Restart", ()),
    (_USER, "redeploy", "Redeploy", ()),
    (_USER, "reimage", "Reimage", ()),
    (_USER, "stop", "Stop", ()),
    (_USER, "deallocate", "Deallocate", ()),
    (_USER, "start", "Start", ()),
    (_USER, "delete", "Delete", ()),
    (_PLATFORM, "freeze", "Freeze", (_DURATION,)),
    (_PLATFORM, "migrate", "Live migrate", ()),
    (_PLATFORM, "maintain", "Maintain", (_KIND,)),
    (_PLATFORM, "degrade", "Degrade", (PreviewInput("days", "days ahead"),)),
    (_PLATFORM, "evict", "Evict", ()),
    (_PLATFORM, "recommend", "Recommend rebalance", ()),
    (_PLATFORM, "fail", "Fail now", ()),
)
_DANGEROUS = frozenset({"delete", "evict", "fail"})
_NEVER = frozenset({"NotSpot"})
"""Codes of refusals that no change of state would lift."""

LABELS = {action: label for _, action, label, _ in _ACTIONS}


@dataclass(frozen=True)
class Obstacle:
    """Why actions are not possible now, and the page of what is in the way."""

    text: str
    link: str = ""


@dataclass(frozen=True)
class MachineActions:
    """The possible actions by heading, and the others by the reason why they are refused."""

    possible: dict[str, list[OperationPreview]]
    refused: dict[str, list[str]]
    obstacle: Obstacle | None

    @property
    def refused_count(self) -> int:
        """How many actions are not possible now."""
        return sum(len(labels) for labels in self.refused.values())


async def preview_actions(
    request: PageRequest, machine: MachineInfo, scope: Scope
) -> MachineActions:
    """Preview every action on the machine."""
    no_effect = "No effect." if machine.polled else "No effect: no machine in its scope polls."
    possible: dict[str, list[OperationPreview]] = {}
    refused: dict[str, list[str]] = {}
    codes: dict[str, str] = {}  # of refusals, with the first text of each
    for heading, action, label, inputs in _ACTIONS:
        name = f"{machine.scope}/{machine.name}"
        settings = bodies.ActSettings()
        command = await request.api.machine_command(name, action, settings, new_key())
        try:
            text = await preview(request.fleet, command)
        except Refused as error:
            refused.setdefault(error.message, []).append(label)
            codes.setdefault(error.code, error.message)
            continue
        text = text or no_effect  # a recommendation, but no machine polls for it
        kind = "danger" if action in _DANGEROUS else ""
        button = OperationPreview(action, label, text, kind, inputs)
        possible.setdefault(heading, []).append(button)
    return MachineActions(possible, refused, _obstacle(codes, scope, machine.name))


def _obstacle(codes: Mapping[str, str], scope: Scope, name: str) -> Obstacle | None:
    """Return what is in the way of most actions, unless they only suit other machines."""
    impact = scope.impacts.get(name)
    if impact and "MachineBusy" in codes:
        return _unfinished(impact, scope.events.get(impact.event))
    texts = [text for code, text in codes.items() if code not in _NEVER]
    return Obstacle(texts[0][:1].upper() + texts[0][1:]) if texts else None


def _unfinished(impact: Impact, event: Event | None) -> Obstacle:
    if event is None:
        text = f"{impact.machine} is {words.machine_state('', impact.kind)}"
        return Obstacle(text, f"/operations/{quote(impact.operation)}")
    state = "in progress" if event.status is EventStatus.STARTED else "scheduled"
    text = f"{event.type} of {words.join_names(event.resources)} is {state}"
    return Obstacle(text, f"/events/{event.id}")

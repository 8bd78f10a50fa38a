"""The actions on a machine: which are possible now, which are not, and why."""

from dataclasses import dataclass

from fairwarning.console.api import bodies
from fairwarning.console.api.responses import MachineInfo
from fairwarning.console.page.preview import (
    OperationPreview,
    PreviewInput,
    new_key,
    preview,
)
from fairwarning.console.page.request import PageRequest
from fairwarning.core.errors import Bug, Refused

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
LABELS = {action: label for _, action, label, _ in _ACTIONS}


@dataclass(frozen=True)
class MachineActions:
    """The possible actions by heading, and the others by the reason why they are refused."""

    possible: dict[str, list[OperationPreview]]
    refused: dict[str, list[str]]


async def preview_actions(request: PageRequest, machine: MachineInfo) -> MachineActions:
    """Preview every action on the machine."""
    no_effect = "No effect." if machine.polled else "No effect: no machine in its scope polls."
    possible: dict[str, list[OperationPreview]] = {}
    refused: dict[str, list[str]] = {}
    for heading, action, label, inputs in _ACTIONS:
        name = f"{machine.scope}/{machine.name}"
        settings = bodies.ActSettings()
        command = await request.api.machine_command(name, action, settings, new_key())
        try:
            text = await preview(request.fleet, command)
        except (Refused, Bug) as error:
            refused.setdefault(error.message, []).append(label)
            continue
        text = text or no_effect  # a recommendation, but no machine polls for it
        kind = "danger" if action in _DANGEROUS else ""
        button = OperationPreview(action, label, text, kind, inputs)
        possible.setdefault(heading, []).append(button)
    return MachineActions(possible, refused)

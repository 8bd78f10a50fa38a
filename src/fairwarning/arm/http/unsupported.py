"""Actions of Azure that this service refuses by name, with what to do instead."""

from collections.abc import Mapping

from fairwarning.arm.http.errors import ArmError

_MACHINE = "virtualmachines"
_TEXTS: Mapping[tuple[str, str], str] = {
    (_MACHINE, "generalize"): "A machine here has no disk to make an image of.",
    (_MACHINE, "capture"): "A machine here has no disk to make an image of.",
    (_MACHINE, "converttomanageddisks"): "All disks are managed.",
    (_MACHINE, "assesspatches"): "The service has no access to the system of a machine.",
    (_MACHINE, "installpatches"): "The service has no access to the system of a machine.",
    (_MACHINE, "retrievebootdiagnosticsdata"): "A machine here writes no boot diagnostics.",
    ("microsoft.insights", "metrics"): (
        "There are no metrics of machines; GET /metrics of the console has those of the service."
    ),
    ("microsoft.insights", "metricdefinitions"): (
        "There are no metrics of machines; GET /metrics of the console has those of the service."
    ),
}
"""By resource type or namespace and last segment, why the action is refused."""


def refusal(path: str) -> ArmError | None:
    """Return the error for an action that is refused by name; None for any other path."""
    segments = [part for part in path.lower().split("/") if part]
    for kind in segments[-3:-1]:
        if text := _TEXTS.get((kind, segments[-1])):
            message = f"The operation '{segments[-1]}' is not supported. {text}"
            return ArmError("OperationNotAllowed", message, 409)
    return None

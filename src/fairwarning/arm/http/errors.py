"""Refusals as Azure Resource Manager words them: a code that scripts compare, and a sentence."""

from collections.abc import Mapping
from http import HTTPStatus

from fairwarning.core.errors import FairwarningError, Refused

_CODES: Mapping[str, str] = {
    "BadCommand": "InvalidParameter",
    "BeingRemoved": "ResourceGroupBeingDeleted",
    "Changed": "Conflict",
    "MachineBusy": "Conflict",
    "NotEmpty": "OperationNotAllowed",
    "NotEnoughInstances": "OperationNotAllowed",
    "NotRunning": "OperationNotAllowed",
    "NotSpot": "OperationNotAllowed",
    "SetDeleting": "Conflict",
    "TooManyEvents": "TooManyRequests",
    "TooManyOperations": "OperationNotAllowed",
    "UnknownEvent": "ResourceNotFound",
    "UnknownInstance": "InvalidParameter",
    "UnknownMachine": "ResourceNotFound",
    "UnknownResource": "ResourceNotFound",
    "UnknownScope": "ResourceNotFound",
    "UnknownSet": "ResourceNotFound",
}
"""What Azure calls what the rules refuse. The sentences are the rules' own."""

_LONGEST = 900  # characters of a sentence that may hold what the caller sent
_STATUSES = {"UnknownInstance": 400}  # in a body, it is the request that is wrong


class ArmError(Refused):
    """The request is wrong, in Azure's own words."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message)
        self.status = status


def missing(kind: str, name: str, group: str) -> ArmError:
    """There is no such resource."""
    return ArmError(
        "ResourceNotFound",
        f"The Resource '{kind}/{name}' under resource group '{group}' was not found. For more "
        "details please go to https://aka.ms/ARMResourceNotFoundFix",
        404,
    )


def group_missing(group: str) -> ArmError:
    """There is no such resource group."""
    return ArmError("ResourceGroupNotFound", f"Resource group '{group}' could not be found.", 404)


def from_error(error: FairwarningError) -> tuple[int, dict[str, object]]:
    """Status and body of a refusal."""
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # ours: no paths, no insides
        text = "the service cannot take this just now; its log says why. Try again later"
        return 503, body("ServiceUnavailable", text)
    code = error.code if isinstance(error, ArmError) else _CODES.get(error.code, error.code)
    return _STATUSES.get(error.code, error.status), body(code, error.message)


def body(code: str, message: str) -> dict[str, object]:
    """The one shape that every error has."""
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]}..."
    return {"error": {"code": code, "message": message}}

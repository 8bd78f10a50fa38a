"""How an operation goes: the two URLs that every 202 names. They outlive the service (C1, E9)."""

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import RETRY_SECONDS, ArmRequest, answer
from fairwarning.arm.http.routes import ALL_COMPUTE, Route
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.core.record import changed
from fairwarning.core.times import iso

_ERRORS = {
    OperationStatus.FAILED: ("OperationFailed", "The operation could not be carried out."),
    OperationStatus.CANCELED: ("OperationPreempted", "Another operation took its place."),
}


async def show(plane: ArmContext, call: ArmRequest) -> Response:
    """The status document; with `monitor`, 202 until it is over."""
    operation = await _operation(plane, call)
    waits = operation.status is OperationStatus.RUNNING
    headers = {"Retry-After": RETRY_SECONDS} if waits else {}
    if not call.query("monitor"):
        return answer(_status(operation), 200, headers)
    if waits:
        return Response(b"", 202, {**headers, "Location": call.link(call.path, monitor="true")})
    if operation.status in _ERRORS:
        return answer({"error": _error(operation)}, 409)
    return Response(b"", 200)


async def _operation(plane: ArmContext, call: ArmRequest) -> Operation:
    operation = await plane.fleet.reader.read(Operation, call.name)
    own = not call.principal.group or (operation and operation.actor == call.actor)
    if operation is None or not own:
        text = f"The operation '{call.name[:60]}' was not found."
        raise ArmError("NotFound", text, 404)
    if plane.settings.ends_at_acceptance and operation.status is OperationStatus.RUNNING:
        return changed(operation, status=OperationStatus.SUCCEEDED, ended_at=operation.accepted_at)
    return operation


def _status(operation: Operation) -> dict[str, object]:
    status: dict[str, object] = {
        "name": operation.id,
        "startTime": iso(int(operation.accepted_at)),
        "status": operation.status.value,
    }
    if operation.ended_at is not None:
        status["endTime"] = iso(int(operation.ended_at))
    if operation.status in _ERRORS:
        status["error"] = _error(operation)
    return status


def _error(operation: Operation) -> object:
    code, message = _ERRORS[operation.status]
    return errors.body(code, f"{message} {operation.error}".strip())["error"]


ROUTES = (Route("GET", f"{ALL_COMPUTE}/locations/{{location}}/operations/{{name}}", show),)

"""The polling URLs of operations, which stay valid when the service restarts (C1, E9)."""

from starlette.responses import Response

from fairwarning.arm.http import errors
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import RETRY_SECONDS, ArmRequest, json_response
from fairwarning.arm.http.routes import ALL_COMPUTE, Route
from fairwarning.arm.types.context import ArmContext
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.core.record import changed
from fairwarning.core.times import iso

_ERRORS = {
    OperationStatus.FAILED: ("OperationFailed", "The operation could not be carried out."),
    OperationStatus.CANCELED: ("OperationPreempted", "Another operation replaced this one."),
}


async def show(context: ArmContext, request: ArmRequest) -> Response:
    """Return the status document; with `monitor`, return 202 until the operation finishes."""
    operation = await _operation(context, request)
    running = operation.status is OperationStatus.RUNNING
    headers = {"Retry-After": RETRY_SECONDS} if running else {}
    if not request.query("monitor"):
        return json_response(_status(operation), 200, headers)
    if running:
        return Response(
            b"", 202, {**headers, "Location": request.link(request.path, {"monitor": "true"})}
        )
    if operation.status in _ERRORS:
        return json_response({"error": _error(operation)}, 409)
    return Response(b"", 200)


async def _operation(context: ArmContext, request: ArmRequest) -> Operation:
    operation = await context.fleet.reader.read(Operation, request.name)
    own = request.principal.group.lower()
    allowed = not own or (operation and operation.group.lower() == own)
    if operation is None or not allowed:
        raise azure_error("NotFound", name=request.name[:60])
    if context.settings.ends_at_acceptance and operation.status is OperationStatus.RUNNING:
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
    reason = errors.with_names(operation.error)
    return errors.error_body(code, f"{message} {reason}".strip())["error"]


ROUTES = (
    # Polled with the api-version of the request that started the operation, of any provider.
    Route(
        "GET", f"{ALL_COMPUTE}/locations/{{location}}/operations/{{name}}", show, any_version=True
    ),
)

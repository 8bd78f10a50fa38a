"""One request to the control plane, once it is known who asks, for what, and in which version."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairwarning.arm.http.errors import ArmError
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.service.tokens import Principal

Body = dict[str, Any]
"""A JSON object."""

BODY_BYTES = 4 * 1024 * 1024  # what Azure takes
RETRY_SECONDS = "1"
_VERSION = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(-[a-z]{1,20})?", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9.\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_encode = msgspec.json.Encoder().encode


class ArmRequest:
    """A request to the control plane."""

    def __init__(
        self, request: Request, params: dict[str, str], principal: Principal, version: str = ""
    ) -> None:
        self.request = request
        self.params = params
        self.principal = principal
        self.version = version

    @property
    def path(self) -> str:
        """What was asked for. (A URL whole cannot be had of every request: queries are bytes.)"""
        path: str = self.request.scope["path"]
        return path

    @property
    def group(self) -> str:
        """The resource group that the path names."""
        return self.params["group"]

    @property
    def name(self) -> str:
        """The resource that the path names."""
        return self.params["name"]

    @property
    def actor(self) -> str:
        """Who asks, for the journal."""
        return self.principal.name

    def query(self, name: str) -> str:
        """A parameter of the query, whose name is compared without case."""
        for key, value in self.request.query_params.multi_items():
            if key.lower() == name:
                return value
        return ""

    async def body(self) -> Body:
        """The JSON object that was sent; nothing at all is an empty one."""
        return await read_body(self.request)

    def link(self, path: str, **query: str) -> str:
        """A URL of this service, as whoever asks here can reach it."""
        return self.link_with(path, query)

    def link_with(self, path: str, query: Mapping[str, str]) -> str:
        """The same, with parameters of any name."""
        return f"{base_url(self.request)}{path}?{urlencode({**query, 'api-version': self.version})}"


def version_of(request: Request) -> str:
    """The api-version that was asked for: a date, and perhaps a suffix."""
    given = [v for k, v in request.query_params.multi_items() if k.lower() == "api-version"]
    if not given or not given[0]:
        raise ArmError(
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        )
    if len(given) > 1 or not _VERSION.fullmatch(given[0]):
        raise ArmError(
            "InvalidApiVersionParameter",
            f"The api-version '{given[0][:40]}' is invalid. It is a date such as 2024-11-01, or "
            "one with a suffix such as 2024-11-01-preview.",
        )
    return given[0]


def base_url(request: Request) -> str:
    """How the caller calls us."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        raise ArmError("InvalidHost", "The Host header must name this service.")
    return f"https://{host}"


async def read_body(request: Request) -> Body:
    """A request's JSON object."""
    raw = await read_bytes(request)
    try:
        body: Body = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArmError(
            "InvalidRequestContent",
            "The request content was invalid and could not be deserialized: a JSON object is due.",
        ) from error
    return body


async def read_bytes(request: Request) -> bytes:
    """A request's body, bounded."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > BODY_BYTES:
            text = f"The request content has more than {BODY_BYTES} bytes."
            raise ArmError("RequestContentTooLarge", text, 413)
    return bytes(raw)


# --- Answers --------------------------------------------------------------------------------------


def answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON."""
    return Response(_encode(body), status, headers, "application/json; charset=utf-8")


def accepted(call: ArmRequest, operation: Operation | None, location: str) -> Response:
    """202: where to ask how it goes. Clients take either URL, and wait as long as they are told."""
    assert operation is not None
    return Response(b"", 202, operation_headers(call, operation, location))


def operation_headers(call: ArmRequest, operation: Operation, location: str) -> dict[str, str]:
    """Where to ask how an operation goes."""
    path = (
        f"/subscriptions/{call.params['subscription']}/providers/Microsoft.Compute"
        f"/locations/{location}/operations/{operation.id}"
    )
    return {
        "Azure-AsyncOperation": call.link(path),
        "Location": call.link(path, monitor="true"),
        "Azure-AsyncNotification": "Enabled",
        "Retry-After": RETRY_SECONDS,
        "x-ms-request-id": operation.id,
    }


def is_over(operation: Operation) -> bool:
    """Whether nothing more will come of it."""
    return operation.status is not OperationStatus.RUNNING

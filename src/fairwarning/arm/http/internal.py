"""Requests of the control plane to itself, with the token of the client that caused them.

A deployment writes and reads resources of any type this way: each request is authorized and
checked like one of the client's own.
"""

from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from fairwarning.arm.http import errors
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, Body
from fairwarning.arm.http.routes import RouteTable
from fairwarning.core.errors import FairwarningError

_HEADERS = frozenset({b"authorization", b"host"})


class Application(Protocol):
    """The application that the server has put into the scope of the request."""

    table: RouteTable

    async def answer(self, http: Request) -> Response:
        """Answer an HTTP request."""


def application_of(request: ArmRequest) -> Application:
    """Return the application that handles this request."""
    app: Application = request.http.scope["app"]
    return app


async def call(
    request: ArmRequest,
    method: str,
    path: str,
    version: str,
    body: Body | None = None,
    **query: str,
) -> tuple[int, Any]:
    """Send a request on behalf of a client, and return the status and the JSON of the response."""
    content = b"" if body is None else msgspec.json.encode(body)

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    scope = {
        **request.http.scope,
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": urlencode({**query, "api-version": version}).encode(),
        "headers": [pair for pair in request.http.scope["headers"] if pair[0] in _HEADERS],
    }
    try:
        response = await application_of(request).answer(Request(scope, receive))
    except FairwarningError as error:
        return errors.from_error(error)
    return response.status_code, msgspec.json.decode(response.body or b"{}")


async def require(request: ArmRequest, method: str, path: str, version: str, **more: Any) -> Body:  # noqa: ANN401  (the arguments of `call`)
    """Send a request that must succeed, and return the JSON of its response."""
    status, document = await call(request, method, path, version, **more)
    if status >= HTTPStatus.BAD_REQUEST:
        raise ArmError(document["error"]["code"], document["error"]["message"], status)
    body: Body = document
    return body

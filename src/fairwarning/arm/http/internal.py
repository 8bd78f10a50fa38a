"""Requests of the control plane to itself, with the token of the client that caused them.

A batch has requests of a client, and a deployment writes and reads resources of any type: each
request is authorized and checked like one that the client sends by itself.
"""

from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest

_HEADERS = frozenset({b"authorization", b"host", b"accept-language"})
_INSIDE = "fairwarning.inside"  # marks the ASGI scope of such a request


class Application(Protocol):
    """The application that the server has put into the scope of the request."""

    async def answer(self, request: Request) -> Response:
        """Answer an HTTP request, also if it is refused or fails."""


def is_internal(request: ArmRequest) -> bool:
    """Whether the control plane has sent this request to itself."""
    return _INSIDE in request.http.scope


async def send(
    request: ArmRequest, method: str, path: str, query: str, content: object = None
) -> Response:
    """Send a request on behalf of a client, and return the response."""
    body = b"" if content is None else msgspec.json.encode(content)

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    outer = request.http.scope
    scope = {
        **outer,
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": [pair for pair in outer["headers"] if pair[0] in _HEADERS],
        _INSIDE: True,
    }
    app: Application = outer["app"]
    return await app.answer(Request(scope, receive))


async def require(
    request: ArmRequest, method: str, path: str, version: str, *, body: object = None
) -> tuple[int, dict[str, Any]]:
    """Send a request that must succeed, and return the status and the JSON of its response."""
    response = await send(request, method, path, urlencode({"api-version": version}), body)
    document = msgspec.json.decode(response.body or b"{}")
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        error = document["error"]
        raise ArmError(error["code"], error["message"], response.status_code)
    return response.status_code, document

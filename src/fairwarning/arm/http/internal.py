"""Requests of the control plane to itself: those of a deployment, and of `POST /batch` (C2).

Each request is authorized and checked like one that the client sends by itself. Ansible's
inventory, the portal, Azure PowerShell and Cloud Custodian read many resources in a batch.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message

from fairwarning.arm.http.errors import ArmError, error_body
from fairwarning.arm.http.request import BODY_BYTES, ArmRequest, Body, json_response
from fairwarning.arm.http.routes import Route

_HEADERS = frozenset({b"authorization", b"host", b"accept-language"})
REQUESTS_MAX = 500  # in one batch, as on Azure
UNNAMED_MAX = 20  # in a longer batch, each request needs a name
METHODS = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")
_INSIDE = "fairwarning.inside"  # marks the ASGI scope of such a request


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
    answer: Callable[[Request], Awaitable[Response]] = outer["app"].answer
    return await answer(Request(scope, receive))


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


async def _answer_each(_context: object, request: ArmRequest) -> Response:
    if _INSIDE in request.http.scope:
        raise _invalid("A batch cannot contain a batch.")
    responses: list[Body] = []
    length = 0
    for entry in _entries(await request.body()):
        if await request.http.is_disconnected():
            raise ClientDisconnect
        response = await _response(request, entry, is_full=length > BODY_BYTES)
        length += response["contentLength"]
        responses.append(response)
    return json_response({"responses": responses})


def _invalid(text: str) -> ArmError:
    return ArmError("InvalidBatchRequest", text)


def _entries(body: Body) -> list[Body]:
    """Return the requests of a batch; refuse all of them if one is not well-formed."""
    entries = body.get("requests")
    if not isinstance(entries, list) or not 1 <= len(entries) <= REQUESTS_MAX:
        raise _invalid(f"The parameter 'requests' must be a list of 1 to {REQUESTS_MAX} requests.")
    members = ("httpMethod", "url", "name")[: 2 if len(entries) <= UNNAMED_MAX else 3]
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise _invalid(f"Request {number} must be an object.")
        for member in members:
            if not isinstance(entry.get(member), str):
                raise _invalid(f"Request {number} must have the string '{member}'.")
        if entry["httpMethod"].upper() not in METHODS:
            methods = ", ".join(METHODS)
            raise _invalid(f"The httpMethod of request {number} must be one of {methods}.")
    return entries


async def _response(request: ArmRequest, entry: Body, *, is_full: bool) -> Body:
    url = entry["url"]
    if is_full:
        text = "The responses before this one are too long; send the request in another batch."
        response = json_response(error_body("ResponseContentTooLarge", text), 413)
    elif not url.startswith("/") and not url.lower().startswith(f"{request.base_url.lower()}/"):
        text = f"The url must begin with '/' or with {request.base_url}/."
        response = json_response(error_body("InvalidBatchRequest", text), 400)
    else:
        path, _, query = url.partition("?")
        path = unquote(path if path.startswith("/") else urlsplit(path).path)
        method = entry["httpMethod"].upper()
        response = await send(request, method, path, query, entry.get("content"))
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return {
        **({"name": entry["name"]} if isinstance(entry.get("name"), str) else {}),
        "httpStatusCode": response.status_code,
        "headers": headers,
        **({"content": msgspec.Raw(response.body)} if response.body else {}),
        "contentLength": len(response.body),
    }


ROUTES = (Route("POST", "/batch", _answer_each, reads_only=True, has_parts=True),)

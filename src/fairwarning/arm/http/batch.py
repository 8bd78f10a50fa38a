"""`POST /batch`: several requests in one, each authorized and answered by itself (C2).

The portal, Azure PowerShell and Cloud Custodian read many resources with it.
"""

from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from fairwarning.arm.http.errors import ArmError, error_body
from fairwarning.arm.http.internal import application_of
from fairwarning.arm.http.request import ArmRequest, Body, json_response
from fairwarning.arm.http.routes import Route

REQUESTS_MAX = 500  # in one batch, as on Azure
UNNAMED_MAX = 20  # in a longer batch, each request needs a name
METHODS = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")
_INSIDE = "fairwarning.batch"  # marks the ASGI scope of a request in a batch
_KEPT_HEADERS = (b"authorization", b"host", b"accept-language")


async def _answer_each(_context: object, request: ArmRequest) -> Response:
    """Answer every request of a batch."""
    if _INSIDE in request.http.scope:
        raise ArmError("InvalidBatchRequest", "A batch cannot contain a batch.")
    entries = _entries(await request.body())
    responses = [await _response(request, entry) for entry in entries]
    return json_response({"responses": responses})


ROUTES = (Route("POST", "/batch", _answer_each, reads_only=True),)


def _entries(body: Body) -> list[Body]:
    """Return the requests of a batch; refuse all of them if one is not well-formed."""
    entries = body.get("requests")
    if not isinstance(entries, list) or not 1 <= len(entries) <= REQUESTS_MAX:
        text = f"The parameter 'requests' must be a list of 1 to {REQUESTS_MAX} requests."
        raise ArmError("InvalidBatchRequest", text)
    members = (
        ("httpMethod", "url") if len(entries) <= UNNAMED_MAX else ("httpMethod", "url", "name")
    )
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ArmError("InvalidBatchRequest", f"Request {number} must be an object.")
        for member in members:
            if not isinstance(entry.get(member), str):
                text = f"Request {number} must have the string '{member}'."
                raise ArmError("InvalidBatchRequest", text)
        if entry["httpMethod"].upper() not in METHODS:
            text = f"The httpMethod of request {number} must be one of {', '.join(METHODS)}."
            raise ArmError("InvalidBatchRequest", text)
    return entries


async def _response(request: ArmRequest, entry: Body) -> Body:
    url = entry["url"]
    if not url.startswith("/") and not url.lower().startswith(f"{request.base_url.lower()}/"):
        text = f"The url must begin with '/' or with {request.base_url}/."
        response = json_response(error_body("InvalidBatchRequest", text), 400)
    else:
        response = await application_of(request).answer(_request(request.http, entry))
    content = msgspec.json.decode(response.body) if response.body else None
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    name = {"name": entry["name"]} if isinstance(entry.get("name"), str) else {}
    return {
        **name,
        "httpStatusCode": response.status_code,
        "headers": headers,
        **({"content": content} if content is not None else {}),
        "contentLength": len(response.body),
    }


def _request(outer: Request, entry: Body) -> Request:
    """Return a request of the batch, with the token of the batch."""
    path, _, query = entry["url"].partition("?")
    if not path.startswith("/"):
        path = urlsplit(path).path
    content: Any = entry.get("content")
    body = b"" if content is None else msgspec.json.encode(content)
    headers = [(name, value) for name, value in outer.scope["headers"] if name in _KEPT_HEADERS]
    scope = {
        **outer.scope,
        "method": entry["httpMethod"].upper(),
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [*headers, (b"content-type", b"application/json")],
        _INSIDE: True,
    }
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return parts.pop() if parts else {"type": "http.disconnect"}

    return Request(scope, receive)

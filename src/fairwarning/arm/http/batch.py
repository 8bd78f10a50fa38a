"""`POST /batch`: several requests in one, each authorized and answered by itself (C2).

Ansible's inventory, the portal, Azure PowerShell and Cloud Custodian read many resources with it.
"""

from urllib.parse import unquote, urlsplit

import msgspec
from starlette.responses import Response

from fairwarning.arm.http import internal
from fairwarning.arm.http.errors import ArmError, error_body
from fairwarning.arm.http.request import BODY_BYTES, ArmRequest, Body, json_response
from fairwarning.arm.http.routes import Route

REQUESTS_MAX = 500  # in one batch, as on Azure
UNNAMED_MAX = 20  # in a longer batch, each request needs a name
METHODS = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")


async def _answer_each(_context: object, request: ArmRequest) -> Response:
    if internal.is_internal(request):
        raise _invalid("A batch cannot contain a batch.")
    responses: list[Body] = []
    length = 0
    for entry in _entries(await request.body()):
        response = await _response(request, entry, is_full=length > BODY_BYTES)
        length += response["contentLength"]
        responses.append(response)
    return json_response({"responses": responses})


ROUTES = (Route("POST", "/batch", _answer_each, reads_only=True),)


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
        response = await internal.send(request, method, path, query, entry.get("content"))
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return {
        **({"name": entry["name"]} if isinstance(entry.get("name"), str) else {}),
        "httpStatusCode": response.status_code,
        "headers": headers,
        **({"content": msgspec.Raw(response.body)} if response.body else {}),
        "contentLength": len(response.body),
    }

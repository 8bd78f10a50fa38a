"""The API over HTTP: each request is somebody's, bounded, and answered in JSON."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.console.api import Api, bodies, openapi
from fairwarning.console.api.endpoints import ENDPOINTS, ApiEndpoint, ApiRequest
from fairwarning.console.api.part import read
from fairwarning.console.api.stream import stream
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.service.tokens import Principal, Tokens

Handler = Callable[[Request, Principal], Awaitable[Response]]

_BODY_BYTES = 64 * 1024
_json = msgspec.json.Encoder().encode
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Routes:
    """Every route of the API; each demands a token."""

    def __init__(self, api: Api, tokens: Tokens, closing: Callable[[], bool]) -> None:
        self._api = api
        self._tokens = tokens
        self._closing = closing

    def all(self) -> list[Route]:
        """In the order in which they are to be tried."""
        return [
            self._route("GET", openapi.PATH, self._document),
            self._route("GET", openapi.STREAM, self._stream),
            *(self._route(one.method, one.path, self._handler(one)) for one in ENDPOINTS),
        ]

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        async def guarded(request: Request) -> Response:
            try:
                return await handler(request, access.check(request, self._tokens))
            except FairwarningError as error:
                return refusal(error)

        return Route(path, guarded, methods=[method])

    def _handler(self, one: ApiEndpoint) -> Handler:
        async def handle(request: Request, principal: Principal) -> Response:
            settings = await _settings(request) if one.body else {}
            if one.body is bodies.NoSettings:
                read(one.body, settings)
            answer = await one.call(self._api, ApiRequest(request, settings, principal.name))
            if one.answer is None:
                return Response(status_code=one.status, headers=NO_STORE)
            return Response(_json(answer), one.status, NO_STORE, "application/json")

        return handle

    async def _document(self, _: Request, __: Principal) -> Response:
        return JSONResponse(openapi.document(), headers=NO_STORE)

    async def _stream(self, request: Request, principal: Principal) -> Response:
        ask = ApiRequest(request, {}, principal.name)
        last = request.headers.get("last-event-id", "")
        known = re.fullmatch("[0-9]{1,18}", last, re.ASCII)
        after = int(last) if known else ask.number("after") if ask.text("after") else None
        lines = stream(self._api, after, self._closing)
        return StreamingResponse(lines, media_type="text/event-stream", headers=NO_STORE)


def refusal(error: FairwarningError) -> Response:
    """Why not, as JSON."""
    told = {"code": error.code, "message": error.message}
    return JSONResponse({"error": told}, error.status, NO_STORE)


async def _settings(request: Request) -> Mapping[str, Any]:
    """The request's JSON object; nothing at all is an empty one."""
    raw = b""
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > _BODY_BYTES:
                raise Refused("BadBody", f"a body has at most {_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise Refused("BadBody", "the body did not come whole") from None
    try:
        body: Mapping[str, Any] = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refused("BadBody", "the body must be a JSON object") from error
    return body

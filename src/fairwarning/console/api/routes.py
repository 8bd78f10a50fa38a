"""The API over HTTP: every request is authenticated, bounded, and answered in JSON."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.console.api import ENDPOINTS, Api, openapi
from fairwarning.console.api.endpoints import ApiEndpoint, ApiRequest
from fairwarning.console.api.section import Settings
from fairwarning.console.api.stream import stream
from fairwarning.console.request_body import read_body
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.tokens import TokenClaims

Handler = Callable[[Request, TokenClaims, Settings], Awaitable[Response]]

_BODY_BYTES = 64 * 1024
_json = msgspec.json.Encoder().encode
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Routes:
    """The routes of the API. Each requires a token."""

    def __init__(self, api: Api, tokens: IssuedTokens, closing: Callable[[], bool]) -> None:
        self._api = api
        self._tokens = tokens
        self._closing = closing

    def all(self) -> list[Route]:
        """Return the routes in matching order."""
        return [
            self._route("GET", openapi.PATH, self._document),
            self._route("GET", openapi.STREAM, self._stream),
            *(
                self._route(
                    endpoint.method,
                    endpoint.path,
                    self._handler(endpoint),
                    has_body=bool(endpoint.body),
                )
                for endpoint in ENDPOINTS
            ),
        ]

    def _route(self, method: str, path: str, handler: Handler, *, has_body: bool = False) -> Route:
        async def authorized(request: Request) -> Response:
            try:
                token = access.authorize(request, self._tokens.verifier)
                share = self._api.fleet.reader.share
                if method != "GET":
                    settings: Settings = {}
                    if has_body:  # it may be slow: no read waits for it
                        settings = await _settings(request)
                        token = access.authorize(request, self._tokens.verifier)  # is still allowed
                    with share.write():
                        return await handler(request, token, settings)
                async with share.enter(token.principal.name, request.receive):
                    return await handler(request, token, {})
            except FairwarningError as error:
                return error_response(error)

        return Route(path, authorized, methods=[method])

    def _handler(self, endpoint: ApiEndpoint) -> Handler:
        async def handle(request: Request, token: TokenClaims, settings: Settings) -> Response:
            result = await endpoint.handle(self._api, ApiRequest(request, settings, token))
            if endpoint.response is None:
                return Response(status_code=endpoint.status, headers=NO_STORE)
            return Response(_json(result), endpoint.status, NO_STORE, "application/json")

        return handle

    async def _document(self, *_: object) -> Response:
        return Response(openapi.rendered(), headers=NO_STORE, media_type="application/json")

    async def _stream(self, request: Request, token: TokenClaims, _: Settings) -> Response:
        api_request = ApiRequest(request, {}, token)
        last = request.headers.get("last-event-id", "")
        if re.fullmatch("[0-9]{1,18}", last, re.ASCII):
            after: int | None = int(last)
        else:
            after = api_request.query_number("after") if api_request.query("after") else None
        brief = api_request.query("brief") == "true"
        lines = stream(self._api, after, token, self._closing, brief=brief)
        return StreamingResponse(lines, media_type="text/event-stream", headers=NO_STORE)


def error_response(error: FairwarningError) -> Response:
    """Return the error as a JSON response."""
    detail = {"code": error.code, "message": error.message}
    return JSONResponse({"error": detail}, error.status, NO_STORE | access.retry_header(error))


async def _settings(request: Request) -> Settings:
    """Return the JSON object in the request body; an empty body counts as an empty object."""
    raw = await read_body(request, _BODY_BYTES, "BadBody")
    try:
        body: Settings = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refused("BadBody", "the body must be a JSON object") from error
    return body

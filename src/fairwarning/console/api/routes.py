"""The API over HTTP: every request is authenticated, bounded, and answered in JSON."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fairwarning.console import access
from fairwarning.console.api import ENDPOINTS, Api, openapi
from fairwarning.console.api.endpoints import ApiEndpoint, ApiRequest
from fairwarning.console.api.filters import whole_number
from fairwarning.console.api.section import Settings
from fairwarning.console.api.stream import stream
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.service.tokens import TokenClaims

Handler = Callable[[Request, TokenClaims, Settings], Awaitable[Response]]

_BODY_BYTES = 64 * 1024
_json = msgspec.json.Encoder().encode


class Routes:
    """The routes of the API. Each requires a token."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._tokens = api.parts.tokens.verifier

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
                token = access.authorize(request, self._tokens)
                share = self._api.fleet.reader.share
                if method != "GET":
                    settings: Settings = {}
                    if has_body:  # it may be slow: no read waits for it
                        settings = await _settings(request)
                        token = access.authorize(request, self._tokens)  # is still allowed
                    with share.write():
                        return await handler(request, token, settings)
                async with share.enter(token.principal.name, request.receive):
                    return await handler(request, token, {})
            except FairwarningError as error:
                return access.error_response(error)

        return Route(path, authorized, methods=[method])

    def _handler(self, endpoint: ApiEndpoint) -> Handler:
        async def handle(request: Request, token: TokenClaims, settings: Settings) -> Response:
            result = await endpoint.handle(self._api, ApiRequest(request, settings, token))
            if endpoint.response is None:
                return Response(status_code=endpoint.status, headers=access.NO_STORE)
            return Response(_json(result), endpoint.status, access.NO_STORE, "application/json")

        return handle

    async def _document(self, *_: object) -> Response:
        return Response(openapi.rendered(), headers=access.NO_STORE, media_type="application/json")

    async def _stream(self, request: Request, token: TokenClaims, _: Settings) -> Response:
        api_request = ApiRequest(request, {}, token)
        after = whole_number(request.headers.get("last-event-id", ""))
        if after is None and api_request.query("after"):
            after = api_request.query_number("after")
        brief = api_request.query("brief") == "true"
        lines = stream(self._api, after, token, brief=brief)
        return StreamingResponse(lines, media_type="text/event-stream", headers=access.NO_STORE)


async def _settings(request: Request) -> Settings:
    """Return the JSON object in the request body; an empty body counts as an empty object."""
    raw = await read_body(request, _BODY_BYTES, "BadBody")
    try:
        body: Settings = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refused("BadBody", "the body must be a JSON object") from error
    return body


async def read_body(request: Request, most: int, code: str) -> bytes:
    """Return a body of at most so many bytes; `code` is that of the refusal of another."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Refused(code, f"the request is too large; send at most {most} bytes")
    except ClientDisconnect:
        raise Refused(code, "the client disconnected before the request was complete") from None
    return body

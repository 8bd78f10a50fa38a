"""The control plane as an ASGI application: authentication, authorization and routing (C3)."""

import logging
from contextlib import nullcontext
from functools import cache, lru_cache
from http import HTTPStatus
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairwarning.arm import login
from fairwarning.arm.compute import actions, images, set_network, targets
from fairwarning.arm.http import errors, internal
from fairwarning.arm.http.azure_id import ResourcePath, parse_path
from fairwarning.arm.http.errors import ArmError, azure_error
from fairwarning.arm.http.listing import refuse_ignored
from fairwarning.arm.http.request import (
    ArmRequest,
    OwnHosts,
    api_version,
    check_api_version,
    json_response,
)
from fairwarning.arm.http.routes import Route, RouteMatch, RouteTable
from fairwarning.arm.registry import TYPES
from fairwarning.arm.resources import deployments, groups, locks, operations, subscriptions, tags
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.handlers import find_handler
from fairwarning.core.errors import FairwarningError
from fairwarning.service.config.settings import ArmSettings, CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.read_share import CallerGone
from fairwarning.service.tokens import (
    Forbidden,
    Principal,
    Role,
    TokenClaims,
    TokenUse,
    Unauthorized,
)

log = logging.getLogger(__name__)

MODULES = (
    login, subscriptions, groups, images, deployments, operations, tags, set_network, actions,
    internal,
)  # fmt: skip
"""The modules that have routes of their own, beside those of the resource types."""
_RECEIVE = "fairwarning.receive"  # in the scope of a client's request, before it is handled
_PATHS = 256  # whose routes are kept
ANONYMOUS = Principal(name="nobody", role=Role.READER)
"""The principal of a public route."""


def application(
    fleet: Fleet, cloud: CloudSettings, tokens: IssuedTokens, settings: ArmSettings | None = None
) -> "ArmApplication":
    """Return the control plane of one service."""
    return ArmApplication(ArmContext(fleet, cloud, settings or ArmSettings(), tokens, TYPES))


@cache
def route_table() -> RouteTable:
    """Return all routes, prepared once for all services of this process."""
    return RouteTable(route for module in MODULES for route in module.ROUTES)


class ArmApplication:
    """Authenticates every request, checks its permissions and calls its handler."""

    def __init__(self, context: ArmContext) -> None:
        self.context = context
        self._hosts = OwnHosts(context.settings.hosts)
        self.table = route_table()
        self._find = lru_cache(_PATHS)(self._match)  # clients read the same again and again

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        scope["app"] = self  # for `http.internal`
        scope[_RECEIVE] = receive
        request = Request(scope, receive)
        try:
            response = await self.answer(request)
        except (ClientDisconnect, CallerGone):
            return
        if request.method == "HEAD":
            response.body = b""  # the headers stay those of the response to GET
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """Return the response to a request, also if it is refused or fails."""
        try:
            response = await self._dispatch(request)
        except (ClientDisconnect, CallerGone):
            raise
        except FairwarningError as error:
            response = _error_response(error)
        except Exception:
            log.exception("request failed: %s %s", request.method, request.scope["path"])
            response = _error_response(FairwarningError("Bug", ""))
        raw = response.raw_headers
        raw.append((b"cache-control", b"no-store"))
        if not any(name == b"x-ms-request-id" for name, _ in raw):
            raw.append((b"x-ms-request-id", str(uuid4()).encode()))
        return response

    async def _dispatch(self, http: Request) -> Response:
        if ",".join(http.headers.getlist("transfer-encoding")).lower() not in {"", "chunked"}:
            raise azure_error("InvalidRequestContent/coding")
        match, path = self._find(http.method, http.scope["path"])
        if isinstance(match, RouteMatch) and match.route.public:
            request = ArmRequest(http, match.params, ANONYMOUS, self._hosts.base_url(http))
            return await match.route.handler(self.context, request)
        token = self._token(http)
        if isinstance(match, ArmError):
            raise ArmError(match.code, match.message, match.status)  # the match is kept
        version = api_version(http)
        base_url = self._hosts.base_url(http)  # refuses an invalid Host
        request = ArmRequest(http, match.params, token.principal, base_url, version, target=path)
        self._check(request, match)
        if not match.route.any_version:
            check_api_version(match.route.kind, version, self.context.cloud.location)
        response = await self._handle(request, match.route)
        if not match.route.writes:
            refuse_ignored(request)
        if http.method == "HEAD" and match.route.is_item:
            return Response(b"", HTTPStatus.NO_CONTENT)  # the resource exists
        return response

    def _token(self, http: Request) -> TokenClaims:
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            text = "Authentication failed. The 'Authorization' header is missing."
            raise Unauthorized("AuthenticationFailed", text)
        return self.context.tokens.verifier.read(token.strip(), TokenUse.ARM, TokenUse.API)

    async def _handle(self, request: ArmRequest, route: Route) -> Response:
        """Call the handler, in its lane; a part of a request that writes stays in that one's."""
        share = self.context.fleet.reader.share
        if route.has_parts:
            return await route.handler(self.context, request)
        receive = request.http.scope.pop(_RECEIVE, None)
        if route.writes:
            await request.read()  # a client may send slowly: reads go on
            self._token(request.http)  # it may have been revoked meanwhile
            with share.write():
                return await self._call(request, route)
        async with share.enter(request.principal.name, receive) if receive else nullcontext():
            return await self._call(request, route)

    async def _call(self, request: ArmRequest, route: Route) -> Response:
        """Call the handler of the canonical path, if no lock forbids it."""
        path = await targets.canonical_path(self.context, request.path)
        if path != request.path:
            match, request.target = self._find(request.http.method, path)
            assert isinstance(match, RouteMatch)  # as before
            route, request.params = match.route, match.params
        if route.writes and request.target:
            await locks.check(self.context, request)
        return await route.handler(self.context, request)

    def _match(self, method: str, text: str) -> tuple[RouteMatch | ArmError, ResourcePath | None]:
        """Return the route of a request, or why there is none, and the resource of its path."""
        match, path = self.table.find(method, text), parse_path(text)
        if isinstance(match, RouteMatch):
            return match, path
        try:
            if path is None or match or not (path.id.kind or path.member):
                raise _no_route(method, text, match)
            return self._resource_match(method, path), path
        except ArmError as error:
            return error, path

    def _resource_match(self, method: str, path: ResourcePath) -> RouteMatch:
        """Return the route of a request to a resource, a list of resources, or for an action."""
        id_, types = path.id, self.context.types
        is_list = path.member and method != "POST"
        kind = types.canonical(path.listed_kind if is_list else id_.kind)
        end = "" if is_list else f"/{{name}}/{path.member}".rstrip("/")
        route = Route(
            method,
            f"/providers/{kind}{end}",
            find_handler(self.context, method, path),
            reads_only=method == "POST" and path.member.lower().startswith("list"),
            subscription_wide=not id_.group and bool(id_.kind),
            any_version=not (types.acts(kind) or types.get(id_.kind)),
        )
        params = {"subscription": id_.subscription, "group": id_.group, "name": id_.names[-1]}
        return RouteMatch(route, params)

    def _check(self, request: ArmRequest, match: RouteMatch) -> None:
        """Refuse another subscription, a group outside the principal's scope, and reader writes."""
        subscription, group = match.params.get("subscription"), match.params.get("group")
        if subscription and subscription.lower() != self.context.cloud.subscription.lower():
            raise azure_error("SubscriptionNotFound", subscription=subscription[:80])
        own = request.principal.group
        foreign = own and (
            match.route.subscription_wide or (group and own.lower() != group.lower())
        )
        reads_only = request.principal.role is Role.READER and match.route.writes
        if foreign or reads_only:
            raise Forbidden(
                "AuthorizationFailed",
                f"The client '{request.principal.name}' does not have authorization to perform "
                f"action '{match.route.action}' over scope '{request.path}'.",
            )


def _no_route(method: str, path: str, allowed: set[str]) -> ArmError:
    if allowed:
        return azure_error("MethodNotAllowed", method=method, methods=", ".join(sorted(allowed)))
    return azure_error("InvalidResourceType/path", path=path[:200])


def _error_response(error: FairwarningError) -> Response:
    status, body = errors.from_error(error)
    headers = {}
    if status == Unauthorized.status:
        headers["WWW-Authenticate"] = 'Bearer realm="fairwarning"'
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "5"
    return json_response(body, status, headers)

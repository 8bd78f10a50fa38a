"""The control plane as an ASGI application: who asks, may they, and which handler answers (C3)."""

import logging
import uuid
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairwarning.arm import (
    availability,
    cloudservices,
    deployments,
    errors,
    groups,
    images,
    instances,
    login,
    machines,
    maintenance,
    network,
    operations,
    scalesets,
    subscriptions,
)
from fairwarning.arm.call import Call, answer, base_url, version_of
from fairwarning.arm.errors import Wrong
from fairwarning.arm.plane import Plane
from fairwarning.arm.routes import Match, Table
from fairwarning.core.errors import FairwarningError
from fairwarning.service.fleet import Fleet
from fairwarning.service.settings import Cloud, ControlPlane
from fairwarning.service.tokens import Forbidden, Principal, Role, Tokens, Unauthorized

log = logging.getLogger(__name__)

MODULES = (
    login, subscriptions, groups, machines, scalesets, instances, availability, cloudservices,
    network, images, deployments, maintenance, operations,
)  # fmt: skip
NOBODY = Principal(name="nobody", role=Role.READER)
"""Who asks what everybody may."""


def application(
    fleet: Fleet, cloud: Cloud, tokens: Tokens, settings: ControlPlane | None = None
) -> "Application":
    """The control plane of one service."""
    return Application(Plane(fleet, cloud, settings or ControlPlane(), tokens))


class Application:
    """Every request goes through here."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.table = Table(route for module in MODULES for route in module.ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except FairwarningError as error:
            response = _refused(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("a request failed: %s %s", request.method, scope["path"])
            response = _refused(FairwarningError("Bug", ""))
        response.headers.setdefault("x-ms-request-id", str(uuid.uuid4()))
        response.headers["Cache-Control"] = "no-store"
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        match = self.table.find(request.method, request.scope["path"])
        if isinstance(match, Match) and match.route.public:
            return await match.route.handler(self.plane, Call(request, match.params, NOBODY))
        principal = self.plane.tokens.read(_bearer(request))
        if not isinstance(match, Match):
            raise _no_route(request, match)
        call = Call(request, match.params, principal, version_of(request))
        base_url(request)  # which answers will name: refused before anything is done
        self._check(call, match)
        return await match.route.handler(self.plane, call)

    def _check(self, call: Call, match: Match) -> None:
        """Nobody changes or sees what is not theirs."""
        subscription, group = match.params.get("subscription"), match.params.get("group")
        if subscription and subscription.lower() != self.plane.cloud.subscription.lower():
            text = f"The subscription '{subscription[:80]}' could not be found."
            raise Wrong("SubscriptionNotFound", text, 404)
        own = call.principal.group
        foreign = own and group and own.lower() != group.lower()
        reads_only = call.principal.role is Role.READER and match.route.writes
        if foreign or reads_only:
            raise Forbidden(
                "AuthorizationFailed",
                f"The client '{call.principal.name}' does not have authorization to perform action "
                f"'{match.route.action}' over scope '{call.path}'.",
            )


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        text = "Authentication failed. The 'Authorization' header is missing."
        raise Unauthorized("AuthenticationFailed", text)
    return token.strip()


def _no_route(request: Request, allowed: set[str]) -> Wrong:
    if allowed:
        text = f"{request.method} is not supported here; {', '.join(sorted(allowed))} is."
        return Wrong("MethodNotAllowed", text, 405)
    text = f"There is nothing at '{request.scope['path'][:200]}'."
    return Wrong("InvalidResourceType", text, 404)


def _refused(error: FairwarningError) -> Response:
    status, body = errors.told(error)
    headers = {}
    if status == Unauthorized.status:
        headers["WWW-Authenticate"] = 'Bearer realm="fairwarning"'
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "5"
    return answer(body, status, headers)

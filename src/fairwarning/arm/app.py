"""The control plane as an ASGI application: who asks, may they, and which handler answers (C3)."""

import logging
import uuid
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairwarning.arm.http import errors
from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import ArmRequest, answer, base_url, version_of
from fairwarning.arm.http.routes import RouteMatch, RouteTable
from fairwarning.arm.identity import login
from fairwarning.arm.resources import (
    availability,
    cloud_services,
    deployments,
    groups,
    images,
    instances,
    machines,
    maintenance,
    network,
    operations,
    scale_sets,
    subscriptions,
)
from fairwarning.core.errors import FairwarningError
from fairwarning.service.config.settings import ArmSettings, CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import Forbidden, Principal, Role, Tokens, Unauthorized

log = logging.getLogger(__name__)

MODULES = (
    login, subscriptions, groups, machines, scale_sets, instances, availability, cloud_services,
    network, images, deployments, maintenance, operations,
)  # fmt: skip
NOBODY = Principal(name="nobody", role=Role.READER)
"""Who asks what everybody may."""


def application(
    fleet: Fleet, cloud: CloudSettings, tokens: Tokens, settings: ArmSettings | None = None
) -> "ArmApplication":
    """The control plane of one service."""
    return ArmApplication(ArmContext(fleet, cloud, settings or ArmSettings(), tokens))


class ArmApplication:
    """Every request goes through here."""

    def __init__(self, plane: ArmContext) -> None:
        self.plane = plane
        self.table = RouteTable(route for module in MODULES for route in module.ROUTES)

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
        if isinstance(match, RouteMatch) and match.route.public:
            return await match.route.handler(self.plane, ArmRequest(request, match.params, NOBODY))
        principal = self.plane.tokens.read(_bearer(request))
        if not isinstance(match, RouteMatch):
            raise _no_route(request, match)
        call = ArmRequest(request, match.params, principal, version_of(request))
        base_url(request)  # which answers will name: refused before anything is done
        self._check(call, match)
        return await match.route.handler(self.plane, call)

    def _check(self, call: ArmRequest, match: RouteMatch) -> None:
        """Nobody changes or sees what is not theirs."""
        subscription, group = match.params.get("subscription"), match.params.get("group")
        if subscription and subscription.lower() != self.plane.cloud.subscription.lower():
            text = f"The subscription '{subscription[:80]}' could not be found."
            raise ArmError("SubscriptionNotFound", text, 404)
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


def _no_route(request: Request, allowed: set[str]) -> ArmError:
    if allowed:
        text = f"{request.method} is not supported here; {', '.join(sorted(allowed))} is."
        return ArmError("MethodNotAllowed", text, 405)
    text = f"There is nothing at '{request.scope['path'][:200]}'."
    return ArmError("InvalidResourceType", text, 404)


def _refused(error: FairwarningError) -> Response:
    status, body = errors.from_error(error)
    headers = {}
    if status == Unauthorized.status:
        headers["WWW-Authenticate"] = 'Bearer realm="fairwarning"'
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "5"
    return answer(body, status, headers)

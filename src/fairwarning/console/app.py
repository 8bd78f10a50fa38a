"""The console application: the operator API, the web page, and health and metrics endpoints (O10).

Health and metrics need no token.
"""

from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from fairwarning.console import access
from fairwarning.console.api import Api
from fairwarning.console.api.about import ControlPlane
from fairwarning.console.api.integrations import LoadWebhooks, ScenarioRunner
from fairwarning.console.api.routes import Routes
from fairwarning.console.health import find_problem
from fairwarning.console.login import Login
from fairwarning.console.metrics import CONTENT_TYPE, MetricSource, exposition
from fairwarning.console.origin_check import OriginCheck
from fairwarning.console.page.page import Page
from fairwarning.console.readers import FindUrls, ReaderContext, no_urls
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.service.config.settings import CloudSettings, ConsoleSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import IssuedTokens


@dataclass(frozen=True)
class ConsoleParts:
    """The objects and settings that a console is built from."""

    fleet: Fleet
    metrics: MetricSource
    tokens: IssuedTokens
    webhooks: LoadWebhooks
    closing: ShutdownSignal
    key: str  # in the login link
    cloud: CloudSettings = field(default_factory=CloudSettings)
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    scenarios: ScenarioRunner | None = None
    machine_urls: FindUrls = no_urls
    control_plane: ControlPlane = field(default_factory=ControlPlane)


def application(parts: ConsoleParts) -> Starlette:
    """Build the console of one service."""
    api = Api(
        parts.fleet,
        parts.cloud,
        parts.webhooks,
        parts.tokens,
        parts.scenarios,
        machine_urls=parts.machine_urls,
        control_plane=parts.control_plane,
    )
    page = Page(api, parts.fleet, lambda request: access.authorize(request, parts.tokens.verifier))
    return Starlette(
        routes=[
            *_health_routes(parts),
            *Routes(api, parts.tokens, parts.closing).all(),
            *Login(parts.tokens, parts.key).routes(),
            *page.routes(),
        ],
        exception_handlers={HTTPException: _routing_error},
        middleware=[
            Middleware(OriginCheck, hosts=parts.settings.hosts),
            Middleware(ReaderContext),
        ],
    )


async def _routing_error(request: Request, error: Exception) -> Response:
    """Report an unknown path or a method that the path does not allow."""
    assert isinstance(error, HTTPException)
    routes = [
        route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE
    ]
    allowed = sorted({method for route in routes for method in route.methods})
    text = f"{error.detail}; GET /api/openapi.json lists the endpoints"
    detail = {"code": error.detail.title().replace(" ", ""), "message": text}
    headers = {"Allow": ", ".join(allowed)} if allowed else None
    return JSONResponse({"error": detail}, error.status_code, headers)


def _health_routes(parts: ConsoleParts) -> list[Route]:
    render_metrics = exposition(parts.metrics)

    async def healthz(_: Request) -> Response:
        """Report that the process is alive."""
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """Report whether the service accepts commands; it answers polls in any case (IS4)."""
        if problem := await find_problem(parts.fleet):
            return JSONResponse({"status": problem.status, "error": problem.text}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(_: Request) -> Response:
        return Response(render_metrics(), media_type=CONTENT_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]

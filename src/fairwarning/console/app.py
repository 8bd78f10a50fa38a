"""The console application: the operator API, the web page, and health and metrics endpoints (O10).

Health and metrics need no token.
"""

from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from fairwarning.console import access
from fairwarning.console.api import Api
from fairwarning.console.api.routes import Routes
from fairwarning.console.api.service import OtherPorts
from fairwarning.console.api.webhooks import LoadWebhooks
from fairwarning.console.health import read_health
from fairwarning.console.login import Login
from fairwarning.console.metrics import CONTENT_TYPE, MetricSource, Scrapes, exposition
from fairwarning.console.origin_check import OriginCheck
from fairwarning.console.page.page import Page
from fairwarning.console.readers import FindUrls, ReaderContext, no_urls
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.service.config.settings import CloudSettings, ConsoleSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import HealthSource
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
    health: HealthSource = tuple  # of the parts beside the fleet
    cloud: CloudSettings = field(default_factory=CloudSettings)
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    machine_urls: FindUrls = no_urls
    other_ports: OtherPorts = field(default_factory=OtherPorts)


def application(parts: ConsoleParts) -> Starlette:
    """Build the console of one service."""
    api = Api(
        parts.fleet,
        parts.cloud,
        parts.webhooks,
        parts.tokens,
        health=parts.health,
        machine_urls=parts.machine_urls,
        other_ports=parts.other_ports,
    )
    page = Page(api, parts.fleet, lambda request: access.authorize(request, parts.tokens.verifier))
    return Starlette(
        routes=[
            *_health_routes(parts),  # first, as routes are tried in order: these need no token
            *Login(parts.tokens, parts.key).routes(),
            *Routes(api, parts.tokens, parts.closing).all(),
            *page.routes(),
        ],
        exception_handlers={HTTPException: partial(_routing_error, page)},
        middleware=[
            Middleware(OriginCheck, hosts=parts.settings.hosts),
            Middleware(ReaderContext),
        ],
    )


async def _routing_error(page: Page, request: Request, error: Exception) -> Response:
    """Report an unknown path or a method that the path does not allow; to a browser, on a page."""
    assert isinstance(error, HTTPException)
    unknown = error.status_code == HTTPStatus.NOT_FOUND
    by_browser = "text/html" in request.headers.get("accept", "")
    if unknown and by_browser and not request.url.path.startswith("/api/"):
        return await page.unknown(request)
    routes = () if unknown else request.app.routes
    matching = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    allowed = sorted({method for route in matching for method in route.methods})
    text = f"{error.detail}; GET /api/openapi.json lists the endpoints"
    detail = {"code": error.detail.title().replace(" ", ""), "message": text}
    headers = {"Allow": ", ".join(allowed)} if allowed else None
    return JSONResponse({"error": detail}, error.status_code, headers)


def _health_routes(parts: ConsoleParts) -> list[Route]:
    scrapes = Scrapes(exposition(parts.metrics))

    async def healthz(_: Request) -> Response:
        """Report that the process is alive."""
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """Report whether the service accepts commands, and the problem of each part (IB5)."""
        health = await read_health(parts.fleet, parts.health)
        error = {"error": health.problem} if health.problem else {}
        listed = [{"name": part.name, "problem": part.problem} for part in health.parts]
        answer = {"status": health.status, **error, "parts": listed}
        return JSONResponse(answer, 503 if health.problem else 200)

    async def metrics(_: Request) -> Response:
        return Response(await scrapes.render(), media_type=CONTENT_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]

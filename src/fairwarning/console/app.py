"""The console: health and metrics (O10), which need no token, the operator's API, and the page."""

from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from fairwarning.console import access
from fairwarning.console.api import Api
from fairwarning.console.api.integrations import Hooks, ScenarioRunner
from fairwarning.console.api.routes import Routes
from fairwarning.console.login import Login
from fairwarning.console.metrics import CONTENT_TYPE, Figures, exposition
from fairwarning.console.origin_check import OriginCheck
from fairwarning.console.page.page import Page
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.service.config.settings import CloudSettings, ConsoleSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import Tokens


@dataclass(frozen=True)
class ConsoleParts:
    """What a console is made of."""

    fleet: Fleet
    figures: Figures
    tokens: Tokens
    webhooks: Hooks
    closing: ShutdownSignal
    key: str  # of the link that leads to the page
    cloud: CloudSettings = field(default_factory=CloudSettings)
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    scenarios: ScenarioRunner | None = None


def application(parts: ConsoleParts) -> Starlette:
    """The console of one service."""
    api = Api(parts.fleet, parts.cloud, parts.webhooks, parts.scenarios)
    page = Page(api, parts.fleet, lambda request: access.check(request, parts.tokens))
    return Starlette(
        routes=[
            *_health(parts),
            *Routes(api, parts.tokens, parts.closing).all(),
            *Login(parts.tokens, parts.key).routes(),
            *page.routes(),
        ],
        exception_handlers={HTTPException: _unrouted},
        middleware=[Middleware(OriginCheck, hosts=parts.settings.hosts)],
    )


async def _unrouted(request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    assert isinstance(error, HTTPException)
    near = [one for one in request.app.routes if one.matches(request.scope)[0] is not Match.NONE]
    allowed = sorted({method for one in near for method in one.methods})
    text = f"{error.detail}; GET /api/openapi.json lists what there is"
    told = {"code": error.detail.title().replace(" ", ""), "message": text}
    headers = {"Allow": ", ".join(allowed)} if allowed else None
    return JSONResponse({"error": told}, error.status_code, headers)


def _health(parts: ConsoleParts) -> list[Route]:
    shown = exposition(parts.figures)

    async def healthz(_: Request) -> Response:
        """The process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """Commands are taken; polls are answered even when they are not (IS4)."""
        if parts.fleet.broken:
            error = "writes have stopped, reads go on; the log says why"
            return JSONResponse({"status": "stopped", "error": error}, 503)
        if parts.fleet.documents.is_stale():
            error = "the database has been away for too long; polls are refused until it is back"
            return JSONResponse({"status": "stale", "error": error}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(_: Request) -> Response:
        return Response(shown(), media_type=CONTENT_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]

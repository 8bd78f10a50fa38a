"""The console: health and metrics (O10), which need no token, and the operator's API."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairwarning.console.api import Api
from fairwarning.console.metrics import CONTENT_TYPE, Figures, exposition
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import Tokens


def application(fleet: Fleet, figures: Figures, tokens: Tokens) -> Starlette:
    """The console of one service."""
    shown = exposition(figures)

    async def healthz(_: Request) -> Response:
        """The process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """Commands are taken; polls are answered even when they are not (IS4)."""
        if fleet.broken:
            error = "writes have stopped, reads go on; the log says why"
            return JSONResponse({"status": "stopped", "error": error}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(_: Request) -> Response:
        return Response(shown(), media_type=CONTENT_TYPE)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            *Api(fleet, tokens).routes(),
        ]
    )

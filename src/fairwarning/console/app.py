"""The console application: the operator API, the web page, health and metrics."""

from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from fairwarning.console.access import OriginCheck
from fairwarning.console.api import Api
from fairwarning.console.api.routes import Routes
from fairwarning.console.api.section import ConsoleParts
from fairwarning.console.login import Login
from fairwarning.console.metrics import health_routes
from fairwarning.console.page.page import Page
from fairwarning.console.readers import ReaderContext


def application(parts: ConsoleParts) -> Starlette:
    """Build the console of one service."""
    api = Api(parts)
    page = Page(api)
    return Starlette(
        routes=[
            *health_routes(parts),  # first, as routes are tried in order: these need no token
            *Login(parts.tokens, parts.key).routes(),
            *Routes(api).all(),
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

"""The page's routes: who looks, what is shown, and what becomes of a form."""

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fairwarning.console.api import Api
from fairwarning.console.page import (
    clock,
    events,
    faults,
    fleet,
    forms,
    journal,
    machines,
    rollouts,
    scenarios,
    sets,
)
from fairwarning.console.page.forms import FormDone, FormRefused
from fairwarning.console.page.preview import fresh
from fairwarning.console.page.render import environment
from fairwarning.console.page.request import Deed, Deeds, PageContent, PageRequest, View, Views
from fairwarning.core.errors import FairwarningError, NotFound
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import Principal, Role, Unauthorized

_VIEWS: Views = [
    *fleet.VIEWS,
    *machines.VIEWS,
    *sets.VIEWS,
    *events.VIEWS,
    *rollouts.VIEWS,
    *scenarios.VIEWS,
    *journal.VIEWS,
    *faults.VIEWS,
]
_DEEDS: Deeds = [
    *clock.DEEDS,
    *machines.DEEDS,
    *sets.DEEDS,
    *events.DEEDS,
    *rollouts.DEEDS,
    *scenarios.DEEDS,
    *faults.DEEDS,
]
_FILES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_SEE_OTHER = 303
_NOTICE = "fairwarning_notice"  # a cookie: what the page after a redirect says, once
_NOTICE_SECONDS = 30
_NOTICE_CHARACTERS = 1000
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Page:
    """The routes of the page, over the same functions as the API."""

    def __init__(self, api: Api, fleet: Fleet, who: Callable[[Request], Principal]) -> None:
        self._api = api
        self._fleet = fleet
        self._who = who
        self._env = environment()

    def routes(self) -> list[Route]:
        """Every page, every form, and the files they use."""
        return [
            Route("/static/{name}", self._static, methods=["GET"]),
            *(self._post(*deed) for deed in _DEEDS),
            *(self._get(*view) for view in _VIEWS),
        ]

    # --- Looking ---

    def _get(self, path: str, view: View) -> Route:
        async def handle(request: Request) -> Response:
            try:
                return await self._show(self._visit(request), view)
            except FairwarningError as error:
                return await self._error(request, error)

        return Route(path, handle, methods=["GET"])

    def _visit(self, request: Request) -> PageRequest:
        principal = self._who(request)
        may = principal.role is Role.OPERATOR
        return PageRequest(request, self._api, self._fleet, principal.name, may=may)

    async def _show(self, visit: PageRequest, view: View) -> Response:
        shown = await view(visit)
        # Our script only looks for what is new; the notice is for whoever comes from a form.
        kept = "" if _scripted(visit.request) else visit.request.cookies.get(_NOTICE, "")
        notice = unquote(kept)[:_NOTICE_CHARACTERS]
        response = await self._html(visit, replace(shown, data={"notice": notice, **shown.data}))
        if notice:
            response.delete_cookie(_NOTICE)
        return response

    async def _html(self, visit: PageRequest, shown: PageContent, status: int = 200) -> Response:
        here = _path(visit.request)
        data = {
            "logged_in": True,
            "may": visit.may,
            "here": here,
            "back": here if visit.request.method == "GET" else "/",
            "failed": visit.failed,
            "clock": self._api.clock(),
            "notice": "",
        }
        html = self._env.get_template(shown.template).render(data | dict(shown.data))
        return HTMLResponse(html, visit.failed.status if visit.failed else status, HEADERS)

    # --- Doing ---

    def _post(self, path: str, deed: Deed, view: View) -> Route:
        async def handle(request: Request) -> Response:
            try:
                visit = replace(self._visit(request), form=await forms.read(request))
            except FairwarningError as error:
                return await self._error(request, error)
            try:
                return _done(request, await deed(visit))
            except FairwarningError as error:
                return await self._refused(visit, view, error)

        return Route(path, handle, methods=["POST"])

    async def _refused(self, visit: PageRequest, view: View, error: FairwarningError) -> Response:
        """Beside the form, with what stood in it."""
        request, message = visit.request, error.message
        if _scripted(request):
            return JSONResponse({"error": message}, error.status, HEADERS)
        failed = FormRefused(_path(request), message, error.status, visit.form.given())
        try:
            return await self._show(replace(visit, failed=failed), view)
        except FairwarningError:  # what the form was about is gone
            return await self._error(request, error)

    async def _error(self, request: Request, error: FairwarningError) -> Response:
        if _scripted(request):
            return JSONResponse({"error": error.message}, error.status, HEADERS)
        if isinstance(error, Unauthorized):
            return RedirectResponse("/login", _SEE_OTHER, HEADERS)
        title = "Not found" if isinstance(error, NotFound) else "That did not work"
        shown = PageContent(
            "error.html", {"title": title, "message": error.message, "logged_in": False}
        )
        return await self._html(PageRequest(request, self._api, self._fleet), shown, error.status)

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response(status_code=404)
        content = files(__package__).joinpath("static", name).read_bytes()
        kept = {**HEADERS, "Cache-Control": "no-cache"}
        return Response(content, media_type=_FILES[name], headers=kept)


def _path(request: Request) -> str:
    """The path as our links and forms spell it: names may hold anything printable."""
    return quote(request.scope["path"])


def _scripted(request: Request) -> bool:
    """Whether our script asks, which shows the answer itself."""
    return "x-page" in request.headers


def _done(request: Request, done: FormDone) -> Response:
    """Back to a page, which says what was done: by itself if it is the page that asked."""
    if not _scripted(request):
        response: Response = RedirectResponse(done.to, _SEE_OTHER, HEADERS)
    else:
        told = {"notice": done.notice, "to": done.to, "key": fresh()}
        response = JSONResponse(told, headers=HEADERS)
        if unquote(request.headers["x-page"]) == unquote(done.to):
            return response
    notice = quote(done.notice[:_NOTICE_CHARACTERS])
    response.set_cookie(_NOTICE, notice, _NOTICE_SECONDS, httponly=True, samesite="strict")
    return response
